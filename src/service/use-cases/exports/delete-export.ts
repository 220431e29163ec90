import { notFound } from '../../../foundation/domain/problem.ts';
import { lockExport, markBatchExportDeleted } from '../../../state/store/exports/exports.ts';
import type { Actor, Context } from '../context.ts';
import { cancelLiveWork } from '../runs/cancel-work.ts';
import { recordExportActivity } from './activity.ts';

/** Marks an export as deleted and cancels its live work. It never runs again; its records stay for audit. */
export async function deleteExport(context: Context, actor: Actor, id: string): Promise<void> {
  return context.db.transaction(async (tx) => {
    const batchExport = await lockExport(tx, id);
    if (!batchExport) throw notFound();
    await markBatchExportDeleted(tx, id);
    await cancelLiveWork(tx, id);
    await recordExportActivity(tx, actor, 'deleted', batchExport, []);
  });
}
