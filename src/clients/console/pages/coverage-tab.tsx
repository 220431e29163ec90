import { type KeyboardEvent, useEffect, useRef, useState } from 'react';
import type { BatchExport, Coverage } from '../api-types.ts';
import { useConsole } from '../use-api.ts';
import {
  countStates,
  type GridRow,
  gridRows,
  lateRowsIn,
  pageBounds,
  shapeOf,
  stateLooks,
} from '../coverage-grid.ts';
import { describeMissing } from '../export-health.ts';
import { IntervalText, useNow } from '../parts/time-text.tsx';
import { plural } from '../numbers.ts';
import { ExportAgainButton } from '../parts/run-problem.tsx';
import { Pending } from '../parts/notice.tsx';
import { Pager } from '../parts/pager.tsx';
import { fromAt, offsetOf, useQuery } from '../use-route.ts';
import { BackfillForm, type BackfillStart } from './backfills-tab.tsx';
import { useCoverage } from './elements-tab.tsx';

/** The state of every data interval as a grid, and a backfill of the cells that are selected. */
export function CoverageTab({ batchExport }: { batchExport: BatchExport }) {
  const { may } = useConsole();
  const { id, interval, missing } = batchExport;
  const { query, setQuery } = useQuery();
  const page = offsetOf(query);
  const turnTo = (to: number) => () => setQuery({ from: fromAt(to) });
  const [selected, setSelected] = useState<Span | null>(null);
  const shape = shapeOf(interval);
  const bounds = pageBounds(shape, page, useNow());
  const [from, to] = [new Date(bounds.start), new Date(bounds.end)];
  const asked = { id, from: from.toISOString(), to: to.toISOString() };
  const { data, failure, reload } = useCoverage(asked);
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

interface SelectionProps {
  readonly batchExport: BatchExport;
  readonly selected: Span;
  /** Null if the grid does not show all of it. */
  readonly counts: string | null;
  /** The intervals of it whose late rows wait for a person. */
  readonly waits: Coverage['late_rows_wait'];
}

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

/** Milliseconds, from the start of the first selected cell to the end of the last. */
interface Span {
  readonly start: number;
  readonly end: number;
}

interface Props {
  readonly columns: readonly string[];
  readonly rows: readonly GridRow[];
  readonly cellMs: number;
  readonly selected: Span | null;
  readonly onSelect: (span: Span) => void;
}

/** Drag over cells to select a range, or tap its first and last cell, or use the arrow keys with Shift. */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: one form or table, from top to bottom
function CoverageTable({ columns, rows, cellMs, selected, onSelect }: Props) {
  const newest = rows[0]?.cells.at(-1)?.start ?? 0;
  const oldest = rows.at(-1)?.cells[0]?.start ?? 0;
  /** The first cell of a selection, and the cell that has the focus. */
  const [anchor, setAnchor] = useState<number | null>(null);
  const [focused, setFocused] = useState(newest);
  const table = useRef<HTMLTableElement>(null);
  const isDragging = useRef(false);
  useEffect(() => {
    const stop = () => {
      isDragging.current = false;
    };
    window.addEventListener('pointerup', stop);
    return () => window.removeEventListener('pointerup', stop);
  }, []);

  // On a phone the newest hours are at the far end.
  useEffect(() => {
    const requested = 'td:not(.state-none, .state-never_asked)';
    const row = table.current?.querySelector(requested)?.closest('tr');
    const last = [...(row?.querySelectorAll<HTMLElement>(requested) ?? [])].at(-1);
    const scrolled = table.current?.parentElement;
    if (!scrolled || !last) return;
    scrolled.scrollLeft = last.offsetLeft + last.offsetWidth - scrolled.clientWidth;
  }, []);

  const select = (from: number, to: number) =>
    onSelect({ start: Math.min(from, to), end: Math.max(from, to) + cellMs });
  const begin = (at: number, extend: boolean) => {
    const from = extend && anchor !== null ? anchor : at;
    setAnchor(from);
    setFocused(at);
    select(from, at);
  };
  const move = (event: KeyboardEvent) => {
    // Newer rows are above older ones.
    const steps: Readonly<Record<string, number>> = {
      ArrowLeft: -1,
      ArrowRight: 1,
      ArrowUp: columns.length,
      ArrowDown: -columns.length,
    };
    const step = steps[event.key];
    if (step === undefined) {
      if (event.key !== 'Enter' && event.key !== ' ') return;
      event.preventDefault();
      begin(focused, event.shiftKey);
      return;
    }
    event.preventDefault();
    const to = Math.min(newest, Math.max(oldest, current + step * cellMs));
    setFocused(to);
    table.current?.querySelector<HTMLElement>(`[data-at="${to}"]`)?.focus();
    if (!event.shiftKey) return;
    const from = anchor ?? current;
    setAnchor(from);
    select(from, to);
  };
  const current = Math.min(newest, Math.max(oldest, focused));
  /** A finger scrolls, so it cannot drag: after the first cell it taps the last one. */
  const isSecondTap = (type: string) =>
    type === 'touch' && selected !== null && selected.end - selected.start === cellMs;
  return (
    <table
      ref={table}
      className="coverage"
      // biome-ignore lint/a11y/noNoninteractiveElementToInteractiveRole: a table whose cells are selected.
      role="grid"
      aria-label="Coverage"
      aria-multiselectable="true"
      onKeyDown={move}
    >
      <thead>
        <tr>
          <th scope="col">
            <span className="unseen">Day</span>
          </th>
          {columns.map((name) => (
            <th key={name} scope="col">
              {name}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map(({ name, cells }) => (
          <tr key={name}>
            <th scope="row">{name}</th>
            {cells.map(({ start, state, glyph, text }) => {
              const isSelected =
                selected !== null && start >= selected.start && start < selected.end;
              return (
                <td
                  key={start}
                  // biome-ignore lint/a11y/noNoninteractiveElementToInteractiveRole: a cell of a grid.
                  role="gridcell"
                  data-at={start}
                  className={`state-${state ?? 'none'}`}
                  aria-selected={isSelected}
                  title={text}
                  tabIndex={start === current ? 0 : -1}
                  onPointerDown={(event) => {
                    isDragging.current = event.pointerType === 'mouse';
                    begin(start, event.shiftKey || isSecondTap(event.pointerType));
                  }}
                  onPointerEnter={() => {
                    if (isDragging.current && anchor !== null) select(anchor, start);
                  }}
                >
                  <span className="unseen">{text}</span>
                  <span aria-hidden="true">{glyph}</span>
                </td>
              );
            })}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
