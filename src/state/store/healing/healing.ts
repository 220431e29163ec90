import { disabledCodes } from '../../../foundation/domain/batch-export.ts';
import { decidedByPeople } from '../../../foundation/domain/causes.ts';
import { maxMissingCounted } from '../../../foundation/domain/coverage.ts';
import type { DataInterval } from '../../../foundation/domain/time.ts';
import { command, queryNumber, queryRows, queryValues } from '../database/statement.ts';
import { deaths, deathsOf, live } from '../runs/run-moves.ts';
import { enqueueRuns } from '../runs/outbox.ts';
import { fitsInto } from '../runs/runs.ts';
import { hasTurn } from '../intervals/superseded.ts';
import { boundLists, boundsOf, isSameInterval, isTime } from '../database/times.ts';

/** SQL: whether the hole `h` of the export `e` still heals. */
export const isHealing = `h.heals_since + e.heal_for_hours * interval '1 hour' > clock_timestamp()`;

const list = (codes: Iterable<string>): string =>
  `(${[...codes].map((code) => `'${code}'`).join(', ')})`;

const waitsForPerson = `(e.paused and (e.paused_reason is null or coalesce(e.paused_code in ${list([...disabledCodes, ...decidedByPeople])}, false)))`;
/** SQL: whether the export `e` is there, and neither a person's pause nor an error that waits for a person stops it. */
export const isAwake = `(e.deleted_at is null and not ${waitsForPerson})`;
/** SQL: whether an operator has disabled the project of the export `e`, or its organization. A pause that Sluice made before stays one. */
const isDisabled = `(select d.disabled_at is not null or (select o.disabled_at is not null from organizations o where o.id = d.organization_id)
  from projects d where d.id = e.team_id)`;
/** SQL: whether Sluice may make runs of the export `e` by itself. Some pauses and errors wait for a person. */
export const mayRun = `(${isAwake} and not ${isDisabled})`;

/** Those without data whose newest run failed within these hours, if no person must decide about them. */
export const healFailed = command<[exportId: string, hours: number]>(`
     update holes h set heals_since = h.noted_at
       from holes o cross join lateral (select r.status, r.purpose, r.error_code from runs r
                     where ${isSameInterval('r', 'o')} order by r.generation desc limit 1) newest
      where ${isSameInterval('h', 'o')} and o.export_id = $1 and o.heals_since is null and o.noted_at + $2 * interval '1 hour' > clock_timestamp() and newest.purpose = 'whole'
        and newest.status in ('Failed', 'FailedRetryable') and not is_decided_by_people(newest.error_code)`);

/** SQL: when the next attempt is made to heal the hole `h` of the export `e`. */
export const nextTryOf = `greatest(h.next_try_at, e.heal_after, clock_timestamp())`;

/** SQL of the healing of the export `e`, as JSON; null if nothing heals. A person's pause has no next attempt. */
export const healingColumn = `(select case when count(*) > 0 then jsonb_build_object('intervals', count(*), 'since', api_time(min(x.heals_since)),
    'until', api_time(min(x.heals_since) + e.heal_for_hours * interval '1 hour'),
    'code', coalesce(e.failing_code, (select r.error_code from runs r where r.export_id = e.id and r.error_code is not null
       and r.status in ('Failed', 'FailedRetryable') order by r.created_at desc, r.id desc limit 1)),
    'nextProbeAt', case when ${mayRun} then api_time(min(x.next_try_at)) end) end
   from (select h.heals_since, ${nextTryOf} as next_try_at from holes h
          where h.export_id = e.id and h.heals_since is not null order by h.data_interval_start limit ${maxMissingCounted}) x)`;

/** Counts the intervals that start in `range` and that Sluice exports by itself. */
export const countHealing = queryNumber(
  `select count(*)::int as count from holes h join batch_exports e on e.id = h.export_id
      where h.export_id = $1 and h.data_interval_start >= $2 and h.data_interval_start < $3 and ${isHealing}`,
  (exportId: string, range: DataInterval) => [exportId, ...boundsOf(range)],
);

/** The cause may be fixed: intervals that heal are attempted at once. */
const retried = (exports: string) => `with fixed as (
    update batch_exports e set heal_failures = 0, heal_after = null where ${exports} returning id
  )
  update holes h set next_try_at = clock_timestamp(), tries = 0 from fixed where h.export_id = fixed.id and h.heals_since is not null`;

/** The next sweep tries what heals of an export, whatever it waited for. */
export const healNow = command<[exportId: string]>(retried('e.id = $1'));

/** The same for the exports of a project that apply its transformations. */
export const healTransformed = command<[teamId: number]>(
  retried('e.team_id = $1 and e.transformations and e.deleted_at is null'),
);

/** SQL, for `with recursive`: a table `healing` of the ids of exports with intervals that heal, by one index descent for each. */
const healingExports = `healing as (
  (select h.export_id from holes h where h.heals_since is not null order by h.export_id limit 1)
  union all
  select (select h.export_id from holes h where h.heals_since is not null and h.export_id > x.export_id order by h.export_id limit 1)
    from healing x where x.export_id is not null
)`;

/** SQL: the oldest hole first. While nothing works, every second attempt is at another one: the oldest may fail for a reason of its own. */
const inOrder = `case when ready.waits and ready.heal_failures % 2 = 1 then h.tries end,
  case when ready.waits and ready.heal_failures % 2 = 1 then h.data_interval_start end desc, h.data_interval_start`;

