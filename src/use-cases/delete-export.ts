import { lockBatchExport, markBatchExportDeleted } from '../store/batch-exports.ts';
import type { Actor } from './actor.ts';
import type { Context } from './context.ts';
import { recordExportActivity } from './export-activity.ts';
import { done, gone, type Outcome } from './outcome.ts';
import type { RunOperations } from './run-operations.ts';

/** Deletes an export softly: its live work is cancelled, nothing fires again, its rows stay for audit. */
export async function deleteExport(
  context: Context,
  runs: Pick<RunOperations, 'cancelLiveWork'>,
  actor: Actor,
  id: string,
): Promise<Outcome<null>> {
  return context.db.transaction(async (tx) => {
    const batchExport = await lockBatchExport(tx, id);
    if (!batchExport) return gone;
    await markBatchExportDeleted(tx, id);
    await runs.cancelLiveWork(tx, id);
    await recordExportActivity(tx, actor, 'deleted', batchExport, []);
    return done(null);
  });
}
