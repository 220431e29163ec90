import type { Run, RunStatus, RunSummary } from '../api-types.ts';
import { TimeText, useNow, useTimes } from './time-text.tsx';
import { formatCount } from '../numbers.ts';
import { formatDuration } from '../times.ts';
import { hrefOf } from '../route.ts';
import { stateOf } from '../run-state.ts';

export function ElementOfRun({ run: { element } }: { run: Pick<Run, 'element'> }) {
  if (!element) return null;
  return (
    <small className="muted">
      {' '}
      in {element.base === null ? 'element' : 'base'} {element.number}
    </small>
  );
}

/** The wait of the run for its first attempt, and the time from there to its end, or to now. */
export function RunDuration({ run: { created_at, started_at, finished_at } }: { run: Run }) {
  const now = useNow(1_000);
  const end = finished_at === null ? now : Date.parse(finished_at);
  const start = started_at === null ? end : Date.parse(started_at);
  const waited = formatDuration(start - Date.parse(created_at));
  return (
    <span>
      waited {waited}
      {started_at !== null && `, ran ${formatDuration(end - start)}`}
    </span>
  );
}

/** Rows in the files, and the rows of the interval if the numbers differ. */
export function RunRows({ run }: { run: Run }) {
  const { records_completed: done, records_total_count: total } = run;
  const short = total !== null && done !== total;
  return (
    <span>
      {formatCount(done)}
      {short && <small className="muted"> of {formatCount(total)}</small>}
      <ElementOfRun run={run} />
    </span>
  );
}

const glyphs: Readonly<Record<RunStatus, string>> = {
  Starting: '',
  Running: '',
  Completed: '',
  Failed: '×',
  FailedRetryable: '!',
  Cancelled: '–',
};

/** `Retrying (5/10), next at 05:30`; for an ended run the same as its status. */
export function RunStateText({ run }: { run: Run }) {
  const { label, isRetrying, nextAt, needsWorker } = stateOf(run, useNow());
  return (
    <span>
      <span className={`badge is-${isRetrying ? 'paused' : run.status}`}>{label}</span>
      {isRetrying && run.started_at !== null && (
        <small className="muted">
          {' '}
          since <TimeText at={run.started_at} />,
        </small>
      )}
      {nextAt !== null && (
        <small className="muted">
          {' '}
          {isRetrying ? 'next' : 'starts'} at <TimeText at={nextAt} />
        </small>
      )}
      {needsWorker && <small className="muted"> for a free worker</small>}
    </span>
  );
}

/** The latest runs, the newest on the right; each cell is a link to its run. */
export function RunStrip({ runs, exportId }: { runs: readonly RunSummary[]; exportId: string }) {
  const now = useNow();
  const times = useTimes();
  const room = 10;
  return (
    <ol className="strip" aria-label="Latest runs, newest last">
      {Array.from({ length: Math.max(0, room - runs.length) }, (_, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: empty cells are all alike.
        <li key={index} className="cell" aria-hidden="true" />
      ))}
      {runs.toReversed().map((run) => {
        const { id, status, data_interval_start, data_interval_end } = run;
        const interval = times.interval(data_interval_start, data_interval_end, now);
        const later = run.superseded ? ', exported later' : '';
        const text = `${stateOf(run, now).label}: ${interval}${later}`;
        return (
          <li key={id}>
            <a
              className={`cell is-${status}${run.superseded ? ' is-superseded' : ''}`}
              href={hrefOf({ page: 'run', exportId, runId: id })}
              title={text}
            >
              <span className="unseen">{text}</span>
              <span aria-hidden="true">{glyphs[status]}</span>
            </a>
          </li>
        );
      })}
    </ol>
  );
}
