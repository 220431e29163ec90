import { lockExport, markBatchExportDeleted } from '../../store/exports.ts';
import type { Actor } from '../actor.ts';
import type { Context } from '../context.ts';
import { done, gone, type Outcome } from '../outcome.ts';
import { cancelLiveWork } from '../runs/cancel-work.ts';
import { recordExportActivity } from './activity.ts';

/** Deletes an export softly: its live work is cancelled, nothing fires again, its rows stay for audit. */
export async function deleteExport(
  context: Context,
  actor: Actor,
  id: string,
): Promise<Outcome<null>> {
  return context.db.transaction(async (tx) => {
    const batchExport = await lockExport(tx, id);
    if (!batchExport) return gone;
    await markBatchExportDeleted(tx, id);
    await cancelLiveWork(tx, id);
    await recordExportActivity(tx, actor, 'deleted', batchExport, []);
    return done(null);
  });
}
