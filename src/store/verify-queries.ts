import type { StoredDestination } from '../domain/batch-export.ts';
import type { Timestamp } from '../domain/time.ts';
import type { Sql } from './database.ts';
import { live } from './run-moves.ts';

/** The queries of `sluice verify`; each returns one row per breach. */

export interface VerifiedExport {
  readonly id: string;
  readonly name: string;
  readonly teamId: number;
  readonly externalId: string;
  readonly model: string;
  readonly dslQuery: string | null;
  readonly destination: StoredDestination;
  readonly destinationVersion: number;
  readonly highWaterMark: Timestamp | null;
}

export async function listVerifiedExports(sql: Sql, id: string | null): Promise<VerifiedExport[]> {
  const rows = await sql.query<Omit<VerifiedExport, 'destination'> & StoredDestination>(
    `select e.id, e.name, e.team_id as "teamId", p.external_id as "externalId", e.model, e.dsl_query as "dslQuery",
            e.destination_type as type, e.destination_config as config, e.destination_secrets as secrets,
            e.destination_version as "destinationVersion", e.high_water_mark as "highWaterMark"
       from batch_exports e join projects p on p.id = e.team_id
      where e.deleted_at is null and ($1::uuid is null or e.id = $1) order by e.created_at, e.id`,
    [id],
  );
  return rows.map(({ type, config, secrets, ...rest }) => ({
    ...rest,
    destination: { type, config, secrets },
  }));
}

/**
 * Gaps between the intervals that are current or accepted, from where the high-water mark began up to the mark. Ticks
 * are not needed for it: retention deletes them.
 */
export async function findGaps(
  sql: Sql,
  exportId: string,
): Promise<{ start: Timestamp; end: Timestamp }[]> {
  return sql.query(
    `with marks as (
       select high_water_mark as reached, coalesce(mark_began_at,
              (select min(t.data_interval_start) from ticks t where t.export_id = e.id and t.fate = 'ran')) as began
         from batch_exports e where e.id = $1
     ), covered as (
       select data_interval_start, data_interval_end from receipts where export_id = $1
       union select data_interval_start, data_interval_end from accepted_intervals where export_id = $1
     ), walked as (
       select began, reached, c.data_interval_start as next,
              max(c.data_interval_end) over (order by c.data_interval_start rows between unbounded preceding and 1 preceding) as passed
         from marks join covered c on c.data_interval_start < reached and c.data_interval_end > began
       union all
       select began, reached, reached, (select max(c.data_interval_end) from covered c where c.data_interval_start < reached) from marks
     )
     select greatest(began, passed) as start, next as "end" from walked where next > greatest(began, passed) order by 1`,
    [exportId],
  );
}

/** Consecutive ticks that do not share their bound. */
export async function findTornTicks(
  sql: Sql,
  exportId: string,
): Promise<{ end: Timestamp; next: Timestamp }[]> {
  return sql.query(
    `select "end", next from (
       select data_interval_end as "end", lead(data_interval_start) over (order by tick_at) as next
         from ticks where export_id = $1
     ) t where next is not null and next <> "end"`,
    [exportId],
  );
}

/** Pairs of current intervals that overlap. */
export async function findOverlaps(
  sql: Sql,
  exportId: string,
): Promise<{ a: Timestamp; b: Timestamp }[]> {
  return sql.query(
    `select a, b from (
       select data_interval_start as b,
              lag(data_interval_start) over w as a, max(data_interval_end) over (
                order by data_interval_start, data_interval_end rows between unbounded preceding and 1 preceding) as covered
         from receipts where export_id = $1 window w as (order by data_interval_start, data_interval_end)
     ) r where covered > b`,
    [exportId],
  );
}

/** Runs with inconsistent counts, or completed without a receipt of their interval. */
export async function findInconsistentRuns(
  sql: Sql,
  exportId: string,
): Promise<{ id: string; why: string }[]> {
  return sql.query(
    `select r.id, case when r.records_completed is distinct from r.records_total_count - r.records_dropped - r.records_rejected
                       then 'its counts do not agree' else 'its interval has no receipt' end as why
       from runs r
      where r.export_id = $1 and r.status = 'Completed'
        and (r.records_completed is distinct from r.records_total_count - r.records_dropped - r.records_rejected
             or not exists (select 1 from receipts c where c.export_id = r.export_id
                               and c.data_interval_start = r.data_interval_start and c.data_interval_end = r.data_interval_end))`,
    [exportId],
  );
}

/** Every key that some receipt names, under any export. */
export async function listKnownKeys(sql: Sql): Promise<ReadonlySet<string>> {
  const rows = await sql.query<{ key: string }>(
    `select manifest_key as key from receipts where manifest_key is not null
     union select file->>'key' from receipts, jsonb_array_elements(files || rejected_files) as file`,
  );
  return new Set(rows.map((row) => row.key));
}

/** Keys of files that may be removed because of a later commit. */
export async function listLeftoverKeys(sql: Sql): Promise<ReadonlySet<string>> {
  const rows = await sql.query<{ key: string }>(`select key from leftover_files`);
  return new Set(rows.map((row) => row.key));
}

/** Whether any run may be writing now. */
export async function hasLiveRuns(sql: Sql): Promise<boolean> {
  const rows = await sql.query(`select 1 from runs where status in ${live} limit 1`);
  return rows.length > 0;
}

/**
 * Runs that wait for nothing although they have not ended, and outbox rows of runs that have ended.
 *
 * @param exportId null: of all exports
 */
export async function findLostRuns(
  sql: Sql,
  exportId: string | null,
): Promise<{ id: string; why: string }[]> {
  return sql.query(
    `select o.run_id as id, 'it has ended and still waits to be started' as why
       from outbox o join runs r on r.id = o.run_id
      where ($1::uuid is null or o.export_id = $1) and r.status not in ${live}
     union all
     select r.id, 'it has not ended, and nothing will start it'
       from runs r
      where ($1::uuid is null or r.export_id = $1) and r.status in ${live} and r.lease_expires_at is null
        and not exists (select from outbox o where o.run_id = r.id)`,
    [exportId],
  );
}
