import type { BatchExport } from '../../domain/batch-export.ts';
import { toTimestamp } from '../../domain/time.ts';
import { pause } from '../../scheduling/schedule.ts';
import { lockExport, updateBatchExport } from '../../store/exports.ts';
import { readNow } from '../../store/ticks.ts';
import type { Actor } from '../actor.ts';
import type { Context } from '../context.ts';
import { done, gone, type Outcome } from '../outcome.ts';
import { changesBetween, recordExportActivity } from './activity.ts';

/** Pauses an export; in-flight runs finish. A paused one stays as it is, last_paused_at included. */
export async function pauseExport(
  context: Context,
  actor: Actor,
  id: string,
): Promise<Outcome<BatchExport>> {
  return context.db.transaction(async (tx) => {
    const before = await lockExport(tx, id);
    if (!before) return gone;
    if (before.paused) return done(before);
    const now = await readNow(tx);
    const after = await updateBatchExport(tx, id, {
      ...before,
      paused: true,
      lastPausedAt: toTimestamp(now),
      pausedReason: null,
      schedule: pause(before.schedule, now),
    });
    await recordExportActivity(tx, actor, 'paused', after, changesBetween(before, after));
    return done(after);
  });
}
