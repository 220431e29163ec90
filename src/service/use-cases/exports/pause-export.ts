import type { BatchExport, PauseReason } from '../../../foundation/domain/batch-export.ts';
import { notFound } from '../../../foundation/domain/problem.ts';
import { toTimestamp } from '../../../foundation/domain/time.ts';
import { pause } from '../../scheduling/schedule.ts';
import { lockExportNow } from '../../../state/store/exports/exports.ts';
import type { Actor, Context } from '../context.ts';
import { changeExport } from './activity.ts';

/**
 * Pauses an export; live runs finish. A paused export does not change, not even last_paused_at; but a pause that Sluice made becomes
 * that of the person who asks for one, so that it does not end by itself.
 *
 * @param reason null: a person's
 */
export async function pauseExport(
  context: Context,
  actor: Actor,
  id: string,
  reason: PauseReason | null = null,
): Promise<BatchExport> {
  return context.db.transaction(async (tx) => {
    const locked = await lockExportNow(tx, id);
    if (!locked) throw notFound();
    const { batchExport: before, now } = locked;
    if (before.paused) {
      const isTakenOver = reason === null && before.pausedReason !== null;
      if (!isTakenOver) return before;
      return changeExport(tx, actor, 'paused', before, {
        ...before,
        pausedReason: null,
        pausedCode: null,
      });
    }
    const after = {
      ...before,
      paused: true,
      lastPausedAt: toTimestamp(now),
      pausedReason: reason?.text ?? null,
      pausedCode: reason?.code ?? null,
      schedule: pause(before.schedule, now),
    };
    return changeExport(tx, actor, 'paused', before, after);
  });
}
