import type { Sql } from '../database/database.ts';
import { type Timestamp, toTimestamp } from '../../../foundation/domain/time.ts';

/** Adds time that a worker spent, by project, to the current hour. A project that is gone is left out. */
export async function addWorkerSeconds(
  sql: Sql,
  spent: ReadonlyMap<number, number>,
): Promise<void> {
  if (spent.size === 0) return;
  await sql.query(
    `insert into hourly_use as w (team_id, hour, seconds)
     select p.id, date_trunc('hour', now()), s.seconds
       from unnest($1::int[], $2::float8[]) as s (team_id, seconds) join projects p on p.id = s.team_id
      -- One order for all, so that two workers never wait for each other.
      order by p.id
     on conflict (team_id, config_id, hour) do update set seconds = w.seconds + excluded.seconds`,
    [[...spent.keys()], [...spent.values()]],
  );
}

/** An organization and the time that workers spent on its runs. */
export interface TenantUse {
  readonly organizationId: string;
  readonly organizationName: string;
  readonly workerSeconds: number;
}

/**
 * The organizations on which workers spent the most time, most first.
 *
 * @param hours whole hours back, besides the current one
 */
export async function listBusiestTenants(
  sql: Sql,
  hours: number,
  limit: number,
): Promise<TenantUse[]> {
  return sql.query<TenantUse>(
    `select o.id as "organizationId", o.name as "organizationName", sum(w.seconds)::float8 as "workerSeconds"
       from hourly_use w join projects p on p.id = w.team_id join organizations o on o.id = p.organization_id
      where w.config_id is null and w.hour >= date_trunc('hour', now()) - $1 * interval '1 hour'
      group by o.id order by sum(w.seconds) desc, o.id limit $2`,
    [hours, limit],
  );
}

/** The size of an exported interval, and the duration of its run. */
interface IntervalThroughput {
  readonly startsAt: Timestamp;
  readonly endsAt: Timestamp;
  readonly rows: number;
  readonly bytes: number;
  /** The run that wrote them, or that found them unchanged. */
  readonly runId: string;
  /** From the creation of the run to its first attempt. */
  readonly waitedSeconds: number | null;
  /** From the begin of the first attempt to the end, waits between attempts included. */
  readonly durationSeconds: number | null;
  /** From the end of the interval to its first commit; null unless the schedule asked for it, or if that run is deleted. */
  readonly deliveryDelaySeconds: number | null;
}

/**
 * The newest exported intervals of an export that start before `before` (null: all), oldest first. Reads
 * `limit` entries of an index, and their rows.
 */
export async function listThroughput(
  sql: Sql,
  exportId: string,
  before: number | null,
  limit: number,
): Promise<IntervalThroughput[]> {
  return sql.query<IntervalThroughput>(
    `select c.data_interval_start as "startsAt", c.data_interval_end as "endsAt", c.rows, c.bytes, c.run_id as "runId",
            extract(epoch from r.started_at - r.created_at)::float8 as "waitedSeconds",
            extract(epoch from r.finished_at - r.started_at)::float8 as "durationSeconds",
            (select extract(epoch from min(f.finished_at) - c.data_interval_end)::float8 from runs f
              where f.export_id = $1 and f.data_interval_start = c.data_interval_start and f.data_interval_end = c.data_interval_end
                and f.status = 'Completed' and exists (select from ticks t where t.export_id = $1 and t.fate = 'ran'
                      and t.data_interval_start = c.data_interval_start)) as "deliveryDelaySeconds"
       from (select data_interval_start, data_interval_end, rows, bytes, run_id from receipts
              where export_id = $1 and data_interval_start < $2
              order by data_interval_start desc, data_interval_end desc limit $3) c
       left join runs r on r.id = c.run_id
      order by c.data_interval_start, c.data_interval_end`,
    [exportId, before === null ? 'infinity' : toTimestamp(before), limit],
  );
}
