import type { ErrorCode } from '../../foundation/domain/errors.ts';
import type { ClaimedRun } from '../../state/store/runs/claims.ts';
import { describeInterval } from '../../foundation/domain/time.ts';
import type { Logger } from '../../foundation/telemetry/logger.ts';

/** How an attempt ended. `skipped`: there was nothing to claim. */
export type AttemptEnd = 'completed' | 'failed' | 'released' | 'lost' | 'skipped';

export interface AttemptReport {
  readonly end: AttemptEnd;
  readonly run: ClaimedRun | null;
  readonly fault: ErrorCode | null;
  readonly rows: number;
  readonly bytes: number;
  /** Rows that it left out of the data files. */
  readonly rejectedRows: number;
}

const messages: Record<Exclude<AttemptEnd, 'skipped'>, string> = {
  completed: 'run completed',
  failed: 'attempt failed',
  released: 'run handed back',
  lost: 'run lost to another attempt, or cancelled',
};

/** One `info` line for each attempt of a run that ended in this worker. `ms` includes the claim. */
export function logAttempt(
  logger: Logger,
  { run, end, fault, rows, bytes }: AttemptReport,
  seconds: number,
): void {
  if (!run || end === 'skipped') return;
  const { teamId: team, exportId, runId, attempt, interval } = run;
  const what = {
    team,
    export: exportId,
    run: runId,
    interval: describeInterval(interval),
    attempt,
  };
  const why = fault === null ? {} : { fault };
  logger.info(
    { ...what, end, ...why, rows, bytes, ms: Math.round(seconds * 1_000) },
    messages[end],
  );
}
