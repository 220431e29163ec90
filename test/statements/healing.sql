-- healing/announced.ts listNewlyHeldUp
-- takes $1 bigint
-- gives organizationId uuid, teamId integer, exportId uuid, name text, intervals integer, code text, since timestamp with time zone, isKnown boolean

     select p.organization_id as "organizationId", e.team_id as "teamId", e.id as "exportId", e.name, (select count(*)::int from holes h where h.export_id = e.id and h.heals_since is not null) as intervals, e.failing_code as code, e.failing_since as since,
            exists (select from batch_exports o join projects q on q.id = o.team_id
                     where o.announced_code = e.failing_code and q.organization_id = p.organization_id) as "isKnown"
       from batch_exports e join projects p on p.id = e.team_id
      where e.failing_since < clock_timestamp() - interval '1 minute' and e.announced_code is null and e.failing_code is not null
        and ((e.deleted_at is null and not (e.paused and (e.paused_reason is null or coalesce(e.paused_code in ('organization.disabled', 'project.disabled', 'destination.files_differ', 'run.cancelled', 'run.crashed', 'run.late_rows_wait', 'run.unknown_history', 'source.json_too_deep', 'source.rows_missing'), false)))) and not (select d.disabled_at is not null or (select o.disabled_at is not null from organizations o where o.id = d.organization_id)
  from projects d where d.id = e.team_id)) and exists (select from holes h where h.export_id = e.id and h.heals_since is not null)
      order by e.created_at, e.id limit $1 for no key update of e skip locked;

-- healing/announced.ts noteAnnounced
-- takes $1 uuid[], $2 text[]
update batch_exports e set announced_code = x.code, announced_at = clock_timestamp()
       from unnest($1::uuid[], $2::text[]) as x (id, code) where e.id = x.id;

-- healing/announced.ts takeOver
-- gives organizationId uuid, teamId integer, exportId uuid, name text, code text, since timestamp with time zone, intervals integer
with announced as (
       select e.id, p.organization_id, e.announced_code as code, e.announced_at, ((e.deleted_at is null and not (e.paused and (e.paused_reason is null or coalesce(e.paused_code in ('organization.disabled', 'project.disabled', 'destination.files_differ', 'run.cancelled', 'run.crashed', 'run.late_rows_wait', 'run.unknown_history', 'source.json_too_deep', 'source.rows_missing'), false)))) and not (select d.disabled_at is not null or (select o.disabled_at is not null from organizations o where o.id = d.organization_id)
  from projects d where d.id = e.team_id)) and e.failing_since is not null
                and exists (select from holes h where h.export_id = e.id and h.heals_since is not null) as lasts
         from batch_exports e join projects p on p.id = e.team_id where e.announced_code is not null
     ), over as materialized (
       select a.id, a.code, a.announced_at from announced a
        where not exists (select from announced b where b.organization_id = a.organization_id and b.code = a.code and b.lasts)
     ), locked as materialized (
       select e.id from batch_exports e where e.id in (select id from over) and e.announced_code is not null
        order by e.id for no key update skip locked
     ), taken as (
       update batch_exports e set announced_code = null, announced_at = null from locked where e.id = locked.id returning e.*
     )
     select p.organization_id as "organizationId", e.team_id as "teamId", e.id as "exportId", e.name, o.code, o.announced_at as since, (select count(*)::int from holes h where h.export_id = e.id and h.heals_since is not null) + (select count(*)::int from runs r
              where r.export_id = e.id and r.heals and r.status = 'Completed' and r.finished_at > o.announced_at) as intervals
       from taken e join over o on o.id = e.id join projects p on p.id = e.team_id order by e.created_at, e.id;

-- healing/deadlines.ts lockDueChecks
-- takes $1 bigint
-- gives exportId uuid, teamId integer, organizationId uuid, name text, schedule jsonb, deadlineMinutes integer, deadlineAt text, warnMinutes integer, judgedTo timestamp with time zone

     select e.id as "exportId", e.team_id as "teamId", p.organization_id as "organizationId", e.name, e.schedule,
            e.deadline_minutes as "deadlineMinutes", e.deadline_at as "deadlineAt", e.warn_minutes as "warnMinutes", d.judged_to as "judgedTo"
       from export_checks d join batch_exports e on e.id = d.export_id join projects p on p.id = e.team_id
      where d.next_check_at <= clock_timestamp() and e.deleted_at is null
      order by d.next_check_at limit $1 for update of d skip locked;

