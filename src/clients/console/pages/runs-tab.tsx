import { cancelRun, readRunError } from '../api.ts';
import type { Run } from '../api-types.ts';
import { useAction, useConsole, useResource } from '../use-api.ts';
import { describeLateRows, hasEnded, hasFailed } from '../export-health.ts';
import { formatBytes } from '../numbers.ts';
import { ActButton } from '../parts/buttons.tsx';
import { ExportAgainButton } from '../parts/run-problem.tsx';
import { FilterChips, Heads } from '../parts/tables.tsx';
import { Empty, Pending } from '../parts/notice.tsx';
import { CursorPager } from '../parts/pager.tsx';
import { RunDuration, RunRows, RunStateText } from '../parts/run-facts.tsx';
import { IntervalText, MessageText } from '../parts/time-text.tsx';
import { hrefOf } from '../route.ts';
import { attemptsOf, runFilters, statusLabels } from '../run-state.ts';
import { chosenOf, useQuery } from '../use-route.ts';

export function RunsTab({ exportId }: { exportId: string }) {
  const { api, may } = useConsole();
  const { query, setQuery } = useQuery();
  const statuses = chosenOf(query, 'status', runFilters);
  const cursor = query.get('cursor');
  const { data, failure, reload } = useResource({
    key: JSON.stringify([exportId, statuses, cursor]),
    load: (signal) =>
      api.get(
        'batch_exports/{batch_export_id}/runs',
        { batch_export_id: exportId, status: statuses, cursor, limit: 30 },
        signal,
      ),
    pollMs: (page) => (page?.results.some((run) => !hasEnded(run)) ? 3_000 : 15_000),
  });
  return (
    <section aria-label="Runs">
      <FilterChips
        label="Statuses"
        choices={runFilters}
        chosen={statuses}
        nameOf={(status) => (status === 'Retrying' ? 'Retrying' : statusLabels[status])}
        onChange={(status) => setQuery({ status, cursor: null })}
      />
      <Pending {...{ data, failure, reload }} lines={6} />
      {data?.results.length === 0 && (
        <Empty title={statuses.length > 0 ? 'No runs with this status' : 'No runs yet'}>
          {statuses.length === 0 && (
            <p>
              Each interval gets a run after its end, from the start of the export on.
              {may('batch_export:write') && (
                <>
                  {' '}
                  For past intervals, start a{' '}
                  <a href={hrefOf({ page: 'export', exportId, tab: 'backfills' })}>backfill</a>.
                </>
              )}
            </p>
          )}
        </Empty>
      )}
      {data && data.results.length > 0 && <RunTable runs={data.results} />}
      {data && <CursorPager page={data} onMove={(cursor) => setQuery({ cursor })} />}
    </section>
  );
}

function RunTable({ runs }: { runs: readonly Run[] }) {
  return (
    <table className="card runs">
      <Heads names={['Interval', 'Status']} numbers={['Attempt', 'Rows', 'Size', 'Time']}>
        <th scope="col">
          <span className="unseen">Actions</span>
        </th>
      </Heads>
      {byInterval(runs).map((tries) => (
        <RunRow key={tries[0].id} tries={tries} />
      ))}
    </table>
  );
}

type Tries = readonly [Run, ...Run[]];

/** One entry for each interval, at the place of its newest run. */
function byInterval(runs: readonly Run[]): readonly Tries[] {
  const groups = new Map<string, [Run, ...Run[]]>();
  for (const run of runs) {
    const key = `${run.data_interval_start} ${run.data_interval_end}`;
    const group = groups.get(key);
    if (group) group.push(run);
    else groups.set(key, [run]);
  }
  return [...groups.values()];
}

/** The runs of the interval before its newest one, as links. */
function EarlierTries({ tries: [newest, ...earlier] }: { tries: Tries }) {
  if (earlier.length === 0) return null;
  const all = [newest, ...earlier].reduce((sum, { attempt }) => sum + attempt, 0);
  return (
    <small className="muted">
      {' '}
      {all} {all === 1 ? 'try' : 'tries'}, before:{' '}
      {earlier.map((run, index) => (
        <span key={run.id}>
          {index > 0 && ', '}
          <a href={hrefOf({ page: 'run', exportId: run.batch_export, runId: run.id })}>
            {statusLabels[run.status]}
          </a>
        </span>
      ))}
    </small>
  );
}

function RunRow({ tries }: { tries: Tries }) {
  const [run] = tries;
  const error = run.latest_error === null ? null : readRunError(run.latest_error);
  return (
    <tbody>
      <tr>
        <th scope="row">
          <a href={hrefOf({ page: 'run', exportId: run.batch_export, runId: run.id })}>
            <IntervalText start={run.data_interval_start} end={run.data_interval_end} />
          </a>
          <EarlierTries tries={tries} />
          {run.backfill_id !== null && <small className="muted"> backfill</small>}
          {run.superseded && <small className="good-text"> exported later</small>}
          {run.purpose === 'expire' && <small className="muted"> removes old files</small>}
          {run.purpose === 'supplement' && (
            <small className="muted"> {describeLateRows(run)}</small>
          )}
        </th>
        <td>
          <RunStateText run={run} />
          {run.step?.is_long && <small className="warn-text"> {run.step.text}</small>}
        </td>
        <td className="number" data-label="Attempt">
          {attemptsOf(run)}
        </td>
        <td className="number" data-label="Rows">
          {hasFailed(run) ? '–' : <RunRows run={run} />}
        </td>
        <td className="number" data-label="Size">
          {hasFailed(run) ? '–' : formatBytes(run.bytes_exported)}
        </td>
        <td className="number" data-label="Time">
          <RunDuration run={run} />
        </td>
        <td className="actions">
          <RunActions run={run} />
        </td>
      </tr>
      {error && (
        <tr className="run-error small">
          <td colSpan={7}>
            {error.code !== null && <code>{error.code}</code>} <MessageText text={error.text} />
          </td>
        </tr>
      )}
    </tbody>
  );
}

/** A button to cancel a live run, or to export the interval of one that has ended again. */
export function RunActions({ run }: { run: Run }) {
  if (!hasEnded(run)) return <CancelRunButton run={run} />;
  // It has forgotten what it was to erase.
  if (run.purpose === 'erase') return null;
  const { batch_export: exportId } = run;
  return <ExportAgainButton className="small" exportId={exportId} again={{ run }} />;
}

function CancelRunButton({ run }: { run: Run }) {
  const { api, may } = useConsole();
  const act = useAction(async () => {
    await cancelRun(api, run.batch_export, run.id);
    return 'The run is being cancelled.';
  });
  if (!may('batch_export:write')) return null;
  return (
    <ActButton act={act} className="small">
      Cancel
    </ActButton>
  );
}
