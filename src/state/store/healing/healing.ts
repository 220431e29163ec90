import { disabledReasons } from '../../../foundation/domain/batch-export.ts';
import type { CauseScope } from '../../../foundation/domain/causes.ts';
import { maxMissingCounted } from '../../../foundation/domain/coverage.ts';
import type { DataInterval } from '../../../foundation/domain/time.ts';
import type { Sql } from '../database/database.ts';
import { live } from '../runs/run-moves.ts';
import { boundsOf, intervalOf, isSameInterval, isTime } from '../database/times.ts';

/** An interval of an export. */
export interface IntervalOfExport {
  readonly exportId: string;
  readonly interval: DataInterval;
}

/** An interval that may get a run to heal it. */
export interface HealingInterval extends IntervalOfExport {
  readonly teamId: number;
}

const columns = `h.export_id as "exportId", e.team_id as "teamId", ${intervalOf('h')} as interval`;

/** SQL: whether the interval `h` of the export `e` still heals. */
export const isHealing = `h.since + e.heal_for_hours * interval '1 hour' > clock_timestamp()`;

const isDisabled = `e.paused_reason in (${Object.values(disabledReasons)
  .map((reason) => `'${reason}'`)
  .join(', ')})`;
/** SQL: whether runs of the export `e` may be made to heal. A person's pause is a decision. */
export const mayRun = `e.deleted_at is null and not (e.paused and (e.paused_reason is null or ${isDisabled}))`;

const hasLiveRun = `exists (select from runs r where ${isSameInterval('r', 'h')} and r.status in ${live})`;

/**
 * Notes that an interval heals, if it has no data and its export heals: its run ended without success.
 *
 * @param causeId that holds it up; if it has ended meanwhile, nothing does
 */
export async function noteHealing(
  tx: Sql,
  { exportId, interval }: IntervalOfExport,
  causeId: string,
): Promise<void> {
  await tx.query(
    `insert into healing_intervals as h (export_id, data_interval_start, data_interval_end, cause_id)
     select o.export_id, o.data_interval_start, o.data_interval_end, (select c.id from causes c where c.id = $4)
       from holes o join batch_exports e on e.id = o.export_id
      where o.export_id = $1 and o.data_interval_start = $2 and o.data_interval_end = $3 and e.heal_for_hours > 0
     on conflict (export_id, data_interval_start, data_interval_end) do update set cause_id = excluded.cause_id`,
    [exportId, ...boundsOf(interval), causeId],
  );
}

/**
 * Intervals of an export that failed within these hours heal from now on: those without data whose newest run failed.
 *
 * @param undecided codes of errors after which a person must decide
 */
export async function healFailed(
  tx: Sql,
  exportId: string,
  hours: number,
  undecided: readonly string[],
): Promise<void> {
  await tx.query(
    `insert into healing_intervals (export_id, data_interval_start, data_interval_end, since)
     select o.export_id, o.data_interval_start, o.data_interval_end, o.noted_at
       from holes o cross join lateral (select r.status, r.purpose, r.error_code from runs r
                     where ${isSameInterval('r', 'o')} order by r.generation desc limit 1) newest
      where o.export_id = $1 and o.noted_at + $2 * interval '1 hour' > clock_timestamp() and newest.purpose = 'whole'
        and newest.status in ('Failed', 'FailedRetryable') and newest.error_code <> all ($3::text[])
     on conflict do nothing`,
    [exportId, hours, undecided],
  );
}

/**
 * SQL of the healing of the export `e`, as JSON; null if nothing heals. Its cost depends on what heals. While a person's pause keeps
 * runs from being made, there is no next probe.
 */
export const healingColumn = `(select case when count(*) > 0 then jsonb_build_object('intervals', count(*), 'since', api_time(min(x.since)),
    'until', api_time(min(x.since) + e.heal_for_hours * interval '1 hour'), 'code', min(x.code), 'nextProbeAt', case when ${mayRun} then api_time(min(x.next_probe_at)) end) end
   from (select h.since, c.code, c.next_probe_at from healing_intervals h left join causes c on c.id = h.cause_id
          where h.export_id = e.id order by h.data_interval_start limit ${maxMissingCounted}) x)`;

/** How many intervals of an export that start in `range` Sluice exports by itself once their cause is over. */
export async function countHealing(
  sql: Sql,
  exportId: string,
  range: DataInterval,
): Promise<number> {
  const [row] = await sql.query<{ count: number }>(
    `select count(*)::int as count from healing_intervals h join batch_exports e on e.id = h.export_id
      where h.export_id = $1 and h.data_interval_start >= $2 and h.data_interval_start < $3 and ${isHealing}`,
    [exportId, ...boundsOf(range)],
  );
  return row?.count ?? 0;
}

/**
 * A run failed that was made because nothing was known to hold its interval up: something does. The export's other
 * intervals wait for the same cause, and next time they wait longer, up to an hour.
 */
export async function holdBack(tx: Sql, exportId: string, causeId: string): Promise<void> {
  await tx.query(
    `update healing_intervals set cause_id = (select c.id from causes c where c.id = $2), tries = tries + 1,
            not_before = clock_timestamp() + least(60, 2 ^ least(tries, 6)) * interval '1 minute'
      where export_id = $1 and (cause_id is null or cause_id = $2)`,
    [exportId, causeId],
  );
}

/** Intervals of an export no longer wait for causes of these scopes, or for their next try: what kept them from their data may be fixed. */
export async function releaseExport(
  tx: Sql,
  exportId: string,
  scopes: readonly CauseScope[],
): Promise<void> {
  if (scopes.length === 0) return;
  await tx.query(
    `with fixed as (select id from causes where scope = any ($2::text[])), released as (
       update healing_intervals set cause_id = null, tries = 0, not_before = clock_timestamp()
        where export_id = $1 and (cause_id is null or cause_id in (select id from fixed))
     )
     update outbox set available_at = now(), ready = true, cause_id = null where export_id = $1 and cause_id in (select id from fixed)`,
    [exportId, scopes],
  );
}