-- healing/deadlines.ts listUnjudged
-- takes $1 uuid[], $2 timestamp with time zone[], $3 bigint
-- gives exportId uuid, tickAt bigint, interval json, deliveredAt bigint, code text, waitsForSource boolean
select t.export_id as "exportId", floor(extract(epoch from t.tick_at) * 1000)::bigint as "tickAt", json_build_object('start', floor(extract(epoch from t.data_interval_start) * 1000)::bigint, 'end', floor(extract(epoch from t.data_interval_end) * 1000)::bigint) as interval,
  floor(extract(epoch from c.delivered_at) * 1000)::bigint as "deliveredAt", failed.code, coalesce(waiting.waits, false) as "waitsForSource" from unnest($1::uuid[], $2::timestamptz[]) as x (id, judged_to)
       cross join lateral (select * from ticks t where t.export_id = x.id and t.tick_at > x.judged_to and (t.fate = 'ran' or t.fate = 'paused' and exists (select from batch_exports b where b.id = t.export_id and b.automatic_pauses @> t.tick_at))
  and not exists (select from accepted_intervals x where x.export_id = t.export_id and x.data_interval_start = t.data_interval_start
      and x.data_interval_end = t.data_interval_end)
                            order by t.tick_at limit $3) t
       left join receipts c on c.export_id = t.export_id and c.data_interval_start = t.data_interval_start
      and c.data_interval_end = t.data_interval_end left join lateral (select coalesce(r.error_code, 'source.slow') as code from runs r where r.export_id = t.export_id and r.data_interval_start = t.data_interval_start
      and r.data_interval_end = t.data_interval_end
       and (r.error_code is not null or r.status = 'Running' and r.step in ('first_row', 'read') and r.lease_expires_at > now()
  and r.step_since < now() - interval '1 minute') order by r.generation desc limit 1) as failed on c.export_id is null
  left join lateral (select o.waits_for is not null as waits from runs r join outbox o on o.run_id = r.id
      where r.export_id = t.export_id and r.data_interval_start = t.data_interval_start
      and r.data_interval_end = t.data_interval_end and r.status in ('Starting', 'Running') limit 1) as waiting on c.export_id is null
      order by t.export_id, t.tick_at;

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
update export_checks d set judged_to = coalesce(x.judged_to, d.judged_to), next_check_at = x.next_check_at
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

-- healing/healing.ts healFailed
-- takes $1 uuid, $2 double precision

     update holes h set heals_since = h.noted_at
       from holes o cross join lateral (select r.status, r.purpose, r.error_code from runs r
                     where r.export_id = o.export_id and r.data_interval_start = o.data_interval_start
      and r.data_interval_end = o.data_interval_end order by r.generation desc limit 1) newest
      where h.export_id = o.export_id and h.data_interval_start = o.data_interval_start
      and h.data_interval_end = o.data_interval_end and o.export_id = $1 and o.heals_since is null and o.noted_at + $2 * interval '1 hour' > clock_timestamp() and newest.purpose = 'whole'
        and newest.status in ('Failed', 'FailedRetryable') and not is_decided_by_people(newest.error_code);

-- healing/healing.ts countHealing
-- takes $1 uuid, $2 timestamp with time zone, $3 timestamp with time zone
-- gives count integer
select count(*)::int as count from holes h join batch_exports e on e.id = h.export_id
      where h.export_id = $1 and h.data_interval_start >= $2 and h.data_interval_start < $3 and h.heals_since + e.heal_for_hours * interval '1 hour' > clock_timestamp();

-- healing/healing.ts healNow
-- takes $1 uuid
with fixed as (
    update batch_exports e set heal_failures = 0, heal_after = null where e.id = $1 returning id
  )
  update holes h set next_try_at = clock_timestamp(), tries = 0 from fixed where h.export_id = fixed.id and h.heals_since is not null;

