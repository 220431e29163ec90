import type { Run } from '../api-types.ts';
import { useConsole } from '../console-context.ts';
import { describeLateRows, hasEnded, hasFailed } from '../export-health.ts';
import { formatBytes, formatCount, plural } from '../numbers.ts';
import { Fact, Facts } from '../parts/facts.tsx';
import { Loading, Trouble } from '../parts/notice.tsx';
import { RunDuration, RunRows } from '../parts/run-facts.tsx';
import { RunFileList } from '../parts/run-file-list.tsx';
import { RunProblem } from '../parts/run-problem.tsx';
import { RunStateText } from '../parts/status.tsx';
import { StepCounts } from '../parts/step-counts.tsx';
import { IntervalText, TimeText } from '../parts/time-text.tsx';
import { hrefOf } from '../route.ts';
import { attemptsOf } from '../run-state.ts';
import { useResource } from '../use-resource.ts';
import { ExportZone } from '../use-times.ts';
import { useTitle } from '../use-title.ts';
import { LogsView } from './logs-view.tsx';
import { RunActions } from './runs-tab.tsx';

/** One run and its logs. */
export function RunPage({ exportId, runId }: { exportId: string; runId: string }) {
  const { api, may } = useConsole();
  const batchExport = useResource({
    key: exportId,
    load: (signal) => api.get('batch_exports/{id}', { id: exportId }, signal),
    pollMs: (item) => (item ? null : 10_000),
  });
  const { data, failure, reload } = useResource({
    key: runId,
    load: (signal) =>
      api.get(
        'batch_exports/{batch_export_id}/runs/{id}',
        { batch_export_id: exportId, id: runId },
        signal,
      ),
    // Of a run that has ended it may become true that its interval was exported later.
    pollMs: (run) => (run && hasEnded(run) ? 15_000 : 3_000),
  });
  useTitle('Run');
  return (
    <ExportZone value={batchExport.data?.timezone ?? 'UTC'}>
      <nav className="crumbs small" aria-label="Place">
        <a href={hrefOf({ page: 'exports' })}>Exports</a>
        <a href={hrefOf({ page: 'export', exportId, tab: 'runs' })}>
          {batchExport.data?.name ?? 'Export'}
        </a>
      </nav>
      <Trouble what="run" failure={failure} onRetry={reload} stale={data !== null} />
      {!data && !failure && <Loading lines={8} />}
      {data && (
        <>
          <div className="row heading">
            <h1>
              <IntervalText start={data.data_interval_start} end={data.data_interval_end} />
            </h1>
            <RunStateText run={data} />
            {(data.latest_error === null || !hasEnded(data)) && (
              <div className="row last">
                <RunActions run={data} />
              </div>
            )}
          </div>
          <RunProblem run={data} />
          <RunFacts run={data} />
          {data.steps && data.steps.length > 0 && <StepCounts steps={data.steps} />}
          {data.status === 'Completed' && may('batch_export:read') && (
            <RunFileList exportId={exportId} runId={runId} />
          )}
          <h2 className="section">Logs</h2>
          <LogsView exportId={exportId} runId={runId} live={!hasEnded(data)} />
        </>
      )}
    </ExportZone>
  );
}

function RunFacts({ run }: { run: Run }) {
  return (
    <Facts>
      {!hasFailed(run) && (
        <Fact name="Rows">
          <RunRows run={run} />
        </Fact>
      )}
      {run.element && (
        <Fact name="Element">
          {run.element.base === null
            ? `${run.element.number}: what changed since element ${run.element.follows}, ${plural(run.element.deletes, 'delete')}`
            : `${run.element.number}: a base with all rows, because ${run.element.base}`}{' '}
          <small className="muted">
            versions {run.element.from_version ?? 'of all rows'} to{' '}
            {run.element.next_version ?? 'not known'}, at <TimeText at={run.element.snapshot_at} />
          </small>
        </Fact>
      )}
      {run.records_dropped > 0 && (
        <Fact name="Dropped by transformations">{formatCount(run.records_dropped)}</Fact>
      )}
      {run.records_rejected > 0 && <Fact name="Rejected">{formatCount(run.records_rejected)}</Fact>}
      {run.purpose === 'supplement' && <Fact name="Late rows">{describeLateRows(run)}</Fact>}
      {run.settled === false && (
        <Fact name="Settled">
          <span className="warn-text">
            no: rows may still arrive, Sluice checks the interval again
          </span>
        </Fact>
      )}
      {run.step !== null && (
        <Fact name="Now">
          <span className={run.step.is_long ? 'warn-text' : undefined}>{run.step.text}</span>
        </Fact>
      )}
      {run.waiting_for !== null && (
        <Fact name="Waits for">
          {run.waiting_for.join(', ') || 'transactions of the source that can still add rows'}
        </Fact>
      )}
      {!hasFailed(run) && (
        <Fact name="Size">
          {formatBytes(run.bytes_exported)}{' '}
          <small className="muted">in {plural(run.files, 'file')}</small>
        </Fact>
      )}
      <Fact name="Attempt">{attemptsOf(run)}</Fact>
      <Fact name="Created">
        <TimeText at={run.created_at} />
      </Fact>
      <Fact name="Time">
        <RunDuration run={run} />
      </Fact>
      <Fact name="Run">
        <code>{run.id}</code>
      </Fact>
    </Facts>
  );
}
