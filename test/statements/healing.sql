-- healing/causes.ts noteCause
-- takes $1 text, $2 integer, $3 text, $4 text, $5 text, $6 boolean
-- gives id uuid, isOpen boolean
insert into causes as c (scope, organization_id, place, code, latest_error, opened_at, next_probe_at)
     values ($1::text, case when $1 <> 'source' then (select p.organization_id from projects p where p.id = $2) end, $3, $4, $5,
             case when $6::boolean then clock_timestamp() end, clock_timestamp() + interval '1 minute')
     on conflict (organization_id, scope, place) do update
        set code = excluded.code, latest_error = excluded.latest_error, failed_at = clock_timestamp(),
            began_at = case when c.opened_at is null and c.failed_at < clock_timestamp() - interval '1 hour' then clock_timestamp() else c.began_at end,
            failures = case when c.opened_at is null and c.failed_at < clock_timestamp() - interval '1 hour' then 1 else c.failures + 1 end,
            opened_at = coalesce(c.opened_at, case when $6 or not (c.opened_at is null and c.failed_at < clock_timestamp() - interval '1 hour') and c.failures + 1 >= 3
  and c.began_at < clock_timestamp() - interval '15000 ms' then clock_timestamp() end),
            next_probe_at = case when c.opened_at is null then excluded.next_probe_at else c.next_probe_at end
     returning c.id, c.opened_at is not null as "isOpen";

-- healing/causes.ts waitForCause
-- takes $1 uuid, $2 uuid
update outbox set cause_id = $2 where run_id = $1;

-- healing/causes.ts deleteCauses
-- takes $1 uuid[]
-- gives id uuid
with ended as (delete from causes where id = any ($1::uuid[]) returning id),
     freed as (update outbox set available_at = now(), ready = true, cause_id = null where cause_id in (select id from ended))
     select id from ended;

-- healing/causes.ts listHeldUp
-- takes $1 uuid[]
-- gives causeId uuid, isAnnounced boolean, organizationId uuid, teamId integer, exportId uuid, name text, intervals integer, code text, since timestamp with time zone
select c.id as "causeId", c.announced_at is not null as "isAnnounced", p.organization_id as "organizationId", e.team_id as "teamId",
            e.id as "exportId", e.name, count(*)::int as intervals, c.code, c.began_at as since
       from causes c cross join lateral (select e.* from (select h.export_id, false as waits from healing_intervals h where h.cause_id = c.id
                 union all select o.export_id, true from outbox o where o.cause_id = c.id) held
       join batch_exports e on e.id = held.export_id and e.deleted_at is null) e join projects p on p.id = e.team_id
      where c.id = any ($1::uuid[]) group by c.id, p.organization_id, e.id, e.team_id, e.name, e.created_at order by e.created_at, e.id;

-- healing/causes.ts lockUnannounced
-- takes $1 bigint
-- gives id uuid
select c.id from causes c where c.opened_at < clock_timestamp() - interval '1 minute' and c.announced_at is null
        and exists (select from (select h.export_id, false as waits from healing_intervals h where h.cause_id = c.id
                 union all select o.export_id, true from outbox o where o.cause_id = c.id) held
       join batch_exports e on e.id = held.export_id and e.deleted_at is null where held.waits or e.deleted_at is null and not (e.paused and (e.paused_reason is null or e.paused_reason in ('An operator has disabled the organization.', 'An operator has disabled the project.')))) order by c.opened_at limit $1 for update of c skip locked;

-- healing/causes.ts noteAnnounced
-- takes $1 uuid[]
update causes set announced_at = clock_timestamp() where id = any ($1::uuid[]);

-- healing/causes.ts hastenProbes
-- takes $1 uuid
with hastened as (
       update causes set next_probe_at = least(next_probe_at, clock_timestamp())
        where id in (select cause_id from healing_intervals where export_id = $1
                      union select cause_id from outbox where export_id = $1)
     )
     update healing_intervals set tries = 0, not_before = clock_timestamp() where export_id = $1;

-- healing/causes.ts listPlaceCauses
-- takes $1 text, $2 integer
-- gives id uuid, scope text, place text, code text, isOpen boolean, beganAt text, nextProbeAt text, ageMs double precision, latestError text
select c.id, c.scope, c.place, c.code, c.opened_at is not null as "isOpen", api_time(c.began_at) as "beganAt", api_time(c.next_probe_at) as "nextProbeAt",
            (extract(epoch from clock_timestamp() - c.began_at) * 1000)::float8 as "ageMs", c.latest_error as "latestError"
       from causes c where c.scope = $1 and ($1 = 'source' or c.organization_id = (select organization_id from projects where id = $2))
      order by c.failed_at desc limit 200;

-- healing/causes.ts takeProbe
-- takes $1 uuid, $2 double precision, $3 boolean
-- gives id uuid
update causes c set probes = probes + 1, next_probe_at = clock_timestamp() + $2 * interval '1 ms'
      where c.id = $1 and c.opened_at is not null and (c.next_probe_at <= clock_timestamp() or c.next_probe_at > clock_timestamp() + interval '65 minutes') and (not $3 or (not exists (select from healing_intervals h join batch_exports e on e.id = h.export_id
                      where h.cause_id = c.id and e.deleted_at is null and not (e.paused and (e.paused_reason is null or e.paused_reason in ('An operator has disabled the organization.', 'An operator has disabled the project.'))) and h.since + e.heal_for_hours * interval '1 hour' > clock_timestamp()) and not exists (select from outbox o where o.cause_id = c.id))) returning c.id;

-- healing/causes.ts lockDueCauses
-- takes $1 bigint
-- gives id uuid, ageMs double precision
select c.id, (extract(epoch from clock_timestamp() - c.began_at) * 1000)::float8 as "ageMs" from causes c
      where c.opened_at is not null and (c.next_probe_at <= clock_timestamp() or c.next_probe_at > clock_timestamp() + interval '65 minutes') and not (not exists (select from healing_intervals h join batch_exports e on e.id = h.export_id
                      where h.cause_id = c.id and e.deleted_at is null and not (e.paused and (e.paused_reason is null or e.paused_reason in ('An operator has disabled the organization.', 'An operator has disabled the project.'))) and h.since + e.heal_for_hours * interval '1 hour' > clock_timestamp()) and not exists (select from outbox o where o.cause_id = c.id))
      order by c.next_probe_at limit $1 for update skip locked;

-- healing/causes.ts noteProbe
-- takes $1 uuid, $2 double precision
update causes set probes = probes + 1, next_probe_at = clock_timestamp() + $2 * interval '1 ms' where id = $1;

