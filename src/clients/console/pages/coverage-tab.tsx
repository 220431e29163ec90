import { useState } from 'react';
import type { BatchExport, Coverage } from '../api-types.ts';
import { useConsole } from '../console-context.ts';
import {
  countStates,
  gridRows,
  lateRowsIn,
  pageBounds,
  shapeOf,
  stateLooks,
} from '../coverage-grid.ts';
import { describeMissing } from '../export-health.ts';
import { useNow } from '../now.ts';
import { plural } from '../numbers.ts';
import { CoverageTable, type Span } from '../parts/coverage-table.tsx';
import { ExportAgainButton } from '../parts/export-again.tsx';
import { Pending } from '../parts/notice.tsx';
import { Pager } from '../parts/pager.tsx';
import { IntervalText } from '../parts/time-text.tsx';
import { fromAt, offsetOf, useQuery } from '../use-query.ts';
import { useResource } from '../use-resource.ts';
import { BackfillForm, type BackfillStart } from './backfill-form.tsx';

type Range = Coverage['ranges'][number];

/** The state of every data interval as a grid, and a backfill of the cells that are selected. */
export function CoverageTab({ batchExport }: { batchExport: BatchExport }) {
  const { api, may } = useConsole();
  const { id, interval, missing } = batchExport;
  const { query, setQuery } = useQuery();
  const page = offsetOf(query);
  const turnTo = (to: number) => () => setQuery({ from: fromAt(to) });
  const [selected, setSelected] = useState<Span | null>(null);
  const shape = shapeOf(interval);
  const bounds = pageBounds(shape, page, useNow());
  const { data, failure, reload } = useResource<Coverage>({
    key: [id, bounds.start, bounds.end].join(),
    load: (signal) => {
      const [from, to] = [new Date(bounds.start), new Date(bounds.end)];
      const values = { id, from: from.toISOString(), to: to.toISOString() };
      return api.get('batch_exports/{id}/coverage', values, signal);
    },
    pollMs: (page) => (page?.ranges.some(isLive) ? 3_000 : 15_000),
  });
  const ranges = data?.ranges ?? [];
  // A backfill ends with the last complete interval.
  const complete = data?.to ? Date.parse(data.to) : bounds.end;
  const select = ({ start, end }: Span) => setSelected({ start, end: Math.min(end, complete) });
  return (
    <section aria-label="Coverage of the export">
      <div className="row">
        <p className="muted small">
          Times are in UTC. Select cells to{' '}
          {may('batch_export:write') ? 'export them again' : 'count their states'}: drag, tap the
          first and the last, or use the arrow keys with Shift.
        </p>
        {missing.since !== null && page === 0 && (
          <div className="row last">
            <span className="warn-text small">{describeMissing(batchExport)}</span>
            <ExportAgainButton
              exportId={id}
              again={{
                start: missing.since,
                end: new Date(complete).toISOString(),
                intervals: missing.count,
                reprocess: 'missing',
              }}
            />
          </div>
        )}
      </div>
      <Pending {...{ data, failure, reload }} lines={8} />
      {data && (
        <div className="scroll">
          <CoverageTable
            columns={shape.columns}
            rows={gridRows(shape, bounds, ranges)}
            cellMs={shape.cellMs}
            selected={selected}
            onSelect={select}
          />
        </div>
      )}
      <Legend />
      <Pager
        onNewer={page === 0 ? null : turnTo(page - 1)}
        onOlder={bounds.start === 0 ? null : turnTo(page + 1)}
      />
      {selected && (
        <Selection
          key={`${selected.start} ${selected.end}`}
          {...{ batchExport, selected }}
          counts={selected.start < bounds.start ? null : countStates(ranges, selected)}
          waits={lateRowsIn(data?.late_rows_wait ?? [], selected)}
        />
      )}
    </section>
  );
}

const isLive = ({ state }: Range): boolean => state === 'running' || state === 'retrying';

interface SelectionProps {
  readonly batchExport: BatchExport;
  readonly selected: Span;
  /** Null if the grid does not show all of it. */
  readonly counts: string | null;
  /** The intervals of it whose late rows wait for a person. */
  readonly waits: Coverage['late_rows_wait'];
}

/** Reasons that a selection shows. */
const shownWaits = 5;

function Selection({ batchExport, selected, counts, waits }: SelectionProps) {
  const { may } = useConsole();
  const start = new Date(selected.start).toISOString();
  const end = new Date(selected.end).toISOString();
  const initial: BackfillStart = { start, end, reprocess: 'all' };
  return (
    <>
      <p role="status">
        <strong>
          <IntervalText start={start} end={end} />
        </strong>
        {counts !== null && `: ${counts}.`}
      </p>
      {waits.slice(0, shownWaits).map((wait) => (
        <p key={wait.start} className="small warn-text">
          <IntervalText start={wait.start} end={wait.end} /> {wait.why}
        </p>
      ))}
      {waits.length > shownWaits && (
        <p className="small muted">
          {plural(waits.length - shownWaits, 'more interval')} of this selection wait for you.
        </p>
      )}
      {may('batch_export:write') && <BackfillForm {...{ batchExport, initial }} />}
    </>
  );
}

function Legend() {
  return (
    <ul className="row legend small" aria-label="Signs">
      {Object.entries(stateLooks).map(([state, [glyph, name]]) => (
        <li key={state}>
          <span className={`sign state-${state}`} aria-hidden="true">
            {glyph}
          </span>{' '}
          {name}
        </li>
      ))}
    </ul>
  );
}