-- healing/healing.ts healTransformed
-- takes $1 integer
with fixed as (
    update batch_exports e set heal_failures = 0, heal_after = null where e.team_id = $1 and e.transformations and e.deleted_at is null returning id
  )
  update holes h set next_try_at = clock_timestamp(), tries = 0 from fixed where h.export_id = fixed.id and h.heals_since is not null;

-- healing/healing.ts makeHealingRuns
-- takes $1 bigint, $2 bigint
-- gives made integer

     with recursive healing as (
  (select h.export_id from holes h where h.heals_since is not null order by h.export_id limit 1)
  union all
  select (select h.export_id from holes h where h.heals_since is not null and h.export_id > x.export_id order by h.export_id limit 1)
    from healing x where x.export_id is not null
), ready as (
       select e.id, e.team_id, e.heal_for_hours, e.heal_failures, e.heal_after is not null as waits, p.organization_id,
              (select count(*) from runs r where r.export_id = e.id and r.heals and r.status in ('Starting', 'Running')) as own
         from healing join batch_exports e on e.id = healing.export_id join projects p on p.id = e.team_id
        where ((e.deleted_at is null and not (e.paused and (e.paused_reason is null or coalesce(e.paused_code in ('organization.disabled', 'project.disabled', 'destination.files_differ', 'run.cancelled', 'run.crashed', 'run.late_rows_wait', 'run.unknown_history', 'source.json_too_deep', 'source.rows_missing'), false)))) and not (select d.disabled_at is not null or (select o.disabled_at is not null from organizations o where o.id = d.organization_id)
  from projects d where d.id = e.team_id)) and (e.heal_after is null or (e.heal_after <= clock_timestamp() or e.heal_after > clock_timestamp() + interval '65 minutes'))
     ), due as (
       select ready.*, hole.*, row_number() over (partition by ready.id order by hole.data_interval_start) as nth
         from ready cross join lateral (
           select h.data_interval_start, h.data_interval_end
             from holes h
             cross join lateral (select h.export_id, h.data_interval_start as interval_start, h.data_interval_end as interval_end, 'whole' as purpose) w
            where h.export_id = ready.id and h.heals_since is not null and (h.next_try_at <= clock_timestamp() or h.next_try_at > clock_timestamp() + interval '65 minutes')
              and h.heals_since + ready.heal_for_hours * interval '1 hour' > clock_timestamp()
              -- Its bounds may be those of other zone data, or it has a run that a person asked for.
              and not exists (
    select from receipts t where t.export_id = w.export_id and t.data_interval_start >= w.interval_start
       and t.data_interval_start < w.interval_end
       and (t.data_interval_start, t.data_interval_end) <> (w.interval_start, w.interval_end) and true)
  and coalesce((select t.data_interval_end <= w.interval_start from receipts t
                 where t.export_id = w.export_id and t.data_interval_start < w.interval_start and true
                 order by t.data_interval_start desc limit 1), true) and not exists (
    select from runs t where t.export_id = w.export_id and t.data_interval_start >= w.interval_start
       and t.data_interval_start < w.interval_end
       and (t.data_interval_start, t.data_interval_end) <> (w.interval_start, w.interval_end) and t.status in ('Starting', 'Running'))
  and coalesce((select t.data_interval_end <= w.interval_start from runs t
                 where t.export_id = w.export_id and t.data_interval_start < w.interval_start and t.status in ('Starting', 'Running')
                 order by t.data_interval_start desc limit 1), true)
              and not exists (select from runs r where r.export_id = h.export_id and r.data_interval_start = h.data_interval_start
      and r.data_interval_end = h.data_interval_end and r.status in ('Starting', 'Running')) and (w.purpose <> 'whole' or (select e.mode = 'append' from batch_exports e where e.id = w.export_id)
  or not exists (select from runs t where t.export_id = w.export_id and t.purpose = 'whole' and t.status in ('Starting', 'Running'))
  and not exists (select from receipts t where t.export_id = w.export_id and t.data_interval_start > w.interval_start and t.element is not null))
            order by case when ready.waits and ready.heal_failures % 2 = 1 then h.tries end,
  case when ready.waits and ready.heal_failures % 2 = 1 then h.data_interval_start end desc, h.data_interval_start limit case when ready.waits then (ready.own = 0)::int else greatest(0, $1 - ready.own) end) hole
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
       insert into runs (export_id, team_id, data_interval_start, data_interval_end, heals, generation, crashes, deaths_alone, furthest_bytes)
       select c.id, c.team_id, c.data_interval_start, c.data_interval_end, true, coalesce(last.generation + 1, 0), coalesce(last.crashes, 0), coalesce(last.deaths_alone, 0), coalesce(last.furthest_bytes, 0)
         from free c left join lateral (select r.* from runs r where r.export_id = c.id and r.data_interval_start = c.data_interval_start
                and r.data_interval_end = c.data_interval_end order by r.generation desc limit 1) last on true
       on conflict do nothing
       returning id, team_id, export_id, export_id as backfill_id, data_interval_start, purpose
     ), enqueued as (
       insert into outbox (run_id, team_id, export_id, backfill_id, data_interval_start, available_at, ready, small)
   select id, team_id, export_id, backfill_id, data_interval_start, now(), now() <= now(), (made.purpose = 'whole'
    and not (select true from batch_exports e where e.id = made.export_id and e.outgrew_at >= now() - interval '1 day' limit 1) is true
    and coalesce((select max(near.bytes) <= 131072 and max(near.rows) <= 2000 from (
        (select c.bytes, c.rows from receipts c where c.export_id = made.export_id and c.data_interval_start < made.data_interval_start
          order by c.data_interval_start desc limit 3)
        union all
        (select c.bytes, c.rows from receipts c where c.export_id = made.export_id and c.data_interval_start >= made.data_interval_start
          order by c.data_interval_start limit 1)) near), true)) from made
     )
     select count(*)::int as made from made;

