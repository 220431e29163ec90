import { isTerminal } from '../../domain/run.ts';
import { cancelBackfillsOf, finishBackfill } from '../../store/backfills.ts';
import type { Sql } from '../../store/database.ts';
import { lockExport } from '../../store/exports.ts';
import { appendLogEntries } from '../../store/log-entries.ts';
import { cancelRuns, findRun, hasBegunCommit, insertRuns, type Run } from '../../store/runs.ts';
import type { Context } from '../context.ts';

/** `committing`: the run puts its files in force just now and completes. */
export type Cancellation = 'cancelled' | 'committing' | 'ended';

/**
 * Cancels a run. Its worker, wherever it is, stops at its next heartbeat and leaves nothing behind.
 * A run that has begun to commit is past cancelling and completes. If that attempt died, the next one can
 * be cancelled before it records what it finds: the next run of the interval commits over it.
 */
export async function cancelRun(context: Context, run: Run): Promise<Cancellation> {
  const { exportId, id: runId, teamId } = run;
  return context.db.transaction(async (tx) => {
    const cancelled = await cancelRuns(tx, { exportId, runId });
    if (cancelled.length > 0) {
      const begun = await hasBegunCommit(tx, runId);
      const message = begun ? `The run was cancelled. ${mayBeCurrent}` : 'The run was cancelled.';
      await appendLogEntries(tx, [{ teamId, exportId, runId, level: 'WARNING', message }]);
      return 'cancelled';
    }
    const now = await findRun(tx, exportId, runId);
    return now !== null && !isTerminal(now.status) ? 'committing' : 'ended';
  });
}

const mayBeCurrent =
  'An attempt had begun to commit before, so its manifest may be current or become so. Its files are whole then, but the interval does not count as exported. Retry the run to export it.';

/**
 * Runs an ended run's interval again, as a new run.
 *
 * @returns null where the run has not ended, the interval has a live run or the export is deleted
 */
export async function retryRun(context: Context, run: Run): Promise<string | null> {
  if (!isTerminal(run.status)) return null;
  const { exportId, teamId } = run;
  const { interval } = run;
  const runId = await context.db.transaction(async (tx) => {
    // Whoever deletes it cancels the runs that are there: one made after that would be left.
    if (!(await lockExport(tx, exportId))) return undefined;
    const [made] = await insertRuns(tx, [{ exportId, teamId, interval, backfillId: null }]);
    return made;
  });
  if (runId === undefined) return null;
  context.doorbell.runsWaiting();
  return runId;
}

/**
 * Ends a backfill early.
 *
 * @param running what becomes of its live runs
 * @returns false where it had ended before
 */
export async function cancelBackfill(
  context: Context,
  exportId: string,
  backfillId: string,
  running: 'finish' | 'cancel',
): Promise<boolean> {
  return context.db.transaction(async (tx) => {
    if (!(await finishBackfill(tx, backfillId, 'Cancelled'))) return false;
    if (running === 'cancel') await cancelRuns(tx, { exportId, backfillId });
    return true;
  });
}

/** Stops all that is under way for an export, within the transaction that deletes it. */
export async function cancelLiveWork(tx: Sql, exportId: string): Promise<void> {
  await cancelBackfillsOf(tx, exportId);
  await cancelRuns(tx, { exportId });
}
