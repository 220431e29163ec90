import type { DataInterval } from '../../../foundation/domain/time.ts';
import type { Sql } from '../database/database.ts';
import { queryNumber } from '../database/statement.ts';
import { boundsOf, isSameInterval } from '../database/times.ts';
import { mayRun } from '../healing/healing.ts';
import { enqueueRuns } from '../runs/outbox.ts';
import { live } from '../runs/run-moves.ts';

/** SQL: a snapshot `c` at the present destination of the export `e`. One that keeps no files has no manifest. */
const isHere = `c.export_id = e.id and c.snapshot_at is not null and c.manifest_key is not null
  and c.destination_version = e.destination_version`;

/** A removal that failed is tried again after this time, unless a person must decide. */
const restedAfter = `interval '1 hour'`;

/** Beyond keep_snapshots, the oldest first. Its cost depends on the snapshots that exports keep. @returns how many runs */
export const makeExpiringRuns = queryNumber<[limit: number]>(`with old as (
       select e.team_id, c.export_id, c.data_interval_start, c.data_interval_end
         from batch_exports e cross join lateral (
           select c.export_id, c.data_interval_start, c.data_interval_end from receipts c
            where ${isHere} order by c.data_interval_start desc offset e.keep_snapshots) c
        where e.mode = 'snapshot' and e.keep_snapshots is not null and e.deleted_at is null and ${mayRun}
          and not exists (select from runs r where ${isSameInterval('r', 'c')}
                             and (r.status in ${live} or r.purpose = 'expire'
                                  and (r.finished_at > now() - ${restedAfter} or is_decided_by_people(r.error_code))))
        order by c.data_interval_start limit $1
     ), made as (
       insert into runs (export_id, team_id, data_interval_start, data_interval_end, purpose, generation)
       select o.export_id, o.team_id, o.data_interval_start, o.data_interval_end, 'expire',
              coalesce((select max(r.generation) + 1 from runs r where ${isSameInterval('r', 'o')}), 0)
         from old o
       on conflict do nothing
       returning id, team_id, export_id, backfill_id, data_interval_start, purpose
     ), enqueued as (
       ${enqueueRuns('made')}
     )
     select count(*)::int as made from made`);

/** The number of snapshots that an export no longer keeps, and that are still there. */
export const countExpiring = queryNumber<[exportId: string]>(`
     select (select count(*)::int from (select from receipts c where ${isHere} order by c.data_interval_start desc offset e.keep_snapshots) as old) as count
       from batch_exports e where e.id = $1 and e.mode = 'snapshot' and e.keep_snapshots is not null`);

export async function isKept(sql: Sql, exportId: string, interval: DataInterval): Promise<boolean> {
  const [row] = await sql.query<{ is: boolean }>(
    `select e.keep_snapshots is null or
            (select count(*) from receipts c where ${isHere} and c.data_interval_start > $2) < e.keep_snapshots as is
       from batch_exports e where e.id = $1`,
    [exportId, boundsOf(interval)[0]],
  );
  return row?.is !== false;
}

/** True if no later interval of an export has a snapshot at its destination. */
export async function isNewestSnapshot(
  sql: Sql,
  exportId: string,
  interval: DataInterval,
): Promise<boolean> {
  const rows = await sql.query(
    `select from receipts where export_id = $1 and snapshot_at is not null and data_interval_start > $2 limit 1`,
    [exportId, boundsOf(interval)[0]],
  );
  return rows.length === 0;
}