-- healing/causes.ts forgetIdleCauses
delete from causes c where c.failed_at < clock_timestamp() - interval '2 hours' and (not exists (select from healing_intervals h where h.cause_id = c.id) and not exists (select from outbox o where o.cause_id = c.id));

-- healing/deadlines.ts lockDueChecks
-- takes $1 bigint
-- gives exportId uuid, teamId integer, organizationId uuid, name text, schedule jsonb, deadlineMinutes integer, deadlineAt text, warnMinutes integer, judgedTo timestamp with time zone
select e.id as "exportId", e.team_id as "teamId", p.organization_id as "organizationId", e.name, e.schedule,
            e.deadline_minutes as "deadlineMinutes", e.deadline_at as "deadlineAt", e.warn_minutes as "warnMinutes", d.judged_to as "judgedTo"
       from deadline_checks d join batch_exports e on e.id = d.export_id join projects p on p.id = e.team_id
      where d.next_check_at <= clock_timestamp() and e.deleted_at is null
      order by d.next_check_at limit $1 for update of d skip locked;

-- healing/deadlines.ts listUnjudged
-- takes $1 uuid[], $2 timestamp with time zone[], $3 bigint
-- gives exportId uuid, tickAt bigint, interval json, deliveredAt bigint, code text, isParked boolean, nextProbeAt bigint
select t.export_id as "exportId", floor(extract(epoch from t.tick_at) * 1000)::bigint as "tickAt", json_build_object('start', floor(extract(epoch from t.data_interval_start) * 1000)::bigint, 'end', floor(extract(epoch from t.data_interval_end) * 1000)::bigint) as interval,
  floor(extract(epoch from c.delivered_at) * 1000)::bigint as "deliveredAt", failed.code, coalesce(waits.parked, false) as "isParked",
  floor(extract(epoch from coalesce(heals.next_probe_at, waits.next_probe_at)) * 1000)::bigint as "nextProbeAt" from unnest($1::uuid[], $2::timestamptz[]) as x (id, judged_to)
       cross join lateral (select * from ticks t where t.export_id = x.id and t.tick_at > x.judged_to and (t.fate = 'ran' or t.fate = 'paused' and exists (select from automatic_pauses a
    where a.export_id = t.export_id and t.tick_at > a.began_at and (a.ended_at is null or t.tick_at <= a.ended_at)))
  and not exists (select from accepted_intervals x where x.export_id = t.export_id and x.data_interval_start = t.data_interval_start
      and x.data_interval_end = t.data_interval_end)
                            order by t.tick_at limit $3) t
       left join receipts c on c.export_id = t.export_id and c.data_interval_start = t.data_interval_start
      and c.data_interval_end = t.data_interval_end left join lateral (select r.error_code as code from runs r where r.export_id = t.export_id and r.data_interval_start = t.data_interval_start
      and r.data_interval_end = t.data_interval_end and r.error_code is not null
     order by r.generation desc limit 1) as failed on c.export_id is null
  left join lateral (select o.parked_by is not null as parked, k.next_probe_at from runs r join outbox o on o.run_id = r.id
      left join causes k on k.id = o.cause_id where r.export_id = t.export_id and r.data_interval_start = t.data_interval_start
      and r.data_interval_end = t.data_interval_end and r.status in ('Starting', 'Running') limit 1) as waits on c.export_id is null
  left join lateral (select k.next_probe_at from healing_intervals h join causes k on k.id = h.cause_id
      where h.export_id = t.export_id and h.data_interval_start = t.data_interval_start
      and h.data_interval_end = t.data_interval_end) as heals on c.export_id is null
      order by t.export_id, t.tick_at;

-- healing/deadlines.ts readPaces
-- takes $1 uuid[]
-- gives exportId uuid, runMs double precision
select x.id as "exportId", coalesce((select max(extract(epoch from last.finished_at - last.started_at) * 1000) from (
              select r.finished_at, r.started_at from receipts c join runs r on r.id = c.run_id
               where c.export_id = x.id and r.started_at is not null order by c.data_interval_start desc limit 5) last), 0)::float8 as "runMs"
       from unnest($1::uuid[]) as x (id);

-- healing/deadlines.ts noteLate
-- takes $1 uuid[], $2 timestamp with time zone[], $3 timestamp with time zone[], $4 timestamp with time zone[], $5 boolean[], $6 timestamp with time zone[], $7 text[], $8 text[]
-- gives index integer, isNew boolean, wasMissed boolean
with given as (
       select * from unnest($1::uuid[], $2::timestamptz[], $3::timestamptz[], $4::timestamptz[], $5::boolean[], $6::timestamptz[], $7::text[], $8::text[])
         with ordinality as g (export_id, data_interval_start, data_interval_end, due_by, is_missed, delivered_at, code, turn, place)
     ), known as (
       select g.place, l.export_id is null as is_new, l.missed_at is not null as was_missed
         from given g left join late_intervals l on l.export_id = g.export_id and l.data_interval_start = g.data_interval_start
      and l.data_interval_end = g.data_interval_end
     ), noted as (
       insert into late_intervals as l (export_id, data_interval_start, data_interval_end, due_by, missed_at, delivered_at, code, turn)
       select export_id, data_interval_start, data_interval_end, due_by, case when is_missed then due_by end, delivered_at, code, turn from given
       on conflict (export_id, data_interval_start, data_interval_end) do update
          set due_by = excluded.due_by, missed_at = coalesce(l.missed_at, excluded.missed_at), delivered_at = excluded.delivered_at,
              code = excluded.code, turn = excluded.turn
     )
     select place::int - 1 as index, is_new as "isNew", was_missed as "wasMissed" from known order by place;

-- healing/deadlines.ts storeChecks
-- takes $1 uuid[], $2 timestamp with time zone[], $3 timestamp with time zone[]
update deadline_checks d set judged_to = coalesce(x.judged_to, d.judged_to), next_check_at = x.next_check_at
       from unnest($1::uuid[], $2::timestamptz[], $3::timestamptz[]) as x (id, judged_to, next_check_at) where d.export_id = x.id;

-- healing/deadlines.ts noteArrivals
-- gives exportId uuid, teamId integer, organizationId uuid, name text, dueBy timestamp with time zone, code text, turn text
with arrived as (
       update late_intervals l set delivered_at = c.delivered_at, missed_at = case when c.delivered_at > l.due_by then coalesce(l.missed_at, l.due_by) end
         from receipts c where l.delivered_at is null and c.export_id = l.export_id and c.data_interval_start = l.data_interval_start
      and c.data_interval_end = l.data_interval_end returning l.*
     )
     select a.export_id as "exportId", e.team_id as "teamId", p.organization_id as "organizationId", e.name, a.due_by as "dueBy", a.code, a.turn
       from arrived a join batch_exports e on e.id = a.export_id join projects p on p.id = e.team_id
      where a.missed_at is not null and e.deleted_at is null;

