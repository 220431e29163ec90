import type { Sql } from './database.ts';
import { dataUntil } from './export-states.ts';
import { prepared } from './prepared.ts';

/** Exports that one check changes at most: short locks. The next check changes the rest. */
const batch = 500;

/** When the data becomes older than the objective. */
const lateFrom = `${dataUntil} + e.freshness_minutes * interval '1 minute'`;

/**
 * An export that a person paused has no objective meanwhile; one that Sluice paused has. After its end no data
 * is expected.
 */
const isLate = `(e.freshness_minutes is not null and not (e.paused and e.paused_reason is null)
  and ${lateFrom} < least(clock_timestamp(), e.end_at))`;

/**
 * Finds exports whose data is older than their objective, and those that are late no longer, by Postgres'
 * clock. Workers may check at the same time: each change is made once. An export that is locked at this moment
 * is left to the next check.
 *
 * @returns how many changed
 */
export async function checkFreshness(sql: Sql): Promise<number> {
  const rows = await sql.query(
    prepared(`with changed as (
       select e.id from batch_exports e
        where e.deleted_at is null and (e.freshness_minutes is not null or e.late_since is not null)
          and (e.late_since is not null) <> ${isLate}
        order by e.id limit ${batch} for no key update skip locked
     )
     update batch_exports e set late_since = case when ${isLate} then ${lateFrom} end
       from changed where e.id = changed.id returning 1`),
  );
  return rows.length;
}
