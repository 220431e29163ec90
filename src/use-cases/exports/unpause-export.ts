import type { BatchExport } from '../../domain/batch-export.ts';
import type { DataInterval } from '../../domain/time.ts';
import { missedWhilePaused } from '../../scheduling/missed-while-paused.ts';
import { unpause } from '../../scheduling/schedule.ts';
import type { Sql } from '../../store/database.ts';
import { lockExport, updateBatchExport } from '../../store/exports.ts';
import { readNow } from '../../store/ticks.ts';
import type { Actor } from '../actor.ts';
import { backfillRefusal } from '../backfills/refusal.ts';
import { recordBackfill } from '../backfills/start-backfill.ts';
import type { Context } from '../context.ts';
import { done, gone, type Outcome } from '../outcome.ts';
import { Refusal, settleRefusal } from '../refusal.ts';
import { changesBetween, recordExportActivity } from './activity.ts';

export interface UnpausedExport {
  readonly batchExport: BatchExport;
  /** One for each stretch of missed intervals, oldest first. */
  readonly backfillIds: readonly string[];
}

/**
 * Unpauses an export; one that is not paused stays as it is. With `backfill`, exactly the intervals
 * whose ticks were missed in the pause are exported; where that is refused, the pause stays.
 */
export async function unpauseExport(
  context: Context,
  actor: Actor,
  id: string,
  options: { readonly backfill: boolean },
): Promise<Outcome<UnpausedExport>> {
  const outcome = await settleRefusal(
    context.db.transaction<Outcome<UnpausedExport>>(async (tx) => {
      const before = await lockExport(tx, id);
      if (!before) return gone;
      if (!before.paused) return done({ batchExport: before, backfillIds: [] });
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
      return done({
        batchExport,
        backfillIds: await backfillAll(tx, context, batchExport, missed),
      });
    }),
  );
  if (outcome.ok) outcome.value.backfillIds.forEach(context.doorbell.backfillWaiting);
  return outcome;
}

async function backfillAll(
  tx: Sql,
  context: Context,
  batchExport: BatchExport,
  ranges: readonly DataInterval[],
): Promise<string[]> {
  const ids: string[] = [];
  for (const range of ranges) {
    const recorded = await recordBackfill(
      tx,
      batchExport,
      {
        startAt: range.start,
        endAt: range.end,
        order: 'oldest_first',
        reprocess: 'all',
        concurrency: null,
      },
      context.policy.backfillConcurrency,
    );
    if ('problem' in recorded) throw new Refusal(backfillRefusal(recorded));
    ids.push(recorded.backfillId);
  }
  return ids;
}
