import { useState } from 'react';
import type { BatchExport } from '../api-types.ts';
import { exportsPageSize } from '../client.ts';
import { useConsole } from '../console-context.ts';
import { byUrgency, describeDestination, describeInterval, isBusy } from '../export-health.ts';
import { useNow } from '../now.ts';
import { plural } from '../numbers.ts';
import { DeleteExportButton, PauseButton } from '../parts/export-actions.tsx';
import { HealthBadges, Lag, NextRun } from '../parts/export-state.tsx';
import { Empty, Failure, Loading } from '../parts/notice.tsx';
import { Pager } from '../parts/pager.tsx';
import { RunStrip } from '../parts/status.tsx';
import { hrefOf } from '../route.ts';
import { useResource } from '../use-resource.ts';
import { useTitle } from '../use-title.ts';

/** All exports of the project, the most urgent first. */
export function ExportsPage() {
  const { client, may } = useConsole();
  const [offset, setOffset] = useState(0);
  const now = useNow();
  const { data, failure, reload } = useResource({
    key: `exports ${offset}`,
    load: (signal) => client.listExports(offset, signal),
    pollMs: (page) => (page?.results.some(isBusy) ? 4_000 : 15_000),
  });
  useTitle('Exports');
  return (
    <>
      <div className="row heading">
        <h1>Exports</h1>
        {data && data.count > 0 && <span className="muted">{plural(data.count, 'export')}</span>}
        {may('batch_export:write') && (
          <a className="button primary last" href={hrefOf({ page: 'new' })}>
            New export
          </a>
        )}
      </div>
      <Failure failure={failure} onRetry={reload} stale={data !== null} />
      {!data && !failure && <Loading lines={5} />}
      {data?.count === 0 && (
        <Empty title="No exports yet">
          <p>An export ships new rows to a destination at a fixed interval.</p>
          {may('batch_export:write') && (
            <a className="button primary" href={hrefOf({ page: 'new' })}>
              Create the first export
            </a>
          )}
        </Empty>
      )}
      {data && data.results.length > 0 && (
        <ul className="card">
          {byUrgency(data.results, now).map((batchExport) => (
            <ExportRow key={batchExport.id} batchExport={batchExport} onChanged={reload} />
          ))}
        </ul>
      )}
      {data && (
        <Pager
          onNewer={offset > 0 ? () => setOffset(Math.max(0, offset - exportsPageSize)) : null}
          onOlder={data.next ? () => setOffset(offset + exportsPageSize) : null}
        />
      )}
    </>
  );
}

interface RowProps {
  readonly batchExport: BatchExport;
  readonly onChanged: () => void;
}

function ExportRow({ batchExport, onChanged }: RowProps) {
  const { id, name, interval, latest_runs, paused, paused_reason } = batchExport;
  return (
    <li className="export">
      <div className="export-name">
        <h2 className="row">
          <a href={hrefOf({ page: 'export', exportId: id, tab: 'runs' })}>{name}</a>
          <HealthBadges batchExport={batchExport} />
        </h2>
        <p className="muted small one-line" title={describeDestination(batchExport)}>
          {describeInterval(interval)} · {describeDestination(batchExport)}
        </p>
        {paused && paused_reason !== null && <p className="warn-text small">{paused_reason}</p>}
      </div>
      <div className="export-fact">
        <span className="caption">Latest runs</span>
        <RunStrip runs={latest_runs} exportId={id} />
      </div>
      <div className="export-fact">
        <span className="caption">Next run</span>
        <NextRun batchExport={batchExport} />
      </div>
      <div className="export-fact">
        <span className="caption">Complete up to</span>
        <Lag batchExport={batchExport} />
      </div>
      <div className="export-buttons">
        <PauseButton batchExport={batchExport} onChanged={onChanged} />
        <DeleteExportButton batchExport={batchExport} onChanged={onChanged} />
      </div>
    </li>
  );
}
