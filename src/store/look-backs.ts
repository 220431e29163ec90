import type { Timestamp } from '../domain/time.ts';
import type { Sql } from './database.ts';

/** A completed run whose interval may have got rows since. */
export interface LookBack {
  readonly runId: string;
  readonly exportId: string;
  readonly teamId: number;
  readonly intervalStart: Timestamp;
  readonly intervalEnd: Timestamp;
  readonly snapshot: string;
  readonly recordsTotalCount: number;
  readonly settled: boolean;
  readonly pending: readonly string[];
  readonly model: string;
  readonly dslQuery: string | null;
  readonly config: Readonly<Record<string, unknown>>;
}

/**
 * Takes up to `limit` completed runs in hand whose manifest is in force: those that were not settled,
 * every ten seconds; and those of the last `hours`, every five minutes. Passes over what another
 * worker has in hand.
 */
export async function takeLookBacks(sql: Sql, hours: number, limit: number): Promise<LookBack[]> {
  return sql.query<LookBack>(
    `with taken as (
       select r.id from runs r
         join receipts c on c.run_id = r.id
         join batch_exports e on e.id = r.export_id and e.deleted_at is null
        where r.status = 'Completed' and r.snapshot is not null and (
              not r.settled and coalesce(r.looked_back_at, r.finished_at) < now() - interval '10 s'
           or $1::int > 0 and r.data_interval_end > now() - $1 * interval '1 hour'
              and coalesce(r.looked_back_at, r.finished_at) < now() - interval '5 minutes')
        order by r.looked_back_at nulls first limit $2
        for update of r skip locked
     )
     update runs r set looked_back_at = now() from taken t, batch_exports e
      where r.id = t.id and e.id = r.export_id
     returning r.id as "runId", r.export_id as "exportId", r.team_id as "teamId",
       r.data_interval_start as "intervalStart", r.data_interval_end as "intervalEnd", r.snapshot,
       r.records_total_count as "recordsTotalCount", r.settled, r.pending_transactions as pending,
       e.model, e.dsl_query as "dslQuery", e.destination_config as config`,
    [hours, limit],
  );
}

/** The transactions that the run was not settled for have ended, and their rows are dealt with. */
export async function markSettled(sql: Sql, runId: string): Promise<void> {
  await sql.query(`update runs set settled = true, pending_transactions = '{}' where id = $1`, [
    runId,
  ]);
}