/**
 * Makes the runs that heal now: for an export whose last attempts failed one run, after which it waits; for any other as many as it
 * may have beside those in flight. An interval that failed alone waits alone. If there are more than `limit`, organizations take turns.
 *
 * It is one statement: a process that freezes, or another sweep at the same time, finds it done or not begun.
 *
 * @param perExport runs that an export may have to heal at a time
 * @returns how many runs were made
 */
export const makeHealingRuns = queryNumber<[perExport: number, limit: number]>(`
     with recursive ${healingExports}, ready as (
       select e.id, e.team_id, e.heal_for_hours, e.heal_failures, e.heal_after is not null as waits, p.organization_id,
              (select count(*) from runs r where r.export_id = e.id and r.heals and r.status in ${live}) as own
         from healing join batch_exports e on e.id = healing.export_id join projects p on p.id = e.team_id
        where ${mayRun} and (e.heal_after is null or ${isTime('e.heal_after')})
     ), due as (
       select ready.*, hole.*, row_number() over (partition by ready.id order by hole.data_interval_start) as nth
         from ready cross join lateral (
           select h.data_interval_start, h.data_interval_end
             from holes h
             cross join lateral (select h.export_id, h.data_interval_start as interval_start, h.data_interval_end as interval_end, 'whole' as purpose) w
            where h.export_id = ready.id and h.heals_since is not null and ${isTime('h.next_try_at')}
              and h.heals_since + ready.heal_for_hours * interval '1 hour' > clock_timestamp()
              -- Its bounds may be those of other zone data, or it has a run that a person asked for.
              and ${fitsInto('receipts', 'true')} and ${fitsInto('runs', `t.status in ${live}`)}
              and not exists (select from runs r where ${isSameInterval('r', 'h')} and r.status in ${live}) and ${hasTurn}
            order by ${inOrder} limit case when ready.waits then (ready.own = 0)::int else greatest(0, $1 - ready.own) end) hole
     ), chosen as (
       select due.* from due
        order by row_number() over (partition by organization_id order by nth, data_interval_start, id), data_interval_start, id limit $2
     ), locked as materialized (
       -- Whatever ends a run of an export changes its row: then the choice may be wrong, and the next sweep makes it anew.
       select e.id, e.xmin = (select seen.xmin from batch_exports seen where seen.id = e.id) as is_fresh
         from batch_exports e where e.id in (select id from chosen) order by e.id for no key update skip locked
     ), free as (
       select chosen.* from chosen join locked on locked.id = chosen.id and locked.is_fresh
     ), waiting as (
       -- Until this attempt ends, or for as long as the next wait would be: the export makes no other.
       update batch_exports e set heal_after = clock_timestamp() + healing_delay(e.heal_failures)
         from free where e.id = free.id and free.waits
     ), made as (
       insert into runs (export_id, team_id, data_interval_start, data_interval_end, heals, generation, ${deaths})
       select c.id, c.team_id, c.data_interval_start, c.data_interval_end, true, coalesce(last.generation + 1, 0), ${deathsOf('last')}
         from free c left join lateral (select r.* from runs r where r.export_id = c.id and r.data_interval_start = c.data_interval_start
                and r.data_interval_end = c.data_interval_end order by r.generation desc limit 1) last on true
       on conflict do nothing
       returning id, team_id, export_id, export_id as backfill_id, data_interval_start, purpose
     ), enqueued as (
       ${enqueueRuns('made')}
     )
     select count(*)::int as made from made`);

/** Runs that add late rows again, after one that failed, heal: they have one attempt, and the export's next one to heal comes later. */
export const healLateRows = command<[exportId: string, runIds: readonly string[]]>(`with marked as (
       update runs n set heals = true, (${deaths}) = (
         select ${deathsOf('last')} from (select) one left join lateral (
           select r.* from runs r where ${isSameInterval('r', 'n')} and r.generation < n.generation order by r.generation desc limit 1) last on last.status <> 'Completed')
        where n.id = any ($2::uuid[])
     ),
     waiting as (
       update batch_exports set heal_after = clock_timestamp() + healing_delay(heal_failures) where id = $1 and heal_after is not null
     )
     update outbox set backfill_id = export_id where run_id = any ($2::uuid[])`);

/** Intervals of an export that its pause kept from running heal too: they lack their data as a failed run's does. */
export const healMissed = command(
  `with missed as (
       select $1::uuid as export_id, * from unnest($2::timestamptz[], $3::timestamptz[]) as m (data_interval_start, data_interval_end)
     )
     insert into holes (export_id, data_interval_start, data_interval_end, heals_since)
     select m.*, clock_timestamp() from missed m where not exists (select from receipts c where ${isSameInterval('c', 'm')})
     on conflict do nothing`,
  (exportId: string, intervals: readonly DataInterval[]) => [exportId, ...boundLists(intervals)],
);

/** Exports that Sluice paused, and that have exported an interval since by healing. */
export const findHealedPauses = queryValues<string, [limit: number]>(`
     select e.id from batch_exports e
      where e.paused and e.paused_reason is not null and ${mayRun} and e.last_success_at > e.last_paused_at
        and exists (select from runs r where r.export_id = e.id and r.heals and r.status = 'Completed' and r.finished_at > e.last_paused_at)
      limit $1`);

/** Healing that took longer than its export allows. */
export interface EndedHealing {
  readonly exportId: string;
  readonly teamId: number;
  readonly intervals: number;
}

export const endExpired = queryRows<EndedHealing>(`with ended as (
       update holes h set heals_since = null from batch_exports e
        where e.id = h.export_id and h.heals_since is not null and not ${isHealing} returning h.export_id, e.team_id
     )
     select export_id as "exportId", team_id as "teamId", count(*)::int as intervals from ended group by 1, 2`);