-- healing/healing.ts healLateRows
-- takes $1 uuid, $2 uuid[]
with marked as (
       update runs n set heals = true, (crashes, deaths_alone, furthest_bytes) = (
         select coalesce(last.crashes, 0), coalesce(last.deaths_alone, 0), coalesce(last.furthest_bytes, 0) from (select) one left join lateral (
           select r.* from runs r where r.export_id = n.export_id and r.data_interval_start = n.data_interval_start
      and r.data_interval_end = n.data_interval_end and r.generation < n.generation order by r.generation desc limit 1) last on last.status <> 'Completed')
        where n.id = any ($2::uuid[])
     ),
     waiting as (
       update batch_exports set heal_after = clock_timestamp() + healing_delay(heal_failures) where id = $1 and heal_after is not null
     )
     update outbox set backfill_id = export_id where run_id = any ($2::uuid[]);

-- healing/healing.ts healMissed
-- takes $1 uuid, $2 timestamp with time zone[], $3 timestamp with time zone[]
with missed as (
       select $1::uuid as export_id, * from unnest($2::timestamptz[], $3::timestamptz[]) as m (data_interval_start, data_interval_end)
     )
     insert into holes (export_id, data_interval_start, data_interval_end, heals_since)
     select m.*, clock_timestamp() from missed m where not exists (select from receipts c where c.export_id = m.export_id and c.data_interval_start = m.data_interval_start
      and c.data_interval_end = m.data_interval_end)
     on conflict do nothing;

-- healing/healing.ts findHealedPauses
-- takes $1 bigint
-- gives id uuid

     select e.id from batch_exports e
      where e.paused and e.paused_reason is not null and ((e.deleted_at is null and not (e.paused and (e.paused_reason is null or coalesce(e.paused_code in ('organization.disabled', 'project.disabled', 'destination.files_differ', 'run.cancelled', 'run.crashed', 'run.late_rows_wait', 'run.unknown_history', 'source.json_too_deep', 'source.rows_missing'), false)))) and not (select d.disabled_at is not null or (select o.disabled_at is not null from organizations o where o.id = d.organization_id)
  from projects d where d.id = e.team_id)) and e.last_success_at > e.last_paused_at
        and exists (select from runs r where r.export_id = e.id and r.heals and r.status = 'Completed' and r.finished_at > e.last_paused_at)
      limit $1;

