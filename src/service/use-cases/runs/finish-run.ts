import { afterRemedy, decidedByPeople, nextStepOf } from '../../../foundation/domain/causes.ts';
import { describeError } from '../../../foundation/domain/describe-error.ts';
import {
  type ErrorCode,
  errorCatalogue,
  isErrorCode,
  SluiceError,
} from '../../../foundation/domain/errors.ts';
import {
  decideAttempt,
  type FailureHistory,
  type RetryDecision,
} from '../../../foundation/domain/retry-policy.ts';
import type { Sql } from '../../../state/store/database/database.ts';
import { stopFailingBackfill } from '../../../state/store/exports/backfills.ts';
import { lockExport, recordFailure } from '../../../state/store/exports/exports.ts';
import { appendLogEntries, type LogLevel } from '../../../state/store/exports/log-entries.ts';
import { hasReceiptAt } from '../../../state/store/intervals/receipts.ts';
import { readNow, storeSchedules } from '../../../state/store/intervals/ticks.ts';
import type { ClaimedRun } from '../../../state/store/runs/claims.ts';
import { countDeathAlone } from '../../../state/store/runs/leases.ts';
import {
  cancelHeldRun,
  failRun,
  findErrorCode,
  handBackOutgrown,
  handBackRun,
} from '../../../state/store/runs/runs.ts';
import { pause } from '../../scheduling/schedule.ts';
import type { Context } from '../context.ts';
import { noteInLog } from '../exports/activity.ts';

/** @param random in [0, 1), for the jitter of the backoff */
export async function recordFault(
  context: Context,
  run: ClaimedRun,
  error: SluiceError,
  random: number,
): Promise<void> {
  const { retry, secondOpinionMs } = context.policy;
  const shown = { code: error.code, text: describeError(error) };
  await context.db.transaction(async (tx) => {
    const history = await readHistory(tx, run, error);
    const policy = { ...retry, secondOpinionMs };
    // Our own database failed: that is no reason to give the run up.
    const isOurs = error.code === 'internal.database_unavailable';
    const decision = isOurs
      ? { outcome: 'retry' as const, delayMs: retry.baseMs * random }
      : onceIfHeals(run, error, decideAttempt(error, run.faults + 1, history, policy, random));
    if (decision.outcome === 'doubted' || decision.outcome === 'retry') {
      const isDoubted = decision.outcome === 'doubted';
      if (!(await handBackRun(tx, run, decision.delayMs, shown, !isDoubted && !isOurs))) return;
      const seconds = Math.ceil(decision.delayMs / 1000);
      const text = isDoubted
        ? `failed with an error that is normally permanent. This destination worked before, so Sluice tries once more in ${seconds} s. If the error is the same, the run fails.`
        : `failed. The next attempt starts in ${seconds} s.`;
      await log(tx, run, 'WARNING', `Attempt ${run.attempt} ${text} ${shown.text}`);
      return;
    }
    const batchExport = await lockExport(tx, run.exportId);
    const isFinal = decision.outcome === 'failed';
    const next = nextStep(run, error.code, batchExport?.healForHours ?? 0);
    const text = `${shown.text} ${isFinal ? '' : 'All attempts failed. '}${next}`.trimEnd();
    if (!(await failRun(tx, run, decision.outcome, { code: error.code, text }))) return;
    await log(tx, run, 'ERROR', text);
    if (isFinal) await countFailure(tx, context, run, shown);
  });
}

const failuresOf = (streak: number) =>
  streak === 1 ? 'a failed run' : `${streak} consecutive failed runs`;

const healsPause =
  'Fix the cause: then Sluice exports what is missing, and ends the pause by itself. You can also unpause the export.';

/** The sentence after the remedy. Sluice makes other runs only for missing data, not for what a person asked for besides. */
function nextStep({ purpose, receipt }: ClaimedRun, code: ErrorCode, hours: number): string {
  if (purpose === 'erase') return 'Once it is fixed, run the command of the erasure again.';
  const lacksData = purpose !== 'whole' || receipt === null;
  return afterRemedy(code, lacksData && hours > 0);
}

/** A run that heals has one attempt: its interval gets another run later. */
function onceIfHeals(run: ClaimedRun, error: SluiceError, decision: RetryDecision): RetryDecision {
  if (!run.heals) return decision;
  return { outcome: error.spec.retryable ? 'exhausted' : 'failed' };
}

/**
 * Ends a run without an attempt: its export has failed again and again with `code`, so its interval heals with the others. The
 * oldest of them is tried again and again, and the rest follows.
 */
export async function handOver(context: Context, run: ClaimedRun, code: ErrorCode): Promise<void> {
  const { means } = errorCatalogue[code];
  const text = `${code}: ${means} No attempt was made for this interval: the last attempts of the export failed with this error. Sluice tries its intervals without data at least once an hour. ${nextStepOf(code)}`;
  await logIf(context, run, 'WARNING', text, async (tx) => {
    await lockExport(tx, run.exportId);
    return failRun(tx, run, 'exhausted', { code, text }, true);
  });
}

async function readHistory(tx: Sql, run: ClaimedRun, error: SluiceError): Promise<FailureHistory> {
  // Only an error that would end the run needs the history.
  if (error.spec.retryable) return { before: null, workedBefore: false };
  const before = await findErrorCode(tx, run.runId);
  return {
    before: before !== null && isErrorCode(before) ? before : null,
    workedBefore: await hasReceiptAt(tx, run.exportId, run.destinationVersion),
  };
}

