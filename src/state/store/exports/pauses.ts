import type { Schedule } from '../../../foundation/domain/schedule.ts';
import { toTimestamp } from '../../../foundation/domain/time.ts';
import type { Sql } from '../database/database.ts';

/** Ends the pause of an export that the transaction has locked. No failure before it counts any more. */
export async function endPause(tx: Sql, exportId: string, schedule: Schedule): Promise<void> {
  await tx.query(
    `update batch_exports set paused = false, paused_reason = null, paused_code = null, failure_streak = 0, schedule = $2, next_tick_at = $3,
            last_updated_at = clock_timestamp()
      where id = $1`,
    [exportId, JSON.stringify(schedule), toTimestamp(schedule.nextTickAt)],
  );
}
