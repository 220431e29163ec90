import type { RunStatus } from '../../../foundation/domain/run.ts';
import type { DataInterval } from '../../../foundation/domain/time.ts';
import { queryRows } from '../database/statement.ts';
import { type Lease, live } from '../runs/run-moves.ts';
import { boundLists, intervalOf } from '../database/times.ts';

/** A run that may yet make current what it read before now. */
export interface RunUnderWay extends Lease {
  readonly interval: DataInterval;
}

/** SQL of a live run `r` from its claim on. After a commit was begun any attempt may: it adopts that manifest. */
const mayCommit = `r.status in ${live} and (r.lease_holder is not null or r.commit_intent is not null)`;

export const listUnderWay = queryRows<RunUnderWay, [exportId: string]>(`
     select r.id as "runId", r.fence, ${intervalOf('r')} as interval from runs r
      where r.export_id = $1 and ${mayCommit}`);

/** If another worker claims a run that has not begun to commit, the run reads anew. */
export const listStillUnderWay = queryRows<RunUnderWay, [runs: readonly Lease[]]>(
  `select r.id as "runId", r.fence, ${intervalOf('r')} as interval
       from unnest($1::uuid[], $2::bigint[]) as held (id, fence) join runs r on r.id = held.id
      where ${mayCommit} and (r.fence = held.fence or r.commit_intent is not null)
      order by r.data_interval_start`,
  (runs) => [runs.map(({ runId }) => runId), runs.map(({ fence }) => fence)],
);

export interface IntervalRun {
  readonly interval: DataInterval;
  readonly runId: string;
  readonly status: RunStatus;
  readonly isLive: boolean;
  readonly latestError: string | null;
}

/** Reads the newest run of each of these intervals that ever had one, in no order. */
export const listNewestRuns = queryRows<
  IntervalRun,
  [exportId: string, intervals: readonly DataInterval[]]
>(
  `select ${intervalOf('r')} as interval, r.id as "runId", r.status, r.status in ${live} as "isLive", r.latest_error as "latestError"
       from unnest($2::timestamptz[], $3::timestamptz[]) as i (starts, ends)
      cross join lateral (
        select * from runs r where r.export_id = $1 and r.data_interval_start = i.starts and r.data_interval_end = i.ends
         order by r.generation desc limit 1) r`,
  (exportId, intervals) => [exportId, ...boundLists(intervals)],
);
