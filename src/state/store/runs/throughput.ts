import { type Timestamp, toTimestamp } from '../../../foundation/domain/time.ts';
import type { Sql } from '../database/database.ts';

/** What one exported interval has, and how long its run took. */
export interface IntervalThroughput {
  readonly startsAt: Timestamp;
  readonly endsAt: Timestamp;
  /** Of the current files. */
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