-- healing/deadlines.ts listOwed
-- takes $1 uuid, $2 timestamp with time zone, $3 timestamp with time zone, $4 bigint
-- gives exportId uuid, tickAt bigint, interval json, deliveredAt bigint, code text, isParked boolean, nextProbeAt bigint, lateCode text, turn text, isAtRisk boolean
select t.export_id as "exportId", floor(extract(epoch from t.tick_at) * 1000)::bigint as "tickAt", json_build_object('start', floor(extract(epoch from t.data_interval_start) * 1000)::bigint, 'end', floor(extract(epoch from t.data_interval_end) * 1000)::bigint) as interval,
  floor(extract(epoch from c.delivered_at) * 1000)::bigint as "deliveredAt", failed.code, coalesce(waits.parked, false) as "isParked",
  floor(extract(epoch from coalesce(heals.next_probe_at, waits.next_probe_at)) * 1000)::bigint as "nextProbeAt", l.code as "lateCode", l.turn, l.at_risk_at is not null as "isAtRisk"
       from (select * from ticks t where t.export_id = $1 and t.tick_at > $2 and t.tick_at <= $3 and (t.fate = 'ran' or t.fate = 'paused' and exists (select from automatic_pauses a
    where a.export_id = t.export_id and t.tick_at > a.began_at and (a.ended_at is null or t.tick_at <= a.ended_at)))
  and not exists (select from accepted_intervals x where x.export_id = t.export_id and x.data_interval_start = t.data_interval_start
      and x.data_interval_end = t.data_interval_end) order by t.tick_at desc limit $4) t
       left join receipts c on c.export_id = t.export_id and c.data_interval_start = t.data_interval_start
      and c.data_interval_end = t.data_interval_end left join late_intervals l on l.export_id = t.export_id and l.data_interval_start = t.data_interval_start
      and l.data_interval_end = t.data_interval_end left join lateral (select r.error_code as code from runs r where r.export_id = t.export_id and r.data_interval_start = t.data_interval_start
      and r.data_interval_end = t.data_interval_end and r.error_code is not null
     order by r.generation desc limit 1) as failed on c.export_id is null
  left join lateral (select o.parked_by is not null as parked, k.next_probe_at from runs r join outbox o on o.run_id = r.id
      left join causes k on k.id = o.cause_id where r.export_id = t.export_id and r.data_interval_start = t.data_interval_start
      and r.data_interval_end = t.data_interval_end and r.status in ('Starting', 'Running') limit 1) as waits on c.export_id is null
  left join lateral (select k.next_probe_at from healing_intervals h join causes k on k.id = h.cause_id
      where h.export_id = t.export_id and h.data_interval_start = t.data_interval_start
      and h.data_interval_end = t.data_interval_end) as heals on c.export_id is null
      order by t.tick_at;

-- healing/healing.ts noteHealing
-- takes $1 uuid, $2 timestamp with time zone, $3 timestamp with time zone, $4 uuid
insert into healing_intervals as h (export_id, data_interval_start, data_interval_end, cause_id)
     select o.export_id, o.data_interval_start, o.data_interval_end, (select c.id from causes c where c.id = $4)
       from holes o join batch_exports e on e.id = o.export_id
      where o.export_id = $1 and o.data_interval_start = $2 and o.data_interval_end = $3 and e.heal_for_hours > 0
     on conflict (export_id, data_interval_start, data_interval_end) do update set cause_id = excluded.cause_id;

-- healing/healing.ts healFailed
-- takes $1 uuid, $2 double precision, $3 text[]
insert into healing_intervals (export_id, data_interval_start, data_interval_end, since)
     select o.export_id, o.data_interval_start, o.data_interval_end, o.noted_at
       from holes o cross join lateral (select r.status, r.purpose, r.error_code from runs r
                     where r.export_id = o.export_id and r.data_interval_start = o.data_interval_start
      and r.data_interval_end = o.data_interval_end order by r.generation desc limit 1) newest
      where o.export_id = $1 and o.noted_at + $2 * interval '1 hour' > clock_timestamp() and newest.purpose = 'whole'
        and newest.status in ('Failed', 'FailedRetryable') and newest.error_code <> all ($3::text[])
     on conflict do nothing;

-- healing/healing.ts countHealing
-- takes $1 uuid, $2 timestamp with time zone, $3 timestamp with time zone
-- gives count integer
select count(*)::int as count from healing_intervals h join batch_exports e on e.id = h.export_id
      where h.export_id = $1 and h.data_interval_start >= $2 and h.data_interval_start < $3 and h.since + e.heal_for_hours * interval '1 hour' > clock_timestamp();

-- healing/healing.ts holdBack
-- takes $1 uuid, $2 uuid
update healing_intervals set cause_id = (select c.id from causes c where c.id = $2), tries = tries + 1,
            not_before = clock_timestamp() + least(60, 2 ^ least(tries, 6)) * interval '1 minute'
      where export_id = $1 and (cause_id is null or cause_id = $2);

-- healing/healing.ts releaseExport
-- takes $1 uuid, $2 text[]
with fixed as (select id from causes where scope = any ($2::text[])), released as (
       update healing_intervals set cause_id = null, tries = 0, not_before = clock_timestamp()
        where export_id = $1 and (cause_id is null or cause_id in (select id from fixed))
     )
     update outbox set available_at = now(), ready = true, cause_id = null where export_id = $1 and cause_id in (select id from fixed);

-- healing/healing.ts releaseTransformed
-- takes $1 integer
delete from causes c using batch_exports e
      where c.scope = 'export' and c.place = e.id::text and e.team_id = $1 and c.code like 'transformation.%';

-- healing/healing.ts findWaitingForCause
-- takes $1 uuid
-- gives runId uuid
select run_id as "runId" from outbox where cause_id = $1
      order by (backfill_id is not null), data_interval_start, run_id limit 1 for update skip locked;

-- healing/healing.ts probeWithRun
-- takes $1 uuid, $2 uuid
with probing as (update runs set probes = $2 where id = $1 and status in ('Starting', 'Running') returning id)
     update outbox set available_at = now(), ready = true from probing where run_id = probing.id;

