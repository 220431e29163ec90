import { notFound, Refusal } from '../../domain/problem.ts';
import { isTerminal } from '../../domain/run.ts';
import { cancelBackfillsOf, finishBackfill } from '../../store/backfills.ts';
import type { Sql } from '../../store/database.ts';
import { lockExport } from '../../store/exports.ts';
import { appendLogEntries } from '../../store/log-entries.ts';
import { cancelRuns, findRun, hasBegunCommit, insertRuns, type Run } from '../../store/runs.ts';
import type { Context } from '../context.ts';

/**
 * Cancels a run. Its worker, wherever it is, stops at its next heartbeat and leaves nothing behind.
 * A run that has begun to commit is past cancelling and completes. If that attempt died, the next one can
 * be cancelled before it records what it finds: the next run of the interval commits over it.
 *
 * @throws Refusal if the run has ended, or has begun to commit: then it completes
 */
export async function cancelRun(context: Context, run: Run): Promise<void> {
  const { exportId, id: runId, teamId } = run;
  await context.db.transaction(async (tx) => {
    const cancelled = await cancelRuns(tx, { exportId, runId });
    if (cancelled.length > 0) {
      const begun = await hasBegunCommit(tx, runId);
      const message = begun ? `The run was cancelled. ${mayBeCurrent}` : 'The run was cancelled.';
      await appendLogEntries(tx, [{ teamId, exportId, runId, level: 'WARNING', message }]);
      return;
    }
    const now = await findRun(tx, exportId, runId);
    throw now !== null && !isTerminal(now.status) ? isCommitting() : hasEnded();
  });
}

const mayBeCurrent =
  'An attempt had begun to commit before, so its manifest may be current or become so. Its files are whole then, but the interval does not count as exported. Retry the run to export it.';

/**
 * Runs an ended run's interval again, as a new run.
 *
 * @returns the id of the new run
 * @throws Refusal if the run has not ended, the interval has a live run or the export is deleted
 */
export async function retryRun(context: Context, run: Run): Promise<string> {
  if (!isTerminal(run.status)) throw hasNotEnded();
  const { exportId, teamId } = run;
  const { interval } = run;
  const runId = await context.db.transaction(async (tx) => {
    // Whoever deletes it cancels the runs that are there: one made after that would be left.
    if (!(await lockExport(tx, exportId))) throw notFound();
    const [made] = await insertRuns(tx, [{ exportId, teamId, interval, backfillId: null }]);
    if (made === undefined) throw isLive();
    return made;
  });
  context.doorbell.runsWaiting();
  return runId;
}

/**
 * Ends a backfill early.
 *
 * @param running what becomes of its live runs
 * @throws Refusal if it had ended before
 */
export async function cancelBackfill(
  context: Context,
  exportId: string,
  backfillId: string,
  running: 'finish' | 'cancel',
): Promise<void> {
  await context.db.transaction(async (tx) => {
    if (!(await finishBackfill(tx, backfillId, 'Cancelled'))) throw backfillHasEnded();
    if (running === 'cancel') await cancelRuns(tx, { exportId, backfillId });
  });
}

/** Stops all that is under way for an export, within the transaction that deletes it. */
export async function cancelLiveWork(tx: Sql, exportId: string): Promise<void> {
  await cancelBackfillsOf(tx, exportId);
  await cancelRuns(tx, { exportId });
}

const invalid = (detail: string) => new Refusal({ code: 'invalid_input', detail, attr: null });
const conflict = (detail: string) => new Refusal({ code: 'conflict', detail, attr: null });

const hasEnded = () =>
  invalid('The run has ended: only a run that is Starting or Running can be cancelled.');
const hasNotEnded = () => invalid('The run has not ended: only an ended run can be retried.');
const backfillHasEnded = () =>
  invalid('The backfill has ended: only a running one can be cancelled.');
const isCommitting = () =>
  conflict('The run is committing its files: it can no longer be cancelled, and completes.');
const isLive = () => conflict('Another run of this interval is under way.');
