/** Intervals of exports that have no past: a later one takes the place of those that were not made. */

import {
  inSeconds,
  type DataInterval,
  type Instant,
  toTimestamp,
} from '../../../foundation/domain/time.ts';
import type { Sql } from '../database/database.ts';
import { queryRows, queryValue } from '../database/statement.ts';
import { boundsOf, isSameInterval } from '../database/times.ts';
import { appendLogEntries, type NewLogEntry } from '../exports/log-entries.ts';
import { canMove, deaths, deathsOf, hasFailedAttempt, live, move } from '../runs/run-moves.ts';

export interface LiveRun {
  readonly exportId: string;
  readonly runId: string;
  /** True if its last attempt has failed, no other has begun, and none was about to commit. */
  readonly isFailing: boolean;
}

/** SQL: whether the export has room for `w`: but for append, runs that make intervals come one after the other, in their order. */
export const hasTurn = `(w.purpose <> 'whole' or (select e.mode = 'append' from batch_exports e where e.id = w.export_id)
  or not exists (select from runs t where t.export_id = w.export_id and t.purpose = 'whole' and t.status in ${live})
  and not exists (select from receipts t where t.export_id = w.export_id and t.data_interval_start > w.interval_start and t.element is not null))`;

/** The runs of exports that the transaction has locked, one for each at most. */
export const listLiveRuns = queryRows<LiveRun, [exportIds: readonly string[]]>(`
     select r.export_id as "exportId", r.id as "runId",
            r.lease_holder is null and ${hasFailedAttempt('r')} and r.committing_generation is null as "isFailing"
       from runs r where r.export_id = any ($1::uuid[]) and r.purpose = 'whole' and r.status in ${live}`);

/** Reasons why an interval is never made again. An element is the only copy of its changes. */
type Gone = 'superseded' | 'removed' | 'element';

const ofInterval = 'x.export_id = $1 and x.data_interval_start = $2 and x.data_interval_end = $3';

export const findGone = queryValue<Gone, [exportId: string, interval: DataInterval]>(
  `select case when exists (select from accepted_intervals x where ${ofInterval} and x.superseded_by is not null) then 'superseded'
                 when exists (select from receipts x where ${ofInterval} and x.made_by->>'purpose' = 'expire') then 'removed'
                 when exists (select from receipts x where ${ofInterval} and x.element is not null) then 'element' end as gone`,
  (exportId, interval) => [exportId, ...boundsOf(interval)],
);

/** An interval is about to be made, and takes the place of all earlier ones of its export. */
export interface Supersession {
  readonly exportId: string;
  readonly teamId: number;
  /** A run that fails until now; null: none is live. */
  readonly run: LiveRun | null;
  readonly newest: Instant;
  /** Earlier intervals whose ticks get no run. */
  readonly intervals: readonly DataInterval[];
}

/** Ends the failing runs: their attempts are over. */
export async function endSuperseded(tx: Sql, all: readonly Supersession[]): Promise<void> {
  const ended = all.filter(({ run }) => run !== null);
  if (ended.length === 0) return;
  await tx.query(
    `update runs set ${move('exhausted')}, fence = fence + 1, finished_at = now(), last_updated_at = now()
      where id = any ($1::uuid[]) and ${canMove('exhausted')}`,
    [ended.flatMap(({ run }) => run?.runId ?? [])],
  );
  const entries = ended.map(({ exportId, teamId, run, newest }): NewLogEntry => {
    const message = `The run ends without success: the interval that ends at ${inSeconds(toTimestamp(newest))} is due, and takes its place.`;
    return { teamId, exportId, runId: run?.runId ?? null, level: 'WARNING', message };
  });
  await appendLogEntries(tx, entries);
}

/** Notes what is never made: the intervals, and all earlier ones without data. */
export async function supersede(tx: Sql, all: readonly Supersession[]): Promise<void> {
  if (all.length === 0) return;
  const passed = all.flatMap(({ exportId, newest, intervals }) =>
    intervals.map((interval) => ({ exportId, newest, bounds: boundsOf(interval) })),
  );
  await tx.query(
    `with newer as (
       select * from unnest($1::uuid[], $2::timestamptz[]) as n (export_id, newest)
     ), passed as (
       select * from unnest($3::uuid[], $4::timestamptz[], $5::timestamptz[], $6::timestamptz[]) as p (export_id, data_interval_start, data_interval_end, newest)
     ), unmade as (
       delete from holes h using newer n where h.export_id = n.export_id and h.data_interval_end < n.newest
       returning h.export_id, h.data_interval_start, h.data_interval_end, n.newest
     ), never as materialized (select * from passed union select * from unmade
     ), owed as (
       delete from late_intervals l using never n where ${isSameInterval('l', 'n')} and l.delivered_at is null
     )
     insert into accepted_intervals (export_id, data_interval_start, data_interval_end, superseded_by)
     select * from never on conflict do nothing`,
    [
      all.map(({ exportId }) => exportId),
      all.map(({ newest }) => toTimestamp(newest)),
      passed.map(({ exportId }) => exportId),
      passed.map(({ bounds }) => bounds[0]),
      passed.map(({ bounds }) => bounds[1]),
      passed.map(({ newest }) => toTimestamp(newest)),
    ],
  );
}

/** The new runs go on counting the processes that died during those before: they read the same rows. */
export async function goOnCounting(tx: Sql, all: readonly Supersession[]): Promise<void> {
  if (all.length === 0) return;
  await tx.query(
    `update runs n set (${deaths}) = (select ${deathsOf('l')})
       from unnest($1::uuid[], $2::timestamptz[]) as made (export_id, newest)
      cross join lateral (select r.* from runs r where r.export_id = made.export_id and r.purpose = 'whole' and r.data_interval_start < made.newest and r.data_interval_end < made.newest
                           order by r.data_interval_start desc, r.generation desc limit 1) l
      where n.export_id = made.export_id and n.data_interval_end = made.newest and n.status in ${live} and n.attempt = 0 and l.status <> 'Completed' and l.crashes > 0`,
    [all.map(({ exportId }) => exportId), all.map(({ newest }) => toTimestamp(newest))],
  );
}