-- healing/healing.ts findHeldUp
-- takes $1 uuid
-- gives exportId uuid, teamId integer, interval json
select h.export_id as "exportId", e.team_id as "teamId", json_build_object('start', floor(extract(epoch from h.data_interval_start) * 1000)::bigint, 'end', floor(extract(epoch from h.data_interval_end) * 1000)::bigint) as interval from healing_intervals h join batch_exports e on e.id = h.export_id
      where h.cause_id = $1 and e.deleted_at is null and not (e.paused and (e.paused_reason is null or e.paused_reason in ('An operator has disabled the organization.', 'An operator has disabled the project.'))) and h.since + e.heal_for_hours * interval '1 hour' > clock_timestamp() and not exists (select from runs r where r.export_id = h.export_id and r.data_interval_start = h.data_interval_start
      and r.data_interval_end = h.data_interval_end and r.status in ('Starting', 'Running')) order by h.data_interval_start limit 1;

-- healing/healing.ts findFree
-- takes $1 bigint, $2 bigint
-- gives exportId uuid, teamId integer, interval json
with recursive exports as (
       (select export_id from healing_intervals where cause_id is null order by export_id limit 1)
       union all
       select (select h.export_id from healing_intervals h where h.cause_id is null and h.export_id > x.export_id
                order by h.export_id limit 1)
         from exports x where x.export_id is not null
     )
     select free.* from exports x join batch_exports e on e.id = x.export_id and e.deleted_at is null and not (e.paused and (e.paused_reason is null or e.paused_reason in ('An operator has disabled the organization.', 'An operator has disabled the project.')))
       cross join lateral (select count(*) as live from runs r
                            where r.export_id = e.id and r.heals and r.status in ('Starting', 'Running')) as own
       cross join lateral (
         select h.export_id as "exportId", e.team_id as "teamId", json_build_object('start', floor(extract(epoch from h.data_interval_start) * 1000)::bigint, 'end', floor(extract(epoch from h.data_interval_end) * 1000)::bigint) as interval from healing_intervals h
          where h.export_id = e.id and h.cause_id is null and (h.not_before <= clock_timestamp() or h.not_before > clock_timestamp() + interval '65 minutes') and h.since + e.heal_for_hours * interval '1 hour' > clock_timestamp() and not exists (select from runs r where r.export_id = h.export_id and r.data_interval_start = h.data_interval_start
      and r.data_interval_end = h.data_interval_end and r.status in ('Starting', 'Running'))
          order by h.data_interval_start limit greatest(0, $1 - own.live)) as free
      order by (free.interval->>'start')::bigint limit $2;

-- healing/healing.ts markHealing
-- takes $1 uuid[], $2 uuid
with marked as (update runs set heals = true, probes = $2 where id = any ($1::uuid[]))
     update outbox set backfill_id = export_id where run_id = any ($1::uuid[]);

-- healing/healing.ts healMissed
-- takes $1 uuid, $2 timestamp with time zone[], $3 timestamp with time zone[]
with missed as (
       select $1::uuid as export_id, * from unnest($2::timestamptz[], $3::timestamptz[]) as m (data_interval_start, data_interval_end)
     ), made as (
       insert into holes (export_id, data_interval_start, data_interval_end)
       select * from missed m where not exists (select from receipts c where c.export_id = m.export_id and c.data_interval_start = m.data_interval_start
      and c.data_interval_end = m.data_interval_end)
       on conflict do nothing returning *
     )
     insert into healing_intervals (export_id, data_interval_start, data_interval_end)
     select export_id, data_interval_start, data_interval_end from made;

-- healing/healing.ts findHealedPauses
-- takes $1 bigint
-- gives id uuid
select e.id from batch_exports e
      where e.paused and e.paused_reason is not null and e.deleted_at is null
        and e.paused_reason not like 'run.unknown_history:%' and not e.paused_reason in ('An operator has disabled the organization.', 'An operator has disabled the project.')
        and e.last_success_at > e.last_paused_at
        and exists (select from runs r where r.export_id = e.id and r.heals and r.status = 'Completed' and r.finished_at > e.last_paused_at)
      limit $1;

-- healing/healing.ts endExpired
-- gives exportId uuid, teamId integer, intervals integer
with ended as (
       delete from healing_intervals h using batch_exports e
        where e.id = h.export_id and not h.since + e.heal_for_hours * interval '1 hour' > clock_timestamp() returning h.export_id, e.team_id
     )
     select export_id as "exportId", team_id as "teamId", count(*)::int as intervals from ended group by 1, 2;

