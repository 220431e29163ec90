import { type Timestamp, toTimestamp } from '../../foundation/domain/time.ts';
import type { Sql } from './database.ts';

/** What one exported interval has, and how long its run took. */
export interface IntervalThroughput {
  readonly startsAt: Timestamp;
  readonly endsAt: Timestamp;
  /** Of the current files. */
  readonly rows: number;
  readonly bytes: number;
  /** The run that wrote them, or that found them unchanged. */
  readonly runId: string;
  /** From the begin of the first attempt to the end, waits between attempts included. */
  readonly durationSeconds: number | null;
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
            extract(epoch from r.finished_at - r.started_at)::float8 as "durationSeconds"
       from (select data_interval_start, data_interval_end, rows, bytes, run_id from receipts
              where export_id = $1 and data_interval_start < $2
              order by data_interval_start desc, data_interval_end desc limit $3) c
       left join runs r on r.id = c.run_id
      order by c.data_interval_start, c.data_interval_end`,
    [exportId, before === null ? 'infinity' : toTimestamp(before), limit],
  );
}
