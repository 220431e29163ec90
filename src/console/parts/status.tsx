import type { Run, RunStatus } from '../api-types.ts';
import { useNow } from '../now.ts';
import { hrefOf } from '../route.ts';
import { times } from './time-text.tsx';

/** The names of all statuses, in the order of a run's life. */
export const statusLabels: Readonly<Record<RunStatus, string>> = {
  Starting: 'Waiting',
  Running: 'Running',
  Completed: 'Completed',
  Failed: 'Failed',
  FailedRetryable: 'Retries exhausted',
  Cancelled: 'Cancelled',
};

const glyphs: Readonly<Record<RunStatus, string>> = {
  Starting: '',
  Running: '',
  Completed: '',
  Failed: '×',
  FailedRetryable: '!',
  Cancelled: '–',
};

/** A status with its colour. */
export function StatusBadge({ status }: { status: RunStatus }) {
  return <span className={`badge is-${status}`}>{statusLabels[status]}</span>;
}

/** The latest runs, the newest on the right; each cell is a link to its run. */
export function RunStrip({ runs, exportId }: { runs: readonly Run[]; exportId: string }) {
  const now = useNow();
  const room = 10;
  return (
    <ol className="strip" aria-label="Latest runs, newest last">
      {Array.from({ length: Math.max(0, room - runs.length) }, (_, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: empty cells are all alike.
        <li key={index} className="cell" aria-hidden="true" />
      ))}
      {runs.toReversed().map(({ id, status, data_interval_start, data_interval_end }) => {
        const interval = times.interval(data_interval_start, data_interval_end, now);
        const text = `${statusLabels[status]}: ${interval}`;
        return (
          <li key={id}>
            <a
              className={`cell is-${status}`}
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