-- healing/operator-causes.ts listCauses
-- takes $1 text[], $2 text[], $3 text[], $4 text, $5 text, $6 text[], $7 text, $8 text, $9 bigint, $10 bigint
-- gives id text, turn text, code text, place text, organizationId text, organizationName text, organizations integer, exports integer, pausedExports integer, missingIntervals integer, since timestamp with time zone, latestError text, nextProbeAt timestamp with time zone, ids uuid[], count integer, nextAttemptAt timestamp with time zone
with held as materialized (
  select x.export_id, k.id, k.scope, k.place, k.code, k.latest_error, k.began_at, k.next_probe_at
    from (select export_id, cause_id from healing_intervals where cause_id is not null
          union select export_id, cause_id from outbox where cause_id is not null) x
    join causes k on k.id = x.cause_id and k.opened_at is not null
), problems as (
  select * from held
  union all
  select export_id, null, 'verify', '', 'verify.failed', detail, failed_since, null from verifications where failed_since is not null
  union all
  -- What the row of the export says itself.
  select e.id, null, null, null, null, null, null, null from batch_exports e
   where e.failing_since is not null and e.failing_code = any ($6::text[]) or not exists (select from held where held.export_id = e.id)
), judged as materialized (
  select e.id, e.name, e.team_id, e.paused, e.model, e.created_at, p.name as project, p.tenant_key, p.organization_id, o.name as organization,
         coalesce(h.n, 0)::int as missing, k.id as known_id, k.scope, k.place as known_place, k.next_probe_at,
         coalesce(k.latest_error, e.failing_error) as error,
         coalesce(k.began_at, e.failing_since, h.since, e.late_since, e.last_paused_at) as since,
         case when e.paused and (e.paused_reason is null or e.paused_reason = any ($3::text[])) then null
              when k.code is not null then k.code
              when e.failing_since is not null then coalesce(e.failing_code, 'internal.unexpected')
              when h.n > 0 then 'intervals.missing'
              when e.late_since is not null then 'export.late'
              when e.paused then 'export.paused' end as code,
         -- Of an export that works again: why its intervals were lost.
         case when k.code is null and e.failing_since is null and h.n > 0 then (select (select r.error_code from runs r
      where r.export_id = m.export_id and r.data_interval_start = m.data_interval_start and r.data_interval_end = m.data_interval_end
        and r.status in ('Failed', 'FailedRetryable') order by r.id desc limit 1)
    from missing_intervals m where m.export_id = e.id order by m.data_interval_start desc, m.data_interval_end desc limit 1) end as lost_code,
         case when k.code is not null or e.failing_since is not null or h.n > 0 or e.late_since is not null or e.paused
              then concat_ws(' ', e.destination_type, nullif(e.destination_config->>'endpoint_url', ''), nullif(e.destination_config->>'bucket_name', ''), nullif(e.destination_config->>'container', ''), nullif(e.destination_config->>'account', ''), nullif(e.destination_config->>'host', ''), nullif(e.destination_config->>'directory', '')) end as destination
    from batch_exports e
    join projects p on p.id = e.team_id and p.closed_at is null
    join organizations o on o.id = p.organization_id
    join problems k on k.export_id = e.id
    left join (select export_id, count(*) as n, min(data_interval_end) as since from missing_intervals group by 1) h on h.export_id = e.id
   where e.deleted_at is null
), placed as (
  select j.*, case when coalesce(j.lost_code, j.code) = any ($1::text[]) then 'source'
                   when coalesce(j.lost_code, j.code) = any ($2::text[]) then 'ours' else 'customer' end as turn,
         case when j.scope = 'source' then j.known_place when j.code = any ($1::text[]) then j.model
              when j.scope = 'destination' or j.code like 'destination.%' then j.destination else '' end as place
    from judged j
   where $4::text is null or j.organization ilike '%' || $4 || '%' or j.project ilike '%' || $4 || '%'
      or j.organization_id::text = lower($5) or j.team_id::text = $5 or coalesce(j.tenant_key, j.team_id::text) = $5
      or j.id::text = lower($5)
), named as (
  -- Most exports have no code: their ids would be half of the cost.
  select t.*, case when t.code is null then null when t.scope in ('source', 'destination') then replace(t.known_id::text, '-', '')
           else md5(concat_ws(chr(31), t.code, t.place, case
             when t.turn <> 'customer' then '' when t.code like 'destination.%' then t.organization_id::text else t.id::text end)) end as cause_id
    from placed t
)
     select c.*, (select min(q.available_at) from outbox q join runs r on r.id = q.run_id and r.attempt > 0
                   where q.export_id = any (c.ids)) as "nextAttemptAt"
       from (select n.cause_id as id, min(n.turn) as turn, min(n.code) as code, min(n.place) as place,
                    case when count(distinct n.organization_id) = 1 then min(n.organization_id::text) end as "organizationId",
                    case when count(distinct n.organization_id) = 1 then min(n.organization) end as "organizationName",
                    count(distinct n.organization_id)::int as organizations, count(*)::int as exports,
                    count(*) filter (where n.paused)::int as "pausedExports", sum(n.missing)::int as "missingIntervals",
                    min(n.since) as since, (array_agg(n.error order by n.since desc))[1] as "latestError",
                    min(n.next_probe_at) as "nextProbeAt", array_agg(n.id) as ids, count(*) over ()::int as count
               from named n
              where n.code is not null and ($7::text is null or n.turn = $7) and ($8::text is null or n.cause_id = $8)
              group by n.cause_id order by count(*) desc, min(n.since), n.cause_id limit $9 offset $10) c
      order by c.exports desc, c.since, c.id;

-- healing/operator-causes.ts listOperatorExports
-- takes $1 text[], $2 text[], $3 text[], $4 text, $5 text, $6 text[], $7 bigint, $8 bigint
-- gives id uuid, name text, teamId integer, projectName text, organizationId uuid, organizationName text, health text, code text, paused boolean, since timestamp with time zone, missingIntervals integer, causeId text, turn text, latestError text, nextProbeAt timestamp with time zone, completeUpTo timestamp with time zone, count integer
with held as materialized (
  select x.export_id, k.id, k.scope, k.place, k.code, k.latest_error, k.began_at, k.next_probe_at
    from (select export_id, cause_id from healing_intervals where cause_id is not null
          union select export_id, cause_id from outbox where cause_id is not null) x
    join causes k on k.id = x.cause_id and k.opened_at is not null
), problems as (
  select * from held
  union all
  select export_id, null, 'verify', '', 'verify.failed', detail, failed_since, null from verifications where failed_since is not null
  union all
  -- What the row of the export says itself.
  select e.id, null, null, null, null, null, null, null from batch_exports e
   where e.failing_since is not null and e.failing_code = any ($6::text[]) or not exists (select from held where held.export_id = e.id)
), judged as materialized (
  select e.id, e.name, e.team_id, e.paused, e.model, e.created_at, p.name as project, p.tenant_key, p.organization_id, o.name as organization,
         coalesce(h.n, 0)::int as missing, k.id as known_id, k.scope, k.place as known_place, k.next_probe_at,
         coalesce(k.latest_error, e.failing_error) as error,
         coalesce(k.began_at, e.failing_since, h.since, e.late_since, e.last_paused_at) as since,
         case when e.paused and (e.paused_reason is null or e.paused_reason = any ($3::text[])) then null
              when k.code is not null then k.code
              when e.failing_since is not null then coalesce(e.failing_code, 'internal.unexpected')
              when h.n > 0 then 'intervals.missing'
              when e.late_since is not null then 'export.late'
              when e.paused then 'export.paused' end as code,
         -- Of an export that works again: why its intervals were lost.
         case when k.code is null and e.failing_since is null and h.n > 0 then (select (select r.error_code from runs r
      where r.export_id = m.export_id and r.data_interval_start = m.data_interval_start and r.data_interval_end = m.data_interval_end
        and r.status in ('Failed', 'FailedRetryable') order by r.id desc limit 1)
    from missing_intervals m where m.export_id = e.id order by m.data_interval_start desc, m.data_interval_end desc limit 1) end as lost_code,
         case when k.code is not null or e.failing_since is not null or h.n > 0 or e.late_since is not null or e.paused
              then concat_ws(' ', e.destination_type, nullif(e.destination_config->>'endpoint_url', ''), nullif(e.destination_config->>'bucket_name', ''), nullif(e.destination_config->>'container', ''), nullif(e.destination_config->>'account', ''), nullif(e.destination_config->>'host', ''), nullif(e.destination_config->>'directory', '')) end as destination
    from batch_exports e
    join projects p on p.id = e.team_id and p.closed_at is null
    join organizations o on o.id = p.organization_id
    join problems k on k.export_id = e.id
    left join (select export_id, count(*) as n, min(data_interval_end) as since from missing_intervals group by 1) h on h.export_id = e.id
   where e.deleted_at is null
), placed as (
  select j.*, case when coalesce(j.lost_code, j.code) = any ($1::text[]) then 'source'
                   when coalesce(j.lost_code, j.code) = any ($2::text[]) then 'ours' else 'customer' end as turn,
         case when j.scope = 'source' then j.known_place when j.code = any ($1::text[]) then j.model
              when j.scope = 'destination' or j.code like 'destination.%' then j.destination else '' end as place
    from judged j
   where $4::text is null or j.organization ilike '%' || $4 || '%' or j.project ilike '%' || $4 || '%'
      or j.organization_id::text = lower($5) or j.team_id::text = $5 or coalesce(j.tenant_key, j.team_id::text) = $5
      or j.id::text = lower($5)
), named as (
  -- Most exports have no code: their ids would be half of the cost.
  select t.*, case when t.code is null then null when t.scope in ('source', 'destination') then replace(t.known_id::text, '-', '')
           else md5(concat_ws(chr(31), t.code, t.place, case
             when t.turn <> 'customer' then '' when t.code like 'destination.%' then t.organization_id::text else t.id::text end)) end as cause_id
    from placed t
)
     select n.id, n.name, n.team_id as "teamId", n.project as "projectName", n.organization_id as "organizationId",
            n.organization as "organizationName", (select case
  when e.paused and e.paused_reason is null then 'paused'
  when e.failing_since is not null then 'failing'
  when e.paused then 'paused'
  when e.late_since is not null then 'late'
  when exists (select from missing_intervals h where h.export_id = e.id) then 'incomplete'
  else 'fine' end from batch_exports e where e.id = n.id) as health, n.code, n.paused, n.since, n.missing as "missingIntervals",
            case when n.code is not null then n.cause_id end as "causeId", case when n.code is not null then n.turn end as turn,
            n.error as "latestError", n.next_probe_at as "nextProbeAt",
            (select w.high_water_mark from batch_exports w where w.id = n.id) as "completeUpTo", n.count
       from (select n.*, count(*) over ()::int as count
               from (select distinct on (n.id) n.* from named n where true order by n.id, n.code is null, n.since, n.cause_id) n
              order by n.code is null, n.since, n.id limit $7 offset $8) n
      order by n.code is null, n.since, n.id;