-- healing/healing.ts endExpired
-- gives exportId uuid, teamId integer, intervals integer
with ended as (
       update holes h set heals_since = null from batch_exports e
        where e.id = h.export_id and h.heals_since is not null and not h.heals_since + e.heal_for_hours * interval '1 hour' > clock_timestamp() returning h.export_id, e.team_id
     )
     select export_id as "exportId", team_id as "teamId", count(*)::int as intervals from ended group by 1, 2;

-- healing/operator-causes.ts listCauses
-- takes $1 text[], $2 text[], $3 text[], $4 text, $5 text, $6 text, $7 text, $8 bigint, $9 bigint
-- gives id text, turn text, code text, place text, organizationId text, organizationName text, organizations integer, exports integer, pausedExports integer, missingIntervals integer, since timestamp with time zone, latestError text, nextProbeAt timestamp with time zone, ids uuid[], count integer, nextAttemptAt timestamp with time zone
with problems as materialized (
  select export_id, 'verify.failed' as code, detail as error, failed_since as since from export_checks where failed_since is not null
  union all
  -- What the row of the export says itself.
  select e.id, null, null, null from batch_exports e
   where e.failing_since is not null or not exists (select from export_checks v where v.export_id = e.id and v.failed_since is not null)
), judged as materialized (
  select e.id, e.name, e.team_id, e.paused, e.model, e.created_at, p.name as project, p.tenant_key, p.organization_id, o.name as organization,
         coalesce(h.n, 0)::int as missing,
         case when h.next_try_at is not null and (e.deleted_at is null and not (e.paused and (e.paused_reason is null or coalesce(e.paused_code in ('organization.disabled', 'project.disabled', 'destination.files_differ', 'run.cancelled', 'run.crashed', 'run.late_rows_wait', 'run.unknown_history', 'source.json_too_deep', 'source.rows_missing'), false)))) and p.disabled_at is null and o.disabled_at is null then greatest(h.next_try_at, e.heal_after, clock_timestamp()) end as next_try_at,
         coalesce(k.error, e.failing_error) as error,
         coalesce(k.since, e.failing_since, h.since, e.late_since, e.last_paused_at) as since,
         case when e.paused and (e.paused_reason is null or e.paused_code = any ($3::text[])) then null
              when k.code is not null then k.code
              when e.failing_since is not null then coalesce(e.failing_code, 'internal.unexpected')
              when h.n > 0 then 'intervals.missing'
              when e.late_since is not null then case when reads_long(e.id) then 'source.slow' else 'export.late' end
              when e.paused then 'export.paused' end as code,
         -- Of an export that works again: why its intervals were lost.
         case when k.code is null and e.failing_since is null and h.n > 0 then (select (select r.error_code from runs r
      where r.export_id = m.export_id and r.data_interval_start = m.data_interval_start
      and r.data_interval_end = m.data_interval_end
        and r.status in ('Failed', 'FailedRetryable') order by r.id desc limit 1)
    from missing_intervals m where m.export_id = e.id order by m.data_interval_start desc, m.data_interval_end desc limit 1) end as lost_code,
         case when k.code is not null or e.failing_since is not null or h.n > 0 or e.late_since is not null or e.paused
              then concat_ws(' ', e.destination_type, nullif(e.destination_config->>'endpoint_url', ''), nullif(e.destination_config->>'bucket_name', ''), nullif(e.destination_config->>'container', ''), nullif(e.destination_config->>'account', ''), nullif(e.destination_config->>'host', ''), nullif(e.destination_config->>'directory', '')) end as destination
    from batch_exports e
    join projects p on p.id = e.team_id and p.closed_at is null
    join organizations o on o.id = p.organization_id
    join problems k on k.export_id = e.id
    left join (select export_id, count(*) as n, min(data_interval_end) as since, min(next_try_at) filter (where heals_since is not null) as next_try_at
                 from missing_intervals group by 1) h on h.export_id = e.id
   where e.deleted_at is null
), placed as (
  select j.*, case when coalesce(j.lost_code, j.code) = any ($1::text[]) then 'source'
                   when coalesce(j.lost_code, j.code) = any ($2::text[]) then 'ours' else 'customer' end as turn,
         case when j.code = any ($1::text[]) then j.model when j.code like 'destination.%' then j.destination else '' end as place
    from judged j
   where $4::text is null or j.organization ilike '%' || $4 || '%' or j.project ilike '%' || $4 || '%'
      or j.organization_id::text = lower($5) or j.team_id::text = $5 or coalesce(j.tenant_key, j.team_id::text) = $5
      or j.id::text = lower($5)
), named as (
  -- Most exports have no code: their ids would be half of the cost.
  select t.*, case when t.code is not null then md5(concat_ws(chr(31), t.code, t.place, case
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
                    min(n.next_try_at) as "nextProbeAt", array_agg(n.id) as ids, count(*) over ()::int as count
               from named n
              where n.code is not null and ($6::text is null or n.turn = $6) and ($7::text is null or n.cause_id = $7)
              group by n.cause_id order by count(*) desc, min(n.since), n.cause_id limit $8 offset $9) c
      order by c.exports desc, c.since, c.id;

-- healing/operator-causes.ts listOperatorExports
-- takes $1 text[], $2 text[], $3 text[], $4 text, $5 text, $6 bigint, $7 bigint
-- gives id uuid, name text, teamId integer, projectName text, organizationId uuid, organizationName text, health text, code text, paused boolean, since timestamp with time zone, missingIntervals integer, causeId text, turn text, latestError text, nextProbeAt timestamp with time zone, completeUpTo timestamp with time zone, count integer
with problems as materialized (
  select export_id, 'verify.failed' as code, detail as error, failed_since as since from export_checks where failed_since is not null
  union all
  -- What the row of the export says itself.
  select e.id, null, null, null from batch_exports e
   where e.failing_since is not null or not exists (select from export_checks v where v.export_id = e.id and v.failed_since is not null)
), judged as materialized (
  select e.id, e.name, e.team_id, e.paused, e.model, e.created_at, p.name as project, p.tenant_key, p.organization_id, o.name as organization,
         coalesce(h.n, 0)::int as missing,
         case when h.next_try_at is not null and (e.deleted_at is null and not (e.paused and (e.paused_reason is null or coalesce(e.paused_code in ('organization.disabled', 'project.disabled', 'destination.files_differ', 'run.cancelled', 'run.crashed', 'run.late_rows_wait', 'run.unknown_history', 'source.json_too_deep', 'source.rows_missing'), false)))) and p.disabled_at is null and o.disabled_at is null then greatest(h.next_try_at, e.heal_after, clock_timestamp()) end as next_try_at,
         coalesce(k.error, e.failing_error) as error,
         coalesce(k.since, e.failing_since, h.since, e.late_since, e.last_paused_at) as since,
         case when e.paused and (e.paused_reason is null or e.paused_code = any ($3::text[])) then null
              when k.code is not null then k.code
              when e.failing_since is not null then coalesce(e.failing_code, 'internal.unexpected')
              when h.n > 0 then 'intervals.missing'
              when e.late_since is not null then case when reads_long(e.id) then 'source.slow' else 'export.late' end
              when e.paused then 'export.paused' end as code,
         -- Of an export that works again: why its intervals were lost.
         case when k.code is null and e.failing_since is null and h.n > 0 then (select (select r.error_code from runs r
      where r.export_id = m.export_id and r.data_interval_start = m.data_interval_start
      and r.data_interval_end = m.data_interval_end
        and r.status in ('Failed', 'FailedRetryable') order by r.id desc limit 1)
    from missing_intervals m where m.export_id = e.id order by m.data_interval_start desc, m.data_interval_end desc limit 1) end as lost_code,
         case when k.code is not null or e.failing_since is not null or h.n > 0 or e.late_since is not null or e.paused
              then concat_ws(' ', e.destination_type, nullif(e.destination_config->>'endpoint_url', ''), nullif(e.destination_config->>'bucket_name', ''), nullif(e.destination_config->>'container', ''), nullif(e.destination_config->>'account', ''), nullif(e.destination_config->>'host', ''), nullif(e.destination_config->>'directory', '')) end as destination
    from batch_exports e
    join projects p on p.id = e.team_id and p.closed_at is null
    join organizations o on o.id = p.organization_id
    join problems k on k.export_id = e.id
    left join (select export_id, count(*) as n, min(data_interval_end) as since, min(next_try_at) filter (where heals_since is not null) as next_try_at
                 from missing_intervals group by 1) h on h.export_id = e.id
   where e.deleted_at is null
), placed as (
  select j.*, case when coalesce(j.lost_code, j.code) = any ($1::text[]) then 'source'
                   when coalesce(j.lost_code, j.code) = any ($2::text[]) then 'ours' else 'customer' end as turn,
         case when j.code = any ($1::text[]) then j.model when j.code like 'destination.%' then j.destination else '' end as place
    from judged j
   where $4::text is null or j.organization ilike '%' || $4 || '%' or j.project ilike '%' || $4 || '%'
      or j.organization_id::text = lower($5) or j.team_id::text = $5 or coalesce(j.tenant_key, j.team_id::text) = $5
      or j.id::text = lower($5)
), named as (
  -- Most exports have no code: their ids would be half of the cost.
  select t.*, case when t.code is not null then md5(concat_ws(chr(31), t.code, t.place, case
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
            n.error as "latestError", n.next_try_at as "nextProbeAt",
            (select w.high_water_mark from batch_exports w where w.id = n.id) as "completeUpTo", n.count
       from (select n.*, count(*) over ()::int as count
               from (select distinct on (n.id) n.* from named n where true order by n.id, n.code is null, n.since, n.cause_id) n
              order by n.code is null, n.since, n.id limit $6 offset $7) n
      order by n.code is null, n.since, n.id;

-- healing/operator-causes.ts listOperatorExports
-- takes $1 text[], $2 text[], $3 text[], $4 text, $5 text, $6 text, $7 text, $8 text[], $9 bigint, $10 bigint
-- gives id uuid, name text, teamId integer, projectName text, organizationId uuid, organizationName text, health text, code text, paused boolean, since timestamp with time zone, missingIntervals integer, causeId text, turn text, latestError text, nextProbeAt timestamp with time zone, completeUpTo timestamp with time zone, count integer
with problems as materialized (
  select export_id, 'verify.failed' as code, detail as error, failed_since as since from export_checks where failed_since is not null
  union all
  -- What the row of the export says itself.
  select e.id, null, null, null from batch_exports e
   where e.failing_since is not null or not exists (select from export_checks v where v.export_id = e.id and v.failed_since is not null)
), judged as materialized (
  select e.id, e.name, e.team_id, e.paused, e.model, e.created_at, p.name as project, p.tenant_key, p.organization_id, o.name as organization,
         coalesce(h.n, 0)::int as missing,
         case when h.next_try_at is not null and (e.deleted_at is null and not (e.paused and (e.paused_reason is null or coalesce(e.paused_code in ('organization.disabled', 'project.disabled', 'destination.files_differ', 'run.cancelled', 'run.crashed', 'run.late_rows_wait', 'run.unknown_history', 'source.json_too_deep', 'source.rows_missing'), false)))) and p.disabled_at is null and o.disabled_at is null then greatest(h.next_try_at, e.heal_after, clock_timestamp()) end as next_try_at,
         coalesce(k.error, e.failing_error) as error,
         coalesce(k.since, e.failing_since, h.since, e.late_since, e.last_paused_at) as since,
         case when e.paused and (e.paused_reason is null or e.paused_code = any ($3::text[])) then null
              when k.code is not null then k.code
              when e.failing_since is not null then coalesce(e.failing_code, 'internal.unexpected')
              when h.n > 0 then 'intervals.missing'
              when e.late_since is not null then case when reads_long(e.id) then 'source.slow' else 'export.late' end
              when e.paused then 'export.paused' end as code,
         -- Of an export that works again: why its intervals were lost.
         case when k.code is null and e.failing_since is null and h.n > 0 then (select (select r.error_code from runs r
      where r.export_id = m.export_id and r.data_interval_start = m.data_interval_start
      and r.data_interval_end = m.data_interval_end
        and r.status in ('Failed', 'FailedRetryable') order by r.id desc limit 1)
    from missing_intervals m where m.export_id = e.id order by m.data_interval_start desc, m.data_interval_end desc limit 1) end as lost_code,
         case when k.code is not null or e.failing_since is not null or h.n > 0 or e.late_since is not null or e.paused
              then concat_ws(' ', e.destination_type, nullif(e.destination_config->>'endpoint_url', ''), nullif(e.destination_config->>'bucket_name', ''), nullif(e.destination_config->>'container', ''), nullif(e.destination_config->>'account', ''), nullif(e.destination_config->>'host', ''), nullif(e.destination_config->>'directory', '')) end as destination
    from batch_exports e
    join projects p on p.id = e.team_id and p.closed_at is null
    join organizations o on o.id = p.organization_id
    join problems k on k.export_id = e.id
    left join (select export_id, count(*) as n, min(data_interval_end) as since, min(next_try_at) filter (where heals_since is not null) as next_try_at
                 from missing_intervals group by 1) h on h.export_id = e.id
   where e.deleted_at is null
), placed as (
  select j.*, case when coalesce(j.lost_code, j.code) = any ($1::text[]) then 'source'
                   when coalesce(j.lost_code, j.code) = any ($2::text[]) then 'ours' else 'customer' end as turn,
         case when j.code = any ($1::text[]) then j.model when j.code like 'destination.%' then j.destination else '' end as place
    from judged j
   where $4::text is null or j.organization ilike '%' || $4 || '%' or j.project ilike '%' || $4 || '%'
      or j.organization_id::text = lower($5) or j.team_id::text = $5 or coalesce(j.tenant_key, j.team_id::text) = $5
      or j.id::text = lower($5)
), named as (
  -- Most exports have no code: their ids would be half of the cost.
  select t.*, case when t.code is not null then md5(concat_ws(chr(31), t.code, t.place, case
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
            n.error as "latestError", n.next_try_at as "nextProbeAt",
            (select w.high_water_mark from batch_exports w where w.id = n.id) as "completeUpTo", n.count
       from (select n.*, count(*) over ()::int as count
               from (select distinct on (n.id) n.* from named n where (n.code is not null and n.turn = $6) and (n.code is not null and n.cause_id = $7) and (select case
  when e.paused and e.paused_reason is null then 'paused'
  when e.failing_since is not null then 'failing'
  when e.paused then 'paused'
  when e.late_since is not null then 'late'
  when exists (select from missing_intervals h where h.export_id = e.id) then 'incomplete'
  else 'fine' end from batch_exports e where e.id = n.id) = any ($8) order by n.id, n.code is null, n.since, n.cause_id) n
              order by n.code is null, n.since, n.id limit $9 offset $10) n
      order by n.code is null, n.since, n.id;

-- healing/operator-causes.ts findOwnerOf
-- takes $1 uuid
-- gives organizationId uuid, teamId integer

     select p.organization_id as "organizationId", e.team_id as "teamId"
       from batch_exports e join projects p on p.id = e.team_id where e.id = $1 and e.deleted_at is null;

-- healing/operator-causes.ts findMissingRange
-- takes $1 uuid
-- gives first json, all json

     select json_build_object('start', floor(extract(epoch from f.start_at) * 1000)::bigint, 'end', floor(extract(epoch from f.end_at) * 1000)::bigint) as first, json_build_object('start', floor(extract(epoch from g.start_at) * 1000)::bigint, 'end', floor(extract(epoch from g.end_at) * 1000)::bigint) as all
       from (select min(data_interval_start) as start_at, max(data_interval_end) as end_at from missing_intervals where export_id = $1) g,
            (select data_interval_start as start_at, data_interval_end as end_at
               from missing_intervals where export_id = $1 order by data_interval_start limit 1) f;