/** Releases the exports of a project whose transformations failed. */
export async function releaseTransformed(tx: Sql, teamId: number): Promise<void> {
  await tx.query(
    `delete from causes c using batch_exports e
      where c.scope = 'export' and c.place = e.id::text and e.team_id = $1 and c.code like 'transformation.%'`,
    [teamId],
  );
}

/** The oldest run that waits for a cause, live before backfill. @returns its id; null: none waits */
export async function findWaitingForCause(tx: Sql, causeId: string): Promise<string | null> {
  const [row] = await tx.query<{ runId: string }>(
    `select run_id as "runId" from outbox where cause_id = $1
      order by (backfill_id is not null), data_interval_start, run_id limit 1 for update skip locked`,
    [causeId],
  );
  return row?.runId ?? null;
}

/** Its next attempt is a probe, and due at once. */
export async function probeWithRun(tx: Sql, runId: string, causeId: string): Promise<void> {
  await tx.query(
    `with probing as (update runs set probes = $2 where id = $1 and status in ${live} returning id)
     update outbox set available_at = now(), ready = true from probing where run_id = probing.id`,
    [runId, causeId],
  );
}

/** The oldest interval that a cause holds up; null if it holds up none. */
export async function findHeldUp(tx: Sql, causeId: string): Promise<HealingInterval | null> {
  const [row] = await tx.query<HealingInterval>(
    `select ${columns} from healing_intervals h join batch_exports e on e.id = h.export_id
      where h.cause_id = $1 and ${mayRun} and ${isHealing} and not ${hasLiveRun} order by h.data_interval_start limit 1`,
    [causeId],
  );
  return row ?? null;
}

/**
 * Intervals that nothing is known to hold up, oldest first of each export.
 *
 * @param perExport live runs that an export may have to heal
 */
export async function findFree(
  tx: Sql,
  perExport: number,
  limit: number,
): Promise<HealingInterval[]> {
  return tx.query<HealingInterval>(
    `with recursive exports as (
       (select export_id from healing_intervals where cause_id is null order by export_id limit 1)
       union all
       select (select h.export_id from healing_intervals h where h.cause_id is null and h.export_id > x.export_id
                order by h.export_id limit 1)
         from exports x where x.export_id is not null
     )
     select free.* from exports x join batch_exports e on e.id = x.export_id and ${mayRun}
       cross join lateral (select count(*) as live from runs r
                            where r.export_id = e.id and r.heals and r.status in ${live}) as own
       cross join lateral (
         select ${columns} from healing_intervals h
          where h.export_id = e.id and h.cause_id is null and ${isTime('h.not_before')} and ${isHealing} and not ${hasLiveRun}
          order by h.data_interval_start limit greatest(0, $1 - own.live)) as free
      order by (free.interval->>'start')::bigint limit $2`,
    [perExport, limit],
  );
}

/** Runs heal: they go behind live runs, in a lane of their export. @param causeId that their first attempt probes */
export async function markHealing(
  tx: Sql,
  runIds: readonly string[],
  causeId: string | null,
): Promise<void> {
  await tx.query(
    `with marked as (update runs set heals = true, probes = $2 where id = any ($1::uuid[]))
     update outbox set backfill_id = export_id where run_id = any ($1::uuid[])`,
    [runIds, causeId],
  );
}

/** Intervals of an export that its pause kept from running heal too: they lack their data as a failed run's does. */
export async function healMissed(
  tx: Sql,
  exportId: string,
  intervals: readonly DataInterval[],
): Promise<void> {
  const bounds = intervals.map(boundsOf);
  await tx.query(
    `with missed as (
       select $1::uuid as export_id, * from unnest($2::timestamptz[], $3::timestamptz[]) as m (data_interval_start, data_interval_end)
     ), made as (
       insert into holes (export_id, data_interval_start, data_interval_end)
       select * from missed m where not exists (select from receipts c where ${isSameInterval('c', 'm')})
       on conflict do nothing returning *
     )
     insert into healing_intervals (export_id, data_interval_start, data_interval_end)
     select export_id, data_interval_start, data_interval_end from made`,
    [exportId, bounds.map(([start]) => start), bounds.map(([, end]) => end)],
  );
}

/** Exports that Sluice paused, and that have exported an interval since by healing. */
export async function findHealedPauses(sql: Sql, limit: number): Promise<string[]> {
  const rows = await sql.query<{ id: string }>(
    `select e.id from batch_exports e
      where e.paused and e.paused_reason is not null and e.deleted_at is null
        and e.paused_reason not like 'run.unknown_history:%' and not ${isDisabled}
        and e.last_success_at > e.last_paused_at
        and exists (select from runs r where r.export_id = e.id and r.heals and r.status = 'Completed' and r.finished_at > e.last_paused_at)
      limit $1`,
    [limit],
  );
  return rows.map(({ id }) => id);
}

/** Healing that took longer than its export allows. */
export interface EndedHealing {
  readonly exportId: string;
  readonly teamId: number;
  readonly intervals: number;
}

/** Ends the healing of intervals whose time is over. */
export async function endExpired(sql: Sql): Promise<EndedHealing[]> {
  return sql.query<EndedHealing>(
    `with ended as (
       delete from healing_intervals h using batch_exports e
        where e.id = h.export_id and not ${isHealing} returning h.export_id, e.team_id
     )
     select export_id as "exportId", team_id as "teamId", count(*)::int as intervals from ended group by 1, 2`,
  );
}