-- healing/operator-causes.ts listOperatorExports
-- takes $1 text[], $2 text[], $3 text[], $4 text, $5 text, $6 text[], $7 text, $8 text, $9 text[], $10 bigint, $11 bigint
-- gives id uuid, name text, teamId integer, projectName text, organizationId uuid, organizationName text, health text, code text, paused boolean, since timestamp with time zone, missingIntervals integer, causeId text, turn text, latestError text, nextProbeAt timestamp with time zone, completeUpTo timestamp with time zone, count integer
with held as materialized (
  select x.export_id, k.id, k.scope, k.place, k.code, k.latest_error, k.began_at, k.next_probe_at
    from (select export_id, cause_id from healing_intervals where cause_id is not null
          union select export_id, cause_id from outbox where cause_id is not null) x
    join causes k on k.id = x.cause_id and k.opened_at is not null
), problems as (
  select * from held
  union all
  select export_id, null, 'verify', '', 'verify.failed', detail, failed_since, null from verifications where failed_since is not null
  union all
  -- What the row of the export says itself.
  select e.id, null, null, null, null, null, null, null from batch_exports e
   where e.failing_since is not null and e.failing_code = any ($6::text[]) or not exists (select from held where held.export_id = e.id)
), judged as materialized (
  select e.id, e.name, e.team_id, e.paused, e.model, e.created_at, p.name as project, p.tenant_key, p.organization_id, o.name as organization,
         coalesce(h.n, 0)::int as missing, k.id as known_id, k.scope, k.place as known_place, k.next_probe_at,
         coalesce(k.latest_error, e.failing_error) as error,
         coalesce(k.began_at, e.failing_since, h.since, e.late_since, e.last_paused_at) as since,
         case when e.paused and (e.paused_reason is null or e.paused_reason = any ($3::text[])) then null
              when k.code is not null then k.code
              when e.failing_since is not null then coalesce(e.failing_code, 'internal.unexpected')
              when h.n > 0 then 'intervals.missing'
              when e.late_since is not null then 'export.late'
              when e.paused then 'export.paused' end as code,
         -- Of an export that works again: why its intervals were lost.
         case when k.code is null and e.failing_since is null and h.n > 0 then (select (select r.error_code from runs r
      where r.export_id = m.export_id and r.data_interval_start = m.data_interval_start and r.data_interval_end = m.data_interval_end
        and r.status in ('Failed', 'FailedRetryable') order by r.id desc limit 1)
    from missing_intervals m where m.export_id = e.id order by m.data_interval_start desc, m.data_interval_end desc limit 1) end as lost_code,
         case when k.code is not null or e.failing_since is not null or h.n > 0 or e.late_since is not null or e.paused
              then concat_ws(' ', e.destination_type, nullif(e.destination_config->>'endpoint_url', ''), nullif(e.destination_config->>'bucket_name', ''), nullif(e.destination_config->>'container', ''), nullif(e.destination_config->>'account', ''), nullif(e.destination_config->>'host', ''), nullif(e.destination_config->>'directory', '')) end as destination
    from batch_exports e
    join projects p on p.id = e.team_id and p.closed_at is null
    join organizations o on o.id = p.organization_id
    join problems k on k.export_id = e.id
    left join (select export_id, count(*) as n, min(data_interval_end) as since from missing_intervals group by 1) h on h.export_id = e.id
   where e.deleted_at is null
), placed as (
  select j.*, case when coalesce(j.lost_code, j.code) = any ($1::text[]) then 'source'
                   when coalesce(j.lost_code, j.code) = any ($2::text[]) then 'ours' else 'customer' end as turn,
         case when j.scope = 'source' then j.known_place when j.code = any ($1::text[]) then j.model
              when j.scope = 'destination' or j.code like 'destination.%' then j.destination else '' end as place
    from judged j
   where $4::text is null or j.organization ilike '%' || $4 || '%' or j.project ilike '%' || $4 || '%'
      or j.organization_id::text = lower($5) or j.team_id::text = $5 or coalesce(j.tenant_key, j.team_id::text) = $5
      or j.id::text = lower($5)
), named as (
  -- Most exports have no code: their ids would be half of the cost.
  select t.*, case when t.code is null then null when t.scope in ('source', 'destination') then replace(t.known_id::text, '-', '')
           else md5(concat_ws(chr(31), t.code, t.place, case
             when t.turn <> 'customer' then '' when t.code like 'destination.%' then t.organization_id::text else t.id::text end)) end as cause_id
    from placed t
)
     select n.id, n.name, n.team_id as "teamId", n.project as "projectName", n.organization_id as "organizationId",
            n.organization as "organizationName", (select case
  when e.paused and e.paused_reason is null then 'paused'
  when e.failing_since is not null then 'failing'
  when e.paused then 'paused'
  when e.late_since is not null then 'late'
  when exists (select from missing_intervals h where h.export_id = e.id) then 'incomplete'
  else 'fine' end from batch_exports e where e.id = n.id) as health, n.code, n.paused, n.since, n.missing as "missingIntervals",
            case when n.code is not null then n.cause_id end as "causeId", case when n.code is not null then n.turn end as turn,
            n.error as "latestError", n.next_probe_at as "nextProbeAt",
            (select w.high_water_mark from batch_exports w where w.id = n.id) as "completeUpTo", n.count
       from (select n.*, count(*) over ()::int as count
               from (select distinct on (n.id) n.* from named n where (n.code is not null and n.turn = $7) and (n.code is not null and n.cause_id = $8) and (select case
  when e.paused and e.paused_reason is null then 'paused'
  when e.failing_since is not null then 'failing'
  when e.paused then 'paused'
  when e.late_since is not null then 'late'
  when exists (select from missing_intervals h where h.export_id = e.id) then 'incomplete'
  else 'fine' end from batch_exports e where e.id = n.id) = any ($9) order by n.id, n.code is null, n.since, n.cause_id) n
              order by n.code is null, n.since, n.id limit $10 offset $11) n
      order by n.code is null, n.since, n.id;

