import type { Run, RunFiles, StepCount } from '../api-types.ts';
import { useAction, useConsole, useResource } from '../use-api.ts';
import { describeLateRows, hasEnded, hasFailed } from '../export-health.ts';
import { formatBytes, formatCount, plural } from '../numbers.ts';
import { Facts, Heads, ScrolledTable } from '../parts/tables.tsx';
import { Crumbs, Failure, Pending } from '../parts/notice.tsx';
import { RunDuration, RunRows, RunStateText } from '../parts/run-facts.tsx';
import { RunProblem } from '../parts/run-problem.tsx';
import { ExportZone, IntervalText, TimeText } from '../parts/time-text.tsx';
import { hrefOf } from '../route.ts';
import { attemptsOf } from '../run-state.ts';
import { offsetOf, useQuery, useTitle } from '../use-route.ts';
import { LogsView } from './logs-view.tsx';
import { RunActions } from './runs-tab.tsx';
import { openFile } from '../save-file.ts';
import { CopyText } from '../parts/buttons.tsx';
import { OffsetPager } from '../parts/pager.tsx';

export function RunPage({ exportId, runId }: { exportId: string; runId: string }) {
  const { api, may } = useConsole();
  const batchExport = useResource({
    key: exportId,
    load: (signal) => api.get('batch_exports/{id}', { id: exportId }, signal),
    pollMs: (item) => (item ? null : 10_000),
  });
  const loaded = useResource({
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
  const { data } = loaded;
  const above = [
    ['Exports', { page: 'exports' }],
    [batchExport.data?.name ?? 'Export', { page: 'export', exportId, tab: 'runs' }],
  ] as const;
  return (
    <ExportZone value={batchExport.data?.timezone ?? 'UTC'}>
      <Crumbs above={above} />
      <Pending {...loaded} what="run" lines={8} />
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
  const { element, step } = run;
  return (
    <Facts
      of={{
        Rows: !hasFailed(run) && <RunRows run={run} />,
        Element: element && <ElementText element={element} />,
        'Dropped by transformations': run.records_dropped > 0 && formatCount(run.records_dropped),
        Rejected: run.records_rejected > 0 && formatCount(run.records_rejected),
        'Late rows': run.purpose === 'supplement' && describeLateRows(run),
        Settled: run.settled === false && (
          <span className="warn-text">
            no: rows may still arrive, Sluice checks the interval again
          </span>
        ),
        Now: step && <span className={step.is_long ? 'warn-text' : undefined}>{step.text}</span>,
        'Waits for':
          run.waiting_for !== null &&
          (run.waiting_for.join(', ') || 'transactions of the source that can still add rows'),
        Size: !hasFailed(run) && (
          <>
            {formatBytes(run.bytes_exported)}{' '}
            <small className="muted">in {plural(run.files, 'file')}</small>
          </>
        ),
        Attempt: attemptsOf(run),
        Created: <TimeText at={run.created_at} />,
        Time: <RunDuration run={run} />,
        Run: <code>{run.id}</code>,
      }}
    />
  );
}

function ElementText({ element }: { element: NonNullable<Run['element']> }) {
  const { number, base, follows, deletes } = element;
  return (
    <>
      {base === null
        ? `${number}: what changed since element ${follows}, ${plural(deletes, 'delete')}`
        : `${number}: a base with all rows, because ${base}`}{' '}
      <small className="muted">
        versions {element.from_version ?? 'of all rows'} to {element.next_version ?? 'not known'},
        at <TimeText at={element.snapshot_at} />
      </small>
    </>
  );
}

const filesPageSize = 50;

interface Props {
  readonly exportId: string;
  readonly runId: string;
}

function RunFileList({ exportId, runId }: Props) {
  const { api } = useConsole();
  const { query } = useQuery();
  const offset = offsetOf(query, 'files');
  const { data, failure, reload } = useResource({
    key: `${runId} ${offset}`,
    load: (signal) =>
      api.get(
        'batch_exports/{batch_export_id}/runs/{id}/files',
        { batch_export_id: exportId, id: runId, limit: filesPageSize, offset },
        signal,
      ),
  });
  return (
    <section aria-label="Files">
      <h2 className="section">Files</h2>
      <Pending {...{ data, failure, reload }} lines={2} />
      {data && <Current files={data} exportId={exportId} runId={runId} />}
      {data && <OffsetPager page={data} pageSize={filesPageSize} offset={offset} name="files" />}
    </section>
  );
}

function Current({ files, exportId, runId }: Props & { readonly files: RunFiles }) {
  const { results, manifest, current_run: current } = files;
  if (current === null) return <p className="muted">The interval has no files.</p>;
  const later =
    current === runId ? null : (
      <p className="muted">
        A <a href={hrefOf({ page: 'run', exportId, runId: current })}>later run</a>{' '}
        {results.length === 0
          ? 'has replaced the files of this one.'
          : 'has added rows to the interval, in further files.'}
      </p>
    );
  if (later && results.length === 0) return later;
  if (results.length === 0 && manifest === null) {
    return <p className="muted">The interval has no files.</p>;
  }
  return (
    <>
      {later}
      <FileTable {...{ results, manifest, exportId, runId }} />
    </>
  );
}

type TableProps = Props & Pick<RunFiles, 'results' | 'manifest'>;

function FileTable({ results, manifest, exportId, runId }: TableProps) {
  const { api, may } = useConsole();
  const download = useAction(async (key: string) => {
    const path = 'batch_exports/{batch_export_id}/runs/{id}/link';
    const { url } = await api.post(path, { batch_export_id: exportId, id: runId }, { key });
    openFile(url);
  });
  const mayDownload = may('file:read');
  const downloadOf = (key: string) =>
    mayDownload && (
      <td>
        <button
          type="button"
          className="quiet"
          aria-label={`Download ${key}`}
          aria-disabled={download.busy}
          onClick={() => download.run(key)}
        >
          Download
        </button>
      </td>
    );
  const heads = ['Object', 'Rows', 'Size', 'SHA-256', ...(mayDownload ? ['Link'] : [])];
  return (
    <>
      <ScrolledTable label="Objects" heads={heads}>
        {results.map(({ key, uri, rows, bytes, sha256, rejected }) => (
          <tr key={key}>
            <th scope="row">
              <CopyText what="path" text={uri ?? key} />
              {rejected && <small className="muted"> rejected rows</small>}
            </th>
            <td>{formatCount(rows)}</td>
            <td>{formatBytes(bytes)}</td>
            <td>
              <code>{sha256}</code>
            </td>
            {downloadOf(key)}
          </tr>
        ))}
        {manifest && (
          <tr>
            <th scope="row">
              <CopyText what="path" text={manifest.uri ?? manifest.key} />
              <small className="muted"> manifest</small>
            </th>
            <td />
            <td />
            <td />
            {downloadOf(manifest.key)}
          </tr>
        )}
      </ScrolledTable>
      {download.failure && <Failure failure={download.failure} />}
    </>
  );
}

const columns = ['In', 'Out', 'Dropped', 'Rejected', 'Errors', 'Time'];

function StepCounts({ steps }: { readonly steps: readonly StepCount[] }) {
  return (
    <table className="card runs" aria-label="Rows of each step">
      <Heads names={['Step']} numbers={columns} />
      <tbody>
        {steps.map((count) => (
          <CountRow key={count.config} count={count} />
        ))}
      </tbody>
    </table>
  );
}

function CountRow({ count }: { readonly count: StepCount }) {
  const { config, in: rows, out, dropped, errored, time_ms: timeMs, error } = count;
  // Rows that neither went on nor were dropped went to the rejected file.
  const counts = [rows, out, dropped, rows - out - dropped, errored].map(formatCount);
  return (
    <tr>
      <th scope="row">
        <a href={hrefOf({ page: 'step', stepId: config })}>Step {config}</a>
        {error !== null && <small className="bad-text"> {error}</small>}
      </th>
      {[...counts, `${formatCount(timeMs)} ms`].map((value, index) => (
        <td key={columns[index]} className="number" data-label={columns[index]}>
          {value}
        </td>
      ))}
    </tr>
  );
}
