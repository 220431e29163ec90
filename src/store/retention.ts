import type { Sql } from './database.ts';

/** Rows that one statement deletes: short locks, so that nothing waits for the cleaning. */
const batch = 5_000;

/** @returns how many were deleted; fewer than a batch means that none is left */
export async function deleteOldLogEntries(sql: Sql, days: number): Promise<number> {
  const rows = await sql.query(
    `delete from log_entries where id in (
       select id from log_entries where timestamp < now() - $1 * interval '1 day' limit ${batch}) returning 1`,
    [days],
  );
  return rows.length;
}

export async function deleteOldTicks(sql: Sql, days: number): Promise<number> {
  const rows = await sql.query(
    `delete from ticks where ctid = any (array(
       select t.ctid from ticks t join batch_exports e on e.id = t.export_id
        where t.decided_at < now() - $1 * interval '1 day'
          -- The prefix that the high-water mark is counted from stays.
          and (e.deleted_at is not null or t.data_interval_end <= e.high_water_mark or t.fate <> 'ran')
        limit ${batch})) returning 1`,
    [days],
  );
  return rows.length;
}

/** Ended runs that no receipt in force refers to. */
export async function deleteOldRuns(sql: Sql, days: number): Promise<number> {
  const rows = await sql.query(
    `delete from runs where id in (
       select r.id from runs r
        where r.finished_at < now() - $1 * interval '1 day'
          and not exists (select 1 from receipts c where c.run_id = r.id)
          and not exists (select 1 from uploads u where u.run_id = r.id)
        limit ${batch}) returning 1`,
    [days],
  );
  return rows.length;
}

export const retentionBatch = batch;
