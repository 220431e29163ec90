import type { RunStatus } from '../domain/run.ts';
import type { DataInterval } from '../domain/time.ts';
import type { Sql } from './database.ts';
import type { Lease } from './lease.ts';
import { live, running } from './run-moves.ts';
import { boundsOf, intervalOf } from './times.ts';

/** An attempt that a worker has begun. Its rows may be those of the moment of its claim. */
export interface Attempt extends Lease {
  readonly interval: DataInterval;
}

/** Attempts of an export that are in progress. */
export async function listAttempts(sql: Sql, exportId: string): Promise<Attempt[]> {
  return sql.query<Attempt>(
    `select r.id as "runId", r.fence, ${intervalOf('r')} as interval from runs r
      where r.export_id = $1 and r.status = ${running} and r.lease_holder is not null`,
    [exportId],
  );
}

/** How many of these attempts may still commit what they read. A claim by another worker ends an attempt. */
export async function countUnderWay(sql: Sql, attempts: readonly Lease[]): Promise<number> {
  const [row] = await sql.query<{ count: number }>(
    `select count(*) from unnest($1::uuid[], $2::bigint[]) as held (id, fence)
       join runs r on r.id = held.id and r.fence = held.fence
      where r.status = ${running} and r.lease_holder is not null`,
    [attempts.map(({ runId }) => runId), attempts.map(({ fence }) => fence)],
  );
  return row?.count ?? 0;
}

/** The newest run of an interval. */
export interface IntervalRun {
  readonly interval: DataInterval;
  readonly runId: string;
  readonly status: RunStatus;
  readonly isLive: boolean;
  readonly latestError: string | null;
}

/** Of each of these intervals that ever had a run, in no order. */
export async function listNewestRuns(
  sql: Sql,
  exportId: string,
  intervals: readonly DataInterval[],
): Promise<IntervalRun[]> {
  return sql.query<IntervalRun>(
    `select ${intervalOf('r')} as interval, r.id as "runId", r.status, r.status in ${live} as "isLive", r.latest_error as "latestError"
       from unnest($2::timestamptz[], $3::timestamptz[]) as i (starts, ends)
      cross join lateral (
        select * from runs r where r.export_id = $1 and r.data_interval_start = i.starts and r.data_interval_end = i.ends
         order by r.generation desc limit 1) r`,
    [
      exportId,
      intervals.map((interval) => boundsOf(interval)[0]),
      intervals.map((interval) => boundsOf(interval)[1]),
    ],
  );
}
