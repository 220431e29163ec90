import type { Sql } from './database.ts';

/** What a run's end means for its export. */
export interface FailureStreak {
  readonly streak: number;
  readonly paused: boolean;
}

/** Always before the lock on one of its runs: whoever deletes the export takes them in this order. */
export async function lockExport(tx: Sql, exportId: string): Promise<void> {
  await tx.query(`select from batch_exports where id = $1 for no key update`, [exportId]);
}

/** A completed run ends the streak of failures. */
export async function recordSuccess(tx: Sql, exportId: string): Promise<void> {
  await tx.query(
    `update batch_exports set failure_streak = 0, last_success_at = now() where id = $1`,
    [exportId],
  );
}

/**
 * Counts a Failed run and pauses the export once the streak reaches `pauseAfter`.
 *
 * @returns the streak, and whether this failure paused the export
 */
export async function recordFailure(
  tx: Sql,
  exportId: string,
  pauseAfter: number,
  reason: string,
): Promise<FailureStreak> {
  const [row] = await tx.query<FailureStreak>(
    `with old as (select id, paused from batch_exports where id = $1 for no key update)
     update batch_exports e
        set failure_streak = failure_streak + 1,
            paused = e.paused or failure_streak + 1 >= $2,
            last_paused_at = case when not e.paused and failure_streak + 1 >= $2 then now() else last_paused_at end,
            paused_reason = case when not e.paused and failure_streak + 1 >= $2 then $3 else paused_reason end
       from old where e.id = old.id
     returning e.failure_streak as streak, (e.paused and not old.paused) as paused`,
    [exportId, pauseAfter, reason],
  );
  return row ?? { streak: 0, paused: false };
}
