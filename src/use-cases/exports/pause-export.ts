import type { BatchExport } from '../../domain/batch-export.ts';
import { notFound } from '../../domain/problem.ts';
import { toTimestamp } from '../../domain/time.ts';
import { pause } from '../../scheduling/schedule.ts';
import { lockExport, updateBatchExport } from '../../store/exports.ts';
import { readNow } from '../../store/ticks.ts';
import type { Actor, Context } from '../context.ts';
import { changesBetween, recordExportActivity } from './activity.ts';

/** Pauses an export; live runs finish. A paused export does not change, not even last_paused_at. */
export async function pauseExport(
  context: Context,
  actor: Actor,
  id: string,
): Promise<BatchExport> {
  return context.db.transaction(async (tx) => {
    const before = await lockExport(tx, id);
    if (!before) throw notFound();
    if (before.paused) return before;
    const now = await readNow(tx);
    const after = await updateBatchExport(tx, id, {
      ...before,
      paused: true,
      lastPausedAt: toTimestamp(now),
      pausedReason: null,
      schedule: pause(before.schedule, now),
    });
    await recordExportActivity(tx, actor, 'paused', after, changesBetween(before, after));
    return after;
  });
}
