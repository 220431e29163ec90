import {
  isTerminal,
  liveStatuses,
  type RunEvent,
  type RunStatus,
  runMoves,
} from '../../../foundation/domain/run.ts';

const list = (statuses: readonly RunStatus[]): string =>
  `(${statuses.map((status) => `'${status}'`).join(', ')})`;

/** SQL of the statuses of runs that have not ended. */
export const live = list(liveStatuses);

/** SQL that is true for a run that has failed an attempt, or whose worker died during one. */
export const hasFailedAttempt = (run: string): string =>
  `(${run}.error_code is not null or ${run}.crashes > 0)`;

/** SQL of the status of a run that an attempt holds. */
export const running = `'${runMoves.claimed.to}'`;

/** SQL that sets the status which an event of a run leads to. A run that has ended forgets what it was to erase. */
export const move = (event: RunEvent): string => {
  const { to } = runMoves[event];
  return `status = '${to}'${isTerminal(to) ? ', erases = null' : ''}`;
};

/** SQL that is true for a run in which an event can happen. */
export const canMove = (event: RunEvent): string => `status in ${list(runMoves[event].from)}`;
