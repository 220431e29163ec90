import type { BatchExport } from '../../../foundation/domain/batch-export.ts';
import { notFound } from '../../../foundation/domain/problem.ts';
import type { DataInterval, Instant } from '../../../foundation/domain/time.ts';
import { missedWhilePaused } from '../../scheduling/missed-while-paused.ts';
import { newestGate, unpause } from '../../scheduling/schedule.ts';
import type { Sql } from '../../../state/store/database.ts';
import { lockExportNow } from '../../../state/store/exports.ts';
import { recordBackfill, wholeRange } from '../backfills/start-backfill.ts';
import type { Actor, Context } from '../context.ts';
import { changeExport } from './activity.ts';
import { readTimeline } from './timeline.ts';

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
    const locked = await lockExportNow(tx, id);
    if (!locked) throw notFound();
    const { batchExport: before, now } = locked;
    if (!before.paused) return { batchExport: before, backfillIds: [] };
    const after = {
      ...before,
      paused: false,
      pausedReason: null,
      schedule: unpause(before.schedule, now),
    };
    const batchExport = await changeExport(tx, actor, 'unpaused', before, after);
    const missed = options.backfill ? await missedBy(tx, before, now) : [];
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

async function missedBy(
  tx: Sql,
  { id, schedule }: BatchExport,
  now: Instant,
): Promise<readonly DataInterval[]> {
  const pause = { start: newestGate(schedule).pausedSince ?? now, end: now };
  return missedWhilePaused(schedule, await readTimeline(tx, id, schedule, pause), now);
}
