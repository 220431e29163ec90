import { describeError, isErrorCode, SluiceError } from '../../domain/errors.ts';
import { decideAttempt, type FailureHistory } from '../../domain/retry-policy.ts';
import { pause } from '../../scheduling/schedule.ts';
import type { Sql } from '../../store/database.ts';
import { lockExport, recordFailure, recordSuccess } from '../../store/exports.ts';
import type { ClaimedRun } from '../../store/leases.ts';
import {
  forgetLeftoverFiles,
  type LeftoverFile,
  noteLeftoverFiles,
} from '../../store/leftover-files.ts';
import { appendLogEntries, type LogLevel } from '../../store/log-entries.ts';
import {
  advanceHighWaterMark,
  hasReceiptAt,
  putProof,
  putReceipt,
  type Receipt,
} from '../../store/receipts.ts';
import {
  completeRun,
  failRun,
  findErrorCode,
  handBackRun,
  type RunResult,
} from '../../store/runs.ts';
import { readNow, storeSchedules } from '../../store/ticks.ts';
import type { Context } from '../context.ts';

/**
 * Records that the manifest of a run is current: run, receipt, high-water mark and what the commit has
 * replaced, in one transaction.
 *
 * @returns false if the lease is lost; nothing is recorded then
 */
export async function recordCompletion(
  context: Context,
  run: ClaimedRun,
  result: RunResult,
  receipt: Receipt,
  replaced: readonly LeftoverFile[],
): Promise<boolean> {
  return context.db.transaction(async (tx) => {
    await lockExport(tx, run.exportId);
    if (!(await completeRun(tx, run, result))) return false;
    await putReceipt(tx, receipt);
    const files = [...receipt.files, ...receipt.rejectedFiles].map((file) => file.key);
    const named = receipt.manifestKey === null ? files : [...files, receipt.manifestKey];
    await forgetLeftoverFiles(tx, receipt, named);
    await noteLeftoverFiles(tx, receipt, replaced);
    await putProof(tx, receipt, result);
    await recordSuccess(tx, run.exportId);
    await advanceHighWaterMark(tx, run.exportId);
    await log(
      tx,
      run,
      'INFO',
      `Completed: ${result.recordsCompleted} rows, ${result.bytesExported} bytes in ${result.files} files.`,
    );
    return true;
  });
}

/**
 * Records that an attempt ended in an error: another attempt follows, or the run ends.
 *
 * @param random in [0, 1), for the jitter of the backoff
 */
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
    const decision = decideAttempt(error, run.faults + 1, history, policy, random);
    if (decision.outcome === 'doubted') {
      if (!(await handBackRun(tx, run, decision.delayMs, shown, false))) return;
      const seconds = Math.ceil(decision.delayMs / 1000);
      const text = `Attempt ${run.attempt} failed, and trying again should not help. But this destination worked before, so Sluice asks it once more in ${seconds} s; the same error then ends the run. ${shown.text}`;
      await log(tx, run, 'WARNING', text);
      return;
    }
    if (decision.outcome === 'retry') {
      if (!(await handBackRun(tx, run, decision.delayMs, shown))) return;
      const seconds = Math.ceil(decision.delayMs / 1000);
      const text = `Attempt ${run.attempt} failed; the next follows in ${seconds} s. ${shown.text}`;
      await log(tx, run, 'WARNING', text);
      return;
    }
    await lockExport(tx, run.exportId);
    if (!(await failRun(tx, run, decision.outcome, shown))) return;
    await log(tx, run, 'ERROR', shown.text);
    if (decision.outcome === 'failed') await countFailure(tx, context, run, shown.text);
  });
}

async function readHistory(tx: Sql, run: ClaimedRun, error: SluiceError): Promise<FailureHistory> {
  // Only what ends a run is doubted.
  if (error.spec.retryable) return { before: null, workedBefore: false };
  const before = await findErrorCode(tx, run.runId);
  return {
    before: before !== null && isErrorCode(before) ? before : null,
    workedBefore: await hasReceiptAt(tx, run.exportId, run.destinationVersion),
  };
}

/**
 * Sets a run aside that ended the process which it had for itself.
 *
 * @param how for its owner: `The process that the run had for itself ended: SIGSEGV.`
 */
export async function quarantineRun(context: Context, run: ClaimedRun, how: string): Promise<void> {
  const text = describeError(new SluiceError('run.crashed', how));
  await context.db.transaction(async (tx) => {
    await lockExport(tx, run.exportId);
    if (!(await failRun(tx, run, 'failed', { code: 'run.crashed', text }))) return;
    await log(tx, run, 'ERROR', text);
    await countFailure(tx, context, run, text);
  });
}

/** Gives a run back unharmed, to be taken up at once by another worker. */
export async function releaseRun(context: Context, run: ClaimedRun): Promise<void> {
  await context.db.transaction(async (tx) => {
    if (await handBackRun(tx, run, 0, null)) {
      await log(tx, run, 'INFO', 'The worker was shut down; another one goes on with the run.');
    }
  });
}

async function countFailure(
  tx: Sql,
  context: Context,
  run: ClaimedRun,
  reason: string,
): Promise<void> {
  const { warnAfterFailures, pauseAfterFailures } = context.policy;
  const row = await lockExport(tx, run.exportId);
  const failure = await recordFailure(tx, run.exportId, pauseAfterFailures, reason);
  if (failure.paused && row) {
    const schedule = pause(row.schedule, await readNow(tx));
    await storeSchedules(tx, [{ exportId: run.exportId, schedule }]);
    await logForExport(
      tx,
      run,
      'ERROR',
      `Paused after ${failure.streak} failed runs in a row. Mend the cause, then unpause. ${reason}`,
    );
  } else if (failure.streak === warnAfterFailures) {
    await logForExport(
      tx,
      run,
      'WARNING',
      `${failure.streak} runs in a row have failed; after ${pauseAfterFailures} the export is paused.`,
    );
  }
}

async function log(tx: Sql, run: ClaimedRun, level: LogLevel, message: string): Promise<void> {
  const { teamId, exportId, runId } = run;
  await appendLogEntries(tx, [{ teamId, exportId, runId, level, message }]);
}

async function logForExport(
  tx: Sql,
  run: ClaimedRun,
  level: LogLevel,
  message: string,
): Promise<void> {
  const { teamId, exportId } = run;
  await appendLogEntries(tx, [{ teamId, exportId, runId: null, level, message }]);
}
