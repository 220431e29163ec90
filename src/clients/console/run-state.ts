import type { Run } from './api-types.ts';
import { hasEnded } from './export-health.ts';

/** The names of all statuses, in the order of a run's life. */
export const statusLabels: Readonly<Record<Run['status'], string>> = {
  Starting: 'Waiting',
  Running: 'Running',
  Completed: 'Completed',
  Failed: 'Failed',
  FailedRetryable: 'Retries exhausted',
  Cancelled: 'Cancelled',
};

/** The filters of a list of runs: their statuses, and live runs that have failed an attempt. */
export const runFilters = [...(Object.keys(statusLabels) as Run['status'][]), 'Retrying'] as const;

/** The present work of a run, in words, and what comes next. */
export interface RunState {
  /** `Running`, `Retrying (5/10)` */
  readonly label: string;
  /** A run that waits after an error; the page shows it in another colour. */
  readonly isRetrying: boolean;
  /** When the next attempt begins; null if the run waits for none, or only for a worker. */
  readonly nextAt: string | null;
  /** Its time has come, and no worker has taken it. */
  readonly needsWorker: boolean;
}

/** A run that waits between two attempts has the status Running. */
export function stateOf(
  run: Pick<Run, 'status' | 'attempt' | 'max_attempts' | 'next_attempt_at' | 'latest_error'>,
  nowMs: number,
): RunState {
  const { status, attempt, next_attempt_at: at } = run;
  if (hasEnded(run) || at === null) {
    return { label: statusLabels[status], isRetrying: false, nextAt: null, needsWorker: false };
  }
  const isRetrying = attempt > 0 && run.latest_error !== null;
  const isDue = Date.parse(at) <= nowMs;
  return {
    label: isRetrying ? `Retrying (${attemptsOf(run)})` : 'Waiting',
    isRetrying,
    nextAt: isDue ? null : at,
    needsWorker: isDue,
  };
}

/** `5/10` while the run is live, `5` after its end. */
export function attemptsOf({
  attempt,
  max_attempts: last,
}: Pick<Run, 'attempt' | 'max_attempts'>): string {
  return last === null || attempt === 0 ? String(attempt) : `${attempt}/${last}`;
}