-- healing/operator-causes.ts listExportsOfCause
-- takes $1 text[], $2 text[], $3 text[], $4 text, $5 text, $6 text[], $7 text
-- gives id uuid, teamId integer
with held as materialized (
  select x.export_id, k.id, k.scope, k.place, k.code, k.latest_error, k.began_at, k.next_probe_at
    from (select export_id, cause_id from healing_intervals where cause_id is not null
          union select export_id, cause_id from outbox where cause_id is not null) x
    join causes k on k.id = x.cause_id and k.opened_at is not null
), problems as (
  select * from held
  union all
  select export_id, null, 'verify', '', 'verify.failed', detail, failed_since, null from verifications where failed_since is not null
  union all
  -- What the row of the export says itself.
  select e.id, null, null, null, null, null, null, null from batch_exports e
   where e.failing_since is not null and e.failing_code = any ($6::text[]) or not exists (select from held where held.export_id = e.id)
), judged as materialized (
  select e.id, e.name, e.team_id, e.paused, e.model, e.created_at, p.name as project, p.tenant_key, p.organization_id, o.name as organization,
         coalesce(h.n, 0)::int as missing, k.id as known_id, k.scope, k.place as known_place, k.next_probe_at,
         coalesce(k.latest_error, e.failing_error) as error,
         coalesce(k.began_at, e.failing_since, h.since, e.late_since, e.last_paused_at) as since,
         case when e.paused and (e.paused_reason is null or e.paused_reason = any ($3::text[])) then null
              when k.code is not null then k.code
              when e.failing_since is not null then coalesce(e.failing_code, 'internal.unexpected')
              when h.n > 0 then 'intervals.missing'
              when e.late_since is not null then 'export.late'
              when e.paused then 'export.paused' end as code,
         -- Of an export that works again: why its intervals were lost.
         case when k.code is null and e.failing_since is null and h.n > 0 then (select (select r.error_code from runs r
      where r.export_id = m.export_id and r.data_interval_start = m.data_interval_start and r.data_interval_end = m.data_interval_end
        and r.status in ('Failed', 'FailedRetryable') order by r.id desc limit 1)
    from missing_intervals m where m.export_id = e.id order by m.data_interval_start desc, m.data_interval_end desc limit 1) end as lost_code,
         case when k.code is not null or e.failing_since is not null or h.n > 0 or e.late_since is not null or e.paused
              then concat_ws(' ', e.destination_type, nullif(e.destination_config->>'endpoint_url', ''), nullif(e.destination_config->>'bucket_name', ''), nullif(e.destination_config->>'container', ''), nullif(e.destination_config->>'account', ''), nullif(e.destination_config->>'host', ''), nullif(e.destination_config->>'directory', '')) end as destination
    from batch_exports e
    join projects p on p.id = e.team_id and p.closed_at is null
    join organizations o on o.id = p.organization_id
    join problems k on k.export_id = e.id
    left join (select export_id, count(*) as n, min(data_interval_end) as since from missing_intervals group by 1) h on h.export_id = e.id
   where e.deleted_at is null
), placed as (
  select j.*, case when coalesce(j.lost_code, j.code) = any ($1::text[]) then 'source'
                   when coalesce(j.lost_code, j.code) = any ($2::text[]) then 'ours' else 'customer' end as turn,
         case when j.scope = 'source' then j.known_place when j.code = any ($1::text[]) then j.model
              when j.scope = 'destination' or j.code like 'destination.%' then j.destination else '' end as place
    from judged j
   where $4::text is null or j.organization ilike '%' || $4 || '%' or j.project ilike '%' || $4 || '%'
      or j.organization_id::text = lower($5) or j.team_id::text = $5 or coalesce(j.tenant_key, j.team_id::text) = $5
      or j.id::text = lower($5)
), named as (
  -- Most exports have no code: their ids would be half of the cost.
  select t.*, case when t.code is null then null when t.scope in ('source', 'destination') then replace(t.known_id::text, '-', '')
           else md5(concat_ws(chr(31), t.code, t.place, case
             when t.turn <> 'customer' then '' when t.code like 'destination.%' then t.organization_id::text else t.id::text end)) end as cause_id
    from placed t
) select n.id, n.team_id as "teamId" from named n where n.code is not null and n.cause_id = $7 order by n.since, n.id;

-- healing/operator-tasks.ts insertTask
-- takes $1 text, $2 text, $3 text, $4 uuid
-- gives id uuid
insert into operator_tasks (action, cause, code, requested_by) values ($1, $2, $3, $4) returning id;

-- healing/operator-tasks.ts insertTask
-- takes $1 uuid, $2 uuid[], $3 integer[]
insert into operator_task_exports (task_id, export_id, team_id) select $1, id, team_id from unnest($2::uuid[], $3::int[]) as e (id, team_id);

