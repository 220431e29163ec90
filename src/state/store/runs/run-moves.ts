import {
  isTerminal,
  liveStatuses,
  type RunEvent,
  type RunStatus,
  runMoves,
  runStatuses,
} from '../../../foundation/domain/run.ts';

/** Proof that a worker holds a run. Every write of the worker includes it. */
export interface Lease {
  readonly runId: string;
  /** Rises with each claim of the run, and when the run is handed back. */
  readonly fence: number;
}

const list = (statuses: readonly RunStatus[]): string =>
  `(${statuses.map((status) => `'${status}'`).join(', ')})`;

/** SQL of the statuses of runs that have not ended. */
export const live = list(liveStatuses);

/** SQL: in one of these states. For runs that are found by their id: the planner shall not use the index of live runs. */
const hasStatus = (run: string, statuses: readonly RunStatus[]): string =>
  `${run}.status not in ${list(runStatuses.filter((status) => !statuses.includes(status)))}`;

/** SQL that is true for a run that has not ended, of runs that are found by their id. */
export const hasNotEnded = (run: string): string => hasStatus(run, liveStatuses);

/** SQL that is true for a run that an attempt holds, of runs that are found by their id. */
export const isRunning = (run: string): string => hasStatus(run, [runMoves.claimed.to]);

/** SQL that is true for a run that has failed an attempt, or whose worker died during one. */
export const hasFailedAttempt = (run: string): string =>
  `(${run}.error_code is not null or ${run}.crashes > 0 and ${run}.attempt > 0)`;

/** SQL of the status of a run that an attempt holds. */
export const running = `'${runMoves.claimed.to}'`;

/** SQL that sets the status which an event of a run leads to. A run that has ended forgets what it was to erase, and keys, which may have values of rows. */
export const move = (event: RunEvent): string => {
  const { to } = runMoves[event];
  if (!isTerminal(to)) return `status = '${to}'`;
  return `status = '${to}', erases = null, commit_intent = commit_intent - '{files,rejectedFiles}'::text[]`;
};

/** SQL that is true for a run in which an event can happen, of runs that are found by their id. */
export const canMove = (event: RunEvent): string => hasStatus('runs', runMoves[event].from);

const deathColumns = ['crashes', 'deaths_alone', 'furthest_bytes'];
/** SQL: the columns by which a run counts the processes that died during its attempts. A run that Sluice makes in its place goes on counting. */
export const deaths = deathColumns.join(', ');
/** SQL: their values for the run that takes the place of `last`, which may be null. */
export const deathsOf = (last: string): string =>
  deathColumns.map((column) => `coalesce(${last}.${column}, 0)`).join(', ');
