import type { BatchExport } from '../domain/batch-export.ts';
import type { DataInterval } from '../domain/time.ts';
import { missedWhilePaused } from '../scheduling/missed-while-paused.ts';
import { unpause } from '../scheduling/schedule.ts';
import { lockBatchExport, updateBatchExport } from '../store/batch-exports.ts';
import { readNow } from '../store/ticks.ts';
import type { Actor } from './actor.ts';
import { backfillRefusalProblem } from './backfill-refusal.ts';
import type { Context } from './context.ts';
import { changesBetween, recordExportActivity } from './export-activity.ts';
import { scheduleOf, storedSchedule } from './export-schedule.ts';
import { done, gone, type Outcome, refused } from './outcome.ts';
import type { RunOperations } from './run-operations.ts';

export interface UnpausedExport {
  readonly batchExport: BatchExport;
  /** Of the last range that was missed; null where nothing is backfilled. */
  readonly backfillId: string | null;
}

/**
 * Unpauses an export; one that is not paused stays as it is. With `backfill`, exactly the intervals
 * whose ticks were missed in the pause are exported.
 */
export async function unpauseExport(
  context: Context,
  runs: Pick<RunOperations, 'startBackfill'>,
  actor: Actor,
  id: string,
  options: { readonly backfill: boolean },
): Promise<Outcome<UnpausedExport>> {
  const unpaused = await unpauseNow(context, actor, id);
  if (unpaused === null) return gone;
  const { batchExport } = unpaused;
  let backfillId: string | null = null;
  for (const range of options.backfill ? unpaused.missed : []) {
    const started = await runs.startBackfill(context, batchExport, {
      startAt: range.start,
      endAt: range.end,
      order: 'oldest_first',
      reprocess: 'all',
      concurrency: null,
    });
    if ('problem' in started) return refused(backfillRefusalProblem(started));
    backfillId = started.backfillId;
  }
  return done({ batchExport, backfillId });
}

async function unpauseNow(
  context: Context,
  actor: Actor,
  id: string,
): Promise<{ batchExport: BatchExport; missed: readonly DataInterval[] } | null> {
  return context.db.transaction(async (tx) => {
    const before = await lockBatchExport(tx, id);
    if (!before) return null;
    if (!before.paused) return { batchExport: before, missed: [] };
    const now = await readNow(tx);
    const schedule = scheduleOf(before);
    const batchExport = await updateBatchExport(
      tx,
      id,
      { ...before, paused: false, pausedReason: null },
      storedSchedule(unpause(schedule, now)),
    );
    const changes = changesBetween(before, batchExport);
    await recordExportActivity(tx, actor, 'unpaused', batchExport, changes);
    return { batchExport, missed: missedWhilePaused(schedule, now) };
  });
}