-- healing/operator-tasks.ts listTasks
-- takes $1 bigint, $2 bigint
-- gives id uuid, action text, cause text, code text, status text, requestedBy uuid, createdAt timestamp with time zone, finishedAt timestamp with time zone, exports integer, doneExports integer, skippedExports integer, skippedBecause jsonb, runs integer, completedRuns integer, failedRuns integer, count integer
select t.id, t.action, t.cause, t.code, t.status, t.requested_by as "requestedBy", t.created_at as "createdAt",
  t.finished_at as "finishedAt", x.exports, x."doneExports", x."skippedExports", w."skippedBecause", r.runs, r."completedRuns", r."failedRuns", t.count from (select *, count(*) over ()::int as count from operator_tasks
       order by created_at desc, id desc limit $1 offset $2) t, lateral (
    select count(*)::int as exports, count(*) filter (where i.status = 'done')::int as "doneExports",
           count(*) filter (where i.status = 'skipped')::int as "skippedExports"
      from operator_task_exports i where i.task_id = t.id) x,
  lateral (
    select coalesce(jsonb_agg(jsonb_build_object('reason', g.detail, 'exports', g.n) order by g.n desc, g.detail), '[]') as "skippedBecause"
      from (select i.detail, count(*) as n from operator_task_exports i
             where i.task_id = t.id and i.status = 'skipped' and i.detail <> 'The task was cancelled.' group by 1 order by 2 desc, 1 limit 10) g) w,
  lateral (
    select count(*)::int as runs, count(*) filter (where n.status = 'Completed')::int as "completedRuns",
           count(*) filter (where n.status in ('Failed', 'FailedRetryable'))::int as "failedRuns"
      from operator_task_exports i join runs n on n.backfill_id = any (i.backfill_ids) where i.task_id = t.id) r order by t.created_at desc, t.id desc;

-- healing/operator-tasks.ts findTask
-- takes $1 uuid
-- gives id uuid, action text, cause text, code text, status text, requestedBy uuid, createdAt timestamp with time zone, finishedAt timestamp with time zone, exports integer, doneExports integer, skippedExports integer, skippedBecause jsonb, runs integer, completedRuns integer, failedRuns integer
select t.id, t.action, t.cause, t.code, t.status, t.requested_by as "requestedBy", t.created_at as "createdAt",
  t.finished_at as "finishedAt", x.exports, x."doneExports", x."skippedExports", w."skippedBecause", r.runs, r."completedRuns", r."failedRuns" from operator_tasks t, lateral (
    select count(*)::int as exports, count(*) filter (where i.status = 'done')::int as "doneExports",
           count(*) filter (where i.status = 'skipped')::int as "skippedExports"
      from operator_task_exports i where i.task_id = t.id) x,
  lateral (
    select coalesce(jsonb_agg(jsonb_build_object('reason', g.detail, 'exports', g.n) order by g.n desc, g.detail), '[]') as "skippedBecause"
      from (select i.detail, count(*) as n from operator_task_exports i
             where i.task_id = t.id and i.status = 'skipped' and i.detail <> 'The task was cancelled.' group by 1 order by 2 desc, 1 limit 10) g) w,
  lateral (
    select count(*)::int as runs, count(*) filter (where n.status = 'Completed')::int as "completedRuns",
           count(*) filter (where n.status in ('Failed', 'FailedRetryable'))::int as "failedRuns"
      from operator_task_exports i join runs n on n.backfill_id = any (i.backfill_ids) where i.task_id = t.id) r where t.id = $1;

-- healing/operator-tasks.ts nextOfTasks
-- takes $1 bigint
-- gives taskId uuid, action text, exportId uuid, teamId integer, organizationId uuid, requestedBy uuid
select w."taskId", w.action, w."exportId", w."teamId", p.organization_id as "organizationId", w."requestedBy" from (select * from (
       select t.id as "taskId", t.action, i.export_id as "exportId", i.team_id as "teamId", t.requested_by as "requestedBy", t.created_at,
              row_number() over (partition by i.team_id order by random()) as nth
         from operator_tasks t join operator_task_exports i on i.task_id = t.id and i.status = 'waiting'
        where t.status = 'Running') waiting order by nth, random() limit $1) w join projects p on p.id = w."teamId"
      order by w.created_at, w."exportId";

-- healing/operator-tasks.ts takeTaskExport
-- takes $1 uuid, $2 uuid
select from operator_task_exports i join operator_tasks t on t.id = i.task_id and t.status = 'Running'
      where i.task_id = $1 and i.export_id = $2 and i.status = 'waiting'
        for update of i skip locked for share of t skip locked;

-- healing/operator-tasks.ts endTaskExport
-- takes $1 uuid, $2 uuid, $3 text, $4 text, $5 uuid[]
update operator_task_exports set status = $3, detail = $4, backfill_ids = $5 where task_id = $1 and export_id = $2;

-- healing/operator-tasks.ts completeTasks
update operator_tasks t set status = 'Completed', finished_at = clock_timestamp()
      where t.status = 'Running' and not exists (
        select from operator_task_exports i where i.task_id = t.id and (i.status = 'waiting'
           or exists (select from backfills b where b.id = any (i.backfill_ids) and b.status = 'Running')));

-- healing/operator-tasks.ts cancelTask
-- takes $1 uuid
-- gives id uuid
update operator_tasks set status = 'Cancelled', finished_at = clock_timestamp() where id = $1 and status = 'Running' returning id;

-- healing/operator-tasks.ts cancelTask
-- takes $1 uuid
update operator_task_exports set status = 'skipped', detail = 'The task was cancelled.' where task_id = $1 and status = 'waiting';

-- healing/operator-tasks.ts cancelTask
-- takes $1 uuid
-- gives exportId uuid, backfillId uuid
select b.export_id as "exportId", b.id as "backfillId" from operator_task_exports i
       join backfills b on b.id = any (i.backfill_ids) and b.status = 'Running' where i.task_id = $1;

-- healing/operator-tasks.ts findMissingRange
-- takes $1 uuid
-- gives first json, all json
select json_build_object('start', floor(extract(epoch from f.start_at) * 1000)::bigint, 'end', floor(extract(epoch from f.end_at) * 1000)::bigint) as first, json_build_object('start', floor(extract(epoch from g.start_at) * 1000)::bigint, 'end', floor(extract(epoch from g.end_at) * 1000)::bigint) as all
       from (select min(data_interval_start) as start_at, max(data_interval_end) as end_at from missing_intervals where export_id = $1) g,
            (select data_interval_start as start_at, data_interval_end as end_at
               from missing_intervals where export_id = $1 order by data_interval_start limit 1) f;