/** @param how for the run's owner: `The run's own process ended: SIGSEGV.` */
export async function quarantineRun(context: Context, run: ClaimedRun, how: string): Promise<void> {
  const shown = describeError(new SluiceError('run.crashed', how));
  const text = `${shown} ${nextStep(run, 'run.crashed', 0)}`;
  await context.db.transaction(async (tx) => {
    await lockExport(tx, run.exportId);
    if (!(await failRun(tx, run, 'failed', { code: 'run.crashed', text }))) return;
    await log(tx, run, 'ERROR', text);
    await countFailure(tx, context, run, { code: 'run.crashed', text: shown });
  });
}

/** Ends a run whose export was deleted while an earlier attempt committed, and whose manifest is not current. */
export async function endDeleted(context: Context, run: ClaimedRun): Promise<void> {
  const text =
    'The export was deleted and its worker was lost during the commit, so the run ends without another commit. Files that were complete stay at the destination. A manifest that arrives late is true.';
  await logIf(context, run, 'WARNING', text, (tx) => cancelHeldRun(tx, run));
}

async function logIf(
  { db }: Context,
  run: ClaimedRun,
  level: LogLevel,
  text: string,
  change: (tx: Sql) => Promise<boolean>,
): Promise<void> {
  await db.transaction(async (tx) => {
    if (await change(tx)) await log(tx, run, level, text);
  });
}

/** Hands a run back, so that another worker can continue it at once. */
export async function releaseRun(context: Context, run: ClaimedRun): Promise<void> {
  const text = 'The worker was shut down. Another worker continues the run.';
  await logIf(context, run, 'INFO', text, (tx) => handBackRun(tx, run, 0, null));
}

/** Hands a run back that has more rows than a small run may read, so that it waits for a slot. */
export async function releaseOutgrown(context: Context, run: ClaimedRun): Promise<void> {
  const text =
    'The interval has more rows than a small run may read, and the worker has no slot or too little memory for it now. The run starts again when it has both.';
  await logIf(context, run, 'INFO', text, (tx) => handBackOutgrown(tx, run));
}

/**
 * Too many failures of the schedule in a row pause it. Those of a backfill stop the backfill, and the schedule goes on. An attempt to
 * heal counts only if a person must decide.
 */
async function countFailure(
  tx: Sql,
  context: Context,
  run: ClaimedRun,
  { code, text: reason }: { readonly code: ErrorCode; readonly text: string },
): Promise<void> {
  const mustStop = code === 'run.unknown_history';
  // Nothing is missing that the schedule should have exported.
  const isOfSchedule = run.purpose === 'whole' && (!run.heals || decidedByPeople.has(code));
  if (!isOfSchedule && !mustStop) return;
  // Another database may be writing to the bucket: no other interval should be tried.
  const pauseAfter = mustStop ? 1 : context.policy.pauseAfterFailures;
  const about = { id: run.exportId, teamId: run.teamId };
  if (run.backfillId !== null) {
    if (await stopFailingBackfill(tx, run.backfillId, pauseAfter, reason)) {
      const streak = failuresOf(pauseAfter);
      const text = `Backfill ${run.backfillId} has stopped after ${streak}. ${mustStop ? '' : 'The schedule goes on. '}Fix the cause, then start a backfill of what is missing. ${reason}`;
      await noteInLog(tx, about, 'ERROR', text);
    }
    if (!mustStop) return;
  }
  const row = await lockExport(tx, run.exportId);
  const failure = await recordFailure(tx, run.exportId, pauseAfter, { code, text: reason });
  if (failure.paused && row) {
    const heals = !decidedByPeople.has(code) && row.healForHours > 0;
    const schedule = pause(row.schedule, await readNow(tx));
    await storeSchedules(tx, [{ exportId: run.exportId, schedule }]);
    const text = `The export is paused after ${failuresOf(failure.streak)}. ${heals ? healsPause : 'Fix the cause, then unpause the export.'} ${reason}`;
    await noteInLog(tx, about, 'ERROR', text);
  } else if (failure.streak === context.policy.warnAfterFailures) {
    const text = `${failure.streak} consecutive runs have failed. The export is paused after ${pauseAfter}.`;
    await noteInLog(tx, about, 'WARNING', text);
  }
}

function log(tx: Sql, { teamId, exportId, runId }: ClaimedRun, level: LogLevel, message: string) {
  return appendLogEntries(tx, [{ teamId, exportId, runId, level, message }]);
}

/**
 * Records that a run's own process died. If the run must have caused it, or it has happened before, the
 * run ends as Failed. Otherwise it is retried, again in its own process.
 *
 * @param certain false: the process may have been killed from outside
 * @param how `SIGSEGV`
 */
export async function recordDeathAlone(
  context: Context,
  run: ClaimedRun,
  { certain, how }: { readonly certain: boolean; readonly how: string },
): Promise<void> {
  const deaths = await countDeathAlone(context.db, run);
  const text = `The run's own process ended: ${how}.`;
  if (deaths !== null && (certain || deaths >= context.policy.maxDeathsAlone)) {
    await quarantineRun(context, run, text);
  } else {
    await recordFault(context, run, new SluiceError('internal.unexpected', text), Math.random());
  }
}
