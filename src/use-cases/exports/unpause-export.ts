import type { BatchExport } from '../../domain/batch-export.ts';
import { notFound } from '../../domain/problem.ts';
import { missedWhilePaused } from '../../scheduling/missed-while-paused.ts';
import { unpause } from '../../scheduling/schedule.ts';
import { lockExport, updateBatchExport } from '../../store/exports.ts';
import { readNow } from '../../store/ticks.ts';
import { recordBackfill, wholeRange } from '../backfills/start-backfill.ts';
import type { Actor, Context } from '../context.ts';
import { changesBetween, recordExportActivity } from './activity.ts';

export interface UnpausedExport {
  readonly batchExport: BatchExport;
  /** One for each range of missed intervals, oldest first. */
  readonly backfillIds: readonly string[];
}

/**
 * Unpauses an export; one that is not paused does not change. With `backfill`, exactly the intervals
 * whose ticks were missed in the pause are exported. If a backfill is refused, the export stays paused.
 */
export async function unpauseExport(
  context: Context,
  actor: Actor,
  id: string,
  options: { readonly backfill: boolean },
): Promise<UnpausedExport> {
  const unpaused = await context.db.transaction(async (tx) => {
    const before = await lockExport(tx, id);
    if (!before) throw notFound();
    if (!before.paused) return { batchExport: before, backfillIds: [] };
    const now = await readNow(tx);
    const batchExport = await updateBatchExport(tx, id, {
      ...before,
      paused: false,
      pausedReason: null,
      schedule: unpause(before.schedule, now),
    });
    const changes = changesBetween(before, batchExport);
    await recordExportActivity(tx, actor, 'unpaused', batchExport, changes);
    const missed = options.backfill ? missedWhilePaused(before.schedule, now) : [];
    const backfillIds: string[] = [];
    for (const range of missed) {
      const recorded = await recordBackfill(tx, context, batchExport, wholeRange(range));
      backfillIds.push(recorded.backfillId);
    }
    return { batchExport, backfillIds };
  });
  for (const id of unpaused.backfillIds) context.doorbell.backfillWaiting(id);
  return unpaused;
}
