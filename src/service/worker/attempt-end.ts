import { type ErrorCode, type SluiceError, StepFault } from '../../foundation/domain/errors.ts';
import type { ClaimedRun } from '../../state/store/runs/claims.ts';
import { describeInterval } from '../../foundation/domain/time.ts';
import type { Logger } from '../../foundation/telemetry/logger.ts';
import { recordStepError } from '../../state/store/transformations/chains.ts';
import type { Ticket } from '../admission/admission.ts';
import type { Context } from '../use-cases/context.ts';
import {
  endDeleted,
  recordFault,
  releaseOutgrown,
  releaseRun,
} from '../use-cases/runs/finish-run.ts';
import { retryUntilRecorded } from './own-fault.ts';
import type { RunLog } from './run-log.ts';

/** The end of an attempt. `skipped`: there was nothing to claim. */
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

interface FailedAttempt {
  readonly context: Context;
  readonly run: ClaimedRun;
  readonly log: Pick<RunLog, 'flush'>;
  /** Missing in a process of its own. */
  readonly ticket: Pick<Ticket, 'hasOutgrown'> | undefined;
  readonly signal: AbortSignal;
  writeProgress(): Promise<void>;
  report(error: unknown): void;
}

/** Records how an attempt ends that did not complete. */
export async function endAfter(error: SluiceError, attempt: FailedAttempt): Promise<AttemptEnd> {
  const { context, run, log, ticket, signal, writeProgress, report } = attempt;
  if (error.code === 'run.cancelled' && run.isDeleted) {
    await retryUntilRecorded(() => endDeleted(context, run), signal);
  }
  if (error.code === 'run.lease_lost' || error.code === 'run.cancelled') return 'lost';
  // Before its end is logged.
  await log.flush();
  if (error.code !== 'internal.database_unavailable') await writeProgress().catch(report);
  if (error.code === 'run.released') {
    const release = ticket?.hasOutgrown === true ? releaseOutgrown : releaseRun;
    await retryUntilRecorded(() => release(context, run), 5_000);
    return 'released';
  }
  report(error);
  if (error instanceof StepFault) {
    const { step, detail = '' } = error;
    const note = () => recordStepError(context.db, run.teamId, step, detail);
    await retryUntilRecorded(note, signal);
  }
  const record = () => recordFault(context, run, error, Math.random());
  await retryUntilRecorded(record, signal);
  return 'failed';
}
