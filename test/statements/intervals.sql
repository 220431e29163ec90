-- intervals/coverage.ts findCoverage
-- takes $1 uuid, $2 timestamp with time zone, $3 timestamp with time zone
-- gives state text, start bigint, end bigint, before bigint, opens boolean
with unsettled as materialized (select c.* from receipts c where not c.settled and c.export_id = $1 and c.data_interval_start >= $2 and c.data_interval_start < $3)
     (
  select 'done' as state, floor(extract(epoch from data_interval_start) * 1000)::bigint as start, floor(extract(epoch from data_interval_end) * 1000)::bigint as "end", floor(extract(epoch from ended) * 1000)::bigint as "before", true as opens from (
    select data_interval_start, data_interval_end, lag(data_interval_end) over (order by data_interval_start) as ended
      from receipts c where c.export_id = $1 and c.data_interval_start >= $2 and c.data_interval_start < $3) as edges
   where ended is distinct from data_interval_start
  union all
  (select 'done', floor(extract(epoch from data_interval_start) * 1000)::bigint as start, floor(extract(epoch from data_interval_end) * 1000)::bigint as "end", null, false from receipts c where c.export_id = $1 and c.data_interval_start >= $2 and c.data_interval_start < $3
    order by data_interval_start desc limit 1))
     union all

  select state, floor(extract(epoch from data_interval_start) * 1000)::bigint as start, floor(extract(epoch from data_interval_end) * 1000)::bigint as "end", null::bigint as "before", opens from (
    select *, lag(data_interval_end) over w is distinct from data_interval_start as opens,
           lead(data_interval_start) over w is distinct from data_interval_end as closes
      from (
  select case when (r.error_code is not null or r.crashes > 0 and r.attempt > 0) then 'retrying' else 'running' end as state, data_interval_start, data_interval_end
    from runs r where r.status in ('Starting', 'Running') and r.export_id = $1 and r.data_interval_start >= $2 and r.data_interval_start < $3 and not exists (select from receipts x where x.export_id = r.export_id
     and x.data_interval_start = r.data_interval_start and x.data_interval_end = r.data_interval_end and true)
  union all
  select case
         when last.status = 'Cancelled' then 'cancelled'
         when coalesce(last.status, 'FailedRetryable') = 'FailedRetryable' and h.heals_since is not null then 'healing'
         when last.status is null then 'missing' else 'failed' end, data_interval_start, data_interval_end
    from holes h left join lateral (
      select r.status from runs r where r.export_id = h.export_id and r.data_interval_start = h.data_interval_start
      and r.data_interval_end = h.data_interval_end order by r.generation desc limit 1) as last on true
   where h.export_id = $1 and h.data_interval_start >= $2 and h.data_interval_start < $3 and (last.status is null or last.status not in ('Starting', 'Running'))
  union all
  select 'unsettled', data_interval_start, data_interval_end from unsettled
  union all
  select 'late_rows', data_interval_start, data_interval_end from receipts c where c.late_rows_wait is not null and not exists (
  select from accepted_intervals a where a.export_id = c.export_id and a.data_interval_start = c.data_interval_start
      and a.data_interval_end = c.data_interval_end and a.accepted_at >= c.pending_checked_at) and c.export_id = $1 and c.data_interval_start >= $2 and c.data_interval_start < $3
  union all
  select case when a.superseded_by is null then 'accepted' else 'superseded' end, data_interval_start, data_interval_end from accepted_intervals a
   where a.export_id = $1 and a.data_interval_start >= $2 and a.data_interval_start < $3 and (not exists (select from receipts x where x.export_id = a.export_id
     and x.data_interval_start = a.data_interval_start and x.data_interval_end = a.data_interval_end and true) or exists (select from unsettled x where x.export_id = a.export_id
     and x.data_interval_start = a.data_interval_start and x.data_interval_end = a.data_interval_end and true))) as rows window w as (partition by state order by data_interval_start)) as edges
   where opens or closes;

-- intervals/coverage.ts findTicksWithoutRun
-- takes $1 uuid, $2 timestamp with time zone[], $3 timestamp with time zone[]
-- gives state text, start bigint, end bigint, before bigint, opens boolean

  select state, floor(extract(epoch from data_interval_start) * 1000)::bigint as start, floor(extract(epoch from data_interval_end) * 1000)::bigint as "end", null::bigint as "before", opens from (
    select *, lag(data_interval_end) over w is distinct from data_interval_start as opens,
           lead(data_interval_start) over w is distinct from data_interval_end as closes
      from (select case t.fate when 'ran' then 'missing' else t.fate end as state, t.data_interval_start, t.data_interval_end
      from unnest($2::timestamptz[], $3::timestamptz[]) as g (gap_start, gap_end) join ticks t
        on t.export_id = $1 and t.fate in ('ran', 'paused') and t.data_interval_start >= g.gap_start and t.data_interval_start < g.gap_end) as rows window w as (partition by state order by data_interval_start)) as edges
   where opens or closes;

-- intervals/coverage.ts listLateRowsWaits
-- takes $1 uuid, $2 timestamp with time zone, $3 timestamp with time zone, $4 bigint
-- gives start bigint, end bigint, why text
select floor(extract(epoch from data_interval_start) * 1000)::bigint as start, floor(extract(epoch from data_interval_end) * 1000)::bigint as "end", late_rows_wait as why from receipts c
      where c.late_rows_wait is not null and not exists (
  select from accepted_intervals a where a.export_id = c.export_id and a.data_interval_start = c.data_interval_start
      and a.data_interval_end = c.data_interval_end and a.accepted_at >= c.pending_checked_at) and c.export_id = $1 and c.data_interval_start >= $2 and c.data_interval_start < $3 order by data_interval_start limit $4;

-- intervals/coverage.ts listBackfillsUnderWay
-- takes $1 uuid
-- gives id uuid, exportId uuid, teamId integer, status text, range json, order text, reprocess text, dropsMissing boolean, concurrency integer, plannedTo bigint, totalRuns integer, createdAt timestamp with time zone, finishedAt timestamp with time zone, stoppedReason text, lastUpdatedAt timestamp with time zone
select b.id, b.export_id as "exportId", b.team_id as "teamId", b.status,
  json_build_object('start', floor(extract(epoch from b.start_at) * 1000)::bigint, 'end', floor(extract(epoch from b.end_at) * 1000)::bigint) as range, b."order", b.reprocess, b.drops_missing as "dropsMissing", b.concurrency,
  floor(extract(epoch from b.planned_to) * 1000)::bigint as "plannedTo", b.total_runs as "totalRuns", b.created_at as "createdAt",
  b.finished_at as "finishedAt", b.stopped_reason as "stoppedReason", b.last_updated_at as "lastUpdatedAt" from backfills b where b.export_id = $1 and b.status = 'Running';

-- intervals/coverage.ts findOldestInterval
-- takes $1 uuid
-- gives oldest bigint
select floor(extract(epoch from least((select min(data_interval_start) from receipts where export_id = $1), (select min(data_interval_start) from runs where export_id = $1), (select min(data_interval_start) from ticks where export_id = $1), (select min(data_interval_start) from holes where export_id = $1))) * 1000)::bigint as oldest;

-- intervals/coverage.ts findFirstTick
-- takes $1 uuid
-- gives start bigint

     select floor(extract(epoch from data_interval_start) * 1000)::bigint as start from ticks
      where export_id = $1 and fate = 'ran' order by data_interval_start limit 1;

-- intervals/coverage.ts holesOfOne, findHoles
-- takes $1 uuid
-- gives exportId uuid, teamId integer, holes bigint, health text, healing jsonb, holesSince bigint, unsettledFrom bigint
select e.id as "exportId", e.team_id as "teamId", h.count as holes, case
  when e.paused and e.paused_reason is null then 'paused'
  when e.failing_since is not null then 'failing'
  when e.paused then 'paused'
  when e.late_since is not null then 'late'
  when h.count > 0 then 'incomplete'
  else 'fine' end as health,
  (select case when count(*) > 0 then jsonb_build_object('intervals', count(*), 'since', api_time(min(x.heals_since)),
    'until', api_time(min(x.heals_since) + e.heal_for_hours * interval '1 hour'),
    'code', coalesce(e.failing_code, (select r.error_code from runs r where r.export_id = e.id and r.error_code is not null
       and r.status in ('Failed', 'FailedRetryable') order by r.created_at desc, r.id desc limit 1)),
    'nextProbeAt', case when ((e.deleted_at is null and not (e.paused and (e.paused_reason is null or coalesce(e.paused_code in ('organization.disabled', 'project.disabled', 'destination.files_differ', 'run.cancelled', 'run.crashed', 'run.late_rows_wait', 'run.unknown_history', 'source.json_too_deep', 'source.rows_missing'), false)))) and not (select d.disabled_at is not null or (select o.disabled_at is not null from organizations o where o.id = d.organization_id)
  from projects d where d.id = e.team_id)) then api_time(min(x.next_try_at)) end) end
   from (select h.heals_since, greatest(h.next_try_at, e.heal_after, clock_timestamp()) as next_try_at from holes h
          where h.export_id = e.id and h.heals_since is not null order by h.data_interval_start limit 1000) x) as healing, floor(extract(epoch from h.since) * 1000)::bigint as "holesSince", floor(extract(epoch from u.start) * 1000)::bigint as "unsettledFrom" from batch_exports e
     cross join lateral (select count(*) as count, min(data_interval_start) as since from (
       select h.data_interval_start from missing_intervals h
        where h.export_id = e.id order by h.data_interval_start limit 1000) as counted) as h
     left join lateral (
       select c.data_interval_start as start from receipts c
        where c.export_id = e.id and not c.settled and not exists (select from accepted_intervals x where x.export_id = c.export_id
     and x.data_interval_start = c.data_interval_start and x.data_interval_end = c.data_interval_end and true)
        order by c.data_interval_start limit 1) as u on true where e.id = (select $1::uuid);

-- intervals/coverage.ts acceptIntervals
-- takes $1 uuid, $2 timestamp with time zone[], $3 timestamp with time zone[]
with accepted as (
       select * from unnest($2::timestamptz[], $3::timestamptz[]) as i (interval_start, interval_end)
     ), filled as (
       delete from holes h using accepted i
        where h.export_id = $1 and h.data_interval_start = i.interval_start and h.data_interval_end = i.interval_end
     ), owed as (
       delete from late_intervals l using accepted i
        where l.export_id = $1 and l.data_interval_start = i.interval_start and l.data_interval_end = i.interval_end and l.delivered_at is null
     )
     insert into accepted_intervals (export_id, data_interval_start, data_interval_end)
     select $1, interval_start, interval_end from accepted
     on conflict (export_id, data_interval_start, data_interval_end) do update set accepted_at = now();

-- intervals/decided-intervals.ts findDecidedIntervals
-- takes $1 uuid, $2 timestamp with time zone[], $3 timestamp with time zone[]
-- gives start bigint, end bigint
with spans as materialized (
       select * from unnest($2::timestamptz[], $3::timestamptz[]) as s (span_start, span_end)
     )
     select floor(extract(epoch from data_interval_start) * 1000)::bigint as start, floor(extract(epoch from data_interval_end) * 1000)::bigint as "end"
       from (select 0 as rank, f.data_interval_start, f.data_interval_end from spans s, receipts f
             where f.export_id = $1 and f.data_interval_start >= s.span_start and f.data_interval_start < s.span_end and true union all select 1 as rank, f.data_interval_start, f.data_interval_end from spans s, runs f
             where f.export_id = $1 and f.data_interval_start >= s.span_start and f.data_interval_start < s.span_end and status in ('Starting', 'Running') union all select 2 as rank, f.data_interval_start, f.data_interval_end from spans s, ticks f
             where f.export_id = $1 and f.data_interval_start >= s.span_start and f.data_interval_start < s.span_end and true union all select 3 as rank, f.data_interval_start, f.data_interval_end from spans s, accepted_intervals f
             where f.export_id = $1 and f.data_interval_start >= s.span_start and f.data_interval_start < s.span_end and true union all select 4 as rank, f.data_interval_start, f.data_interval_end from spans s, runs f
             where f.export_id = $1 and f.data_interval_start >= s.span_start and f.data_interval_start < s.span_end and finished_at is not null union all select 5 as rank, f.data_interval_start, f.data_interval_end from spans s, holes f
             where f.export_id = $1 and f.data_interval_start >= s.span_start and f.data_interval_start < s.span_end and true) as decided group by data_interval_start, data_interval_end
      order by min(rank), data_interval_start;

-- intervals/elements.ts findElementBefore
-- takes $1 uuid, $2 timestamp with time zone
-- gives element jsonb
select element from receipts where export_id = $1 and data_interval_end <= $2 and element is not null
      order by data_interval_end desc limit 1;

-- intervals/elements.ts findSequenceEnds
-- takes $1 uuid
-- gives exportId uuid, interval json, generation integer, era uuid, manifestKey text, manifestEtag text, manifestSha256 text, deliveredDigest text, files jsonb, rejectedFiles jsonb, recipe jsonb, snapshotAt text, element jsonb, runId uuid, destinationVersion integer, rows bigint, bytes bigint, proof json
(select export_id as "exportId", json_build_object('start', floor(extract(epoch from receipts.data_interval_start) * 1000)::bigint, 'end', floor(extract(epoch from receipts.data_interval_end) * 1000)::bigint) as interval,
  generation as "generation", era as "era", manifest_key as "manifestKey", manifest_etag as "manifestEtag", manifest_sha256 as "manifestSha256", delivered_digest as "deliveredDigest", files as "files", rejected_files as "rejectedFiles", recipe as "recipe", api_time(snapshot_at) as "snapshotAt", element as "element", run_id as "runId", destination_version as "destinationVersion", rows as "rows", bytes as "bytes",
  json_build_object('snapshot', snapshot, 'digest', key_digest, 'count', key_count, 'settled', settled,
    'pending', pending_transactions) as proof from receipts where export_id = $1 and element is not null and element->>'follows' is null
       order by data_interval_end desc limit 1) union all (select export_id as "exportId", json_build_object('start', floor(extract(epoch from receipts.data_interval_start) * 1000)::bigint, 'end', floor(extract(epoch from receipts.data_interval_end) * 1000)::bigint) as interval,
  generation as "generation", era as "era", manifest_key as "manifestKey", manifest_etag as "manifestEtag", manifest_sha256 as "manifestSha256", delivered_digest as "deliveredDigest", files as "files", rejected_files as "rejectedFiles", recipe as "recipe", api_time(snapshot_at) as "snapshotAt", element as "element", run_id as "runId", destination_version as "destinationVersion", rows as "rows", bytes as "bytes",
  json_build_object('snapshot', snapshot, 'digest', key_digest, 'count', key_count, 'settled', settled,
    'pending', pending_transactions) as proof from receipts where export_id = $1 and element is not null
       order by data_interval_end desc limit 1);

-- intervals/elements.ts listDelivered
-- takes $1 uuid, $2 timestamp with time zone, $3 timestamp with time zone, $4 bigint
-- gives interval json, runId uuid, rows bigint, snapshotAt text, element jsonb, followedBy bigint, superseded json
select json_build_object('start', floor(extract(epoch from r.data_interval_start) * 1000)::bigint, 'end', floor(extract(epoch from r.data_interval_end) * 1000)::bigint) as interval, r.run_id as "runId", r.rows, api_time(r.snapshot_at) as "snapshotAt", r.element,
            (select (n.element->>'number')::bigint from receipts n
              where n.export_id = r.export_id and n.data_interval_start > r.data_interval_start order by n.data_interval_start limit 1) as "followedBy",
            (select json_build_object('start', floor(extract(epoch from min(a.data_interval_start)) * 1000)::bigint, 'end', floor(extract(epoch from max(a.data_interval_end)) * 1000)::bigint, 'intervals', count(*))
               from accepted_intervals a where a.export_id = r.export_id and a.superseded_by is not null and a.data_interval_start < r.data_interval_start
                and a.data_interval_start > coalesce((select b.data_interval_start from receipts b
                      where b.export_id = r.export_id and b.data_interval_start < r.data_interval_start order by b.data_interval_start desc limit 1), '-infinity')
             having count(*) > 0) as superseded
       from receipts r where r.export_id = $1 and r.data_interval_start >= $2 and r.data_interval_start < $3
      order by r.data_interval_start desc limit $4;

-- intervals/high-water-mark.ts advanceHighWaterMark
-- takes $1 uuid

     with recursive prefix as (
    select e.id as export_id, coalesce(e.high_water_mark,
             (select min(t.data_interval_start) from ticks t where t.export_id = e.id and t.fate = 'ran')) as mark
      from batch_exports e where e.id in ($1)
    union all
    select p.export_id, passed.data_interval_end from prefix p, lateral (

      select r.data_interval_end from receipts r
       where r.export_id = p.export_id and r.data_interval_start = p.mark and r.settled
       union all
      select a.data_interval_end from accepted_intervals a
       where a.export_id = p.export_id and a.data_interval_start = p.mark
         -- A run that failed since is a hole again.
         and not exists (select from holes h
                          where h.export_id = p.export_id and h.data_interval_start = p.mark )
       limit 1) as passed
  )
     -- Also if the mark stays: a completion that began before must see that the export has changed.
     update batch_exports e set mark_began_at = coalesce(e.mark_began_at, m.first), high_water_mark =
  case when m.mark > coalesce(e.high_water_mark, m.first) then m.mark else e.high_water_mark end from (select export_id, max(mark) as mark, min(mark) as first from prefix group by export_id limit (select 2147483647)) m where e.id = m.export_id;

-- intervals/interval-runs.ts listUnderWay
-- takes $1 uuid
-- gives runId uuid, fence bigint, interval json

     select r.id as "runId", r.fence, json_build_object('start', floor(extract(epoch from r.data_interval_start) * 1000)::bigint, 'end', floor(extract(epoch from r.data_interval_end) * 1000)::bigint) as interval from runs r
      where r.export_id = $1 and r.status in ('Starting', 'Running') and (r.lease_holder is not null or r.commit_intent is not null);

-- intervals/interval-runs.ts listStillUnderWay
-- takes $1 uuid[], $2 bigint[]
-- gives runId uuid, fence bigint, interval json
select r.id as "runId", r.fence, json_build_object('start', floor(extract(epoch from r.data_interval_start) * 1000)::bigint, 'end', floor(extract(epoch from r.data_interval_end) * 1000)::bigint) as interval
       from unnest($1::uuid[], $2::bigint[]) as held (id, fence) join runs r on r.id = held.id
      where r.status in ('Starting', 'Running') and (r.lease_holder is not null or r.commit_intent is not null) and (r.fence = held.fence or r.commit_intent is not null)
      order by r.data_interval_start;

-- intervals/interval-runs.ts listNewestRuns
-- takes $1 uuid, $2 timestamp with time zone[], $3 timestamp with time zone[]
-- gives interval json, runId uuid, status text, isLive boolean, latestError text
select json_build_object('start', floor(extract(epoch from r.data_interval_start) * 1000)::bigint, 'end', floor(extract(epoch from r.data_interval_end) * 1000)::bigint) as interval, r.id as "runId", r.status, r.status in ('Starting', 'Running') as "isLive", r.latest_error as "latestError"
       from unnest($2::timestamptz[], $3::timestamptz[]) as i (starts, ends)
      cross join lateral (
        select * from runs r where r.export_id = $1 and r.data_interval_start = i.starts and r.data_interval_end = i.ends
         order by r.generation desc limit 1) r;

-- intervals/kept-snapshots.ts makeExpiringRuns
-- takes $1 bigint
-- gives made integer
with old as (
       select e.team_id, c.export_id, c.data_interval_start, c.data_interval_end
         from batch_exports e cross join lateral (
           select c.export_id, c.data_interval_start, c.data_interval_end from receipts c
            where c.export_id = e.id and c.snapshot_at is not null and c.manifest_key is not null
  and c.destination_version = e.destination_version order by c.data_interval_start desc offset e.keep_snapshots) c
        where e.mode = 'snapshot' and e.keep_snapshots is not null and e.deleted_at is null and ((e.deleted_at is null and not (e.paused and (e.paused_reason is null or coalesce(e.paused_code in ('organization.disabled', 'project.disabled', 'destination.files_differ', 'run.cancelled', 'run.crashed', 'run.late_rows_wait', 'run.unknown_history', 'source.json_too_deep', 'source.rows_missing'), false)))) and not (select d.disabled_at is not null or (select o.disabled_at is not null from organizations o where o.id = d.organization_id)
  from projects d where d.id = e.team_id))
          and not exists (select from runs r where r.export_id = c.export_id and r.data_interval_start = c.data_interval_start
      and r.data_interval_end = c.data_interval_end
                             and (r.status in ('Starting', 'Running') or r.purpose = 'expire'
                                  and (r.finished_at > now() - interval '1 hour' or is_decided_by_people(r.error_code))))
        order by c.data_interval_start limit $1
     ), made as (
       insert into runs (export_id, team_id, data_interval_start, data_interval_end, purpose, generation)
       select o.export_id, o.team_id, o.data_interval_start, o.data_interval_end, 'expire',
              coalesce((select max(r.generation) + 1 from runs r where r.export_id = o.export_id and r.data_interval_start = o.data_interval_start
      and r.data_interval_end = o.data_interval_end), 0)
         from old o
       on conflict do nothing
       returning id, team_id, export_id, backfill_id, data_interval_start, purpose
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

-- intervals/kept-snapshots.ts countExpiring
-- takes $1 uuid
-- gives count integer

     select (select count(*)::int from (select from receipts c where c.export_id = e.id and c.snapshot_at is not null and c.manifest_key is not null
  and c.destination_version = e.destination_version order by c.data_interval_start desc offset e.keep_snapshots) as old) as count
       from batch_exports e where e.id = $1 and e.mode = 'snapshot' and e.keep_snapshots is not null;

-- intervals/kept-snapshots.ts isKept
-- takes $1 uuid, $2 timestamp with time zone
-- gives is boolean
select e.keep_snapshots is null or
            (select count(*) from receipts c where c.export_id = e.id and c.snapshot_at is not null and c.manifest_key is not null
  and c.destination_version = e.destination_version and c.data_interval_start > $2) < e.keep_snapshots as is
       from batch_exports e where e.id = $1;

-- intervals/kept-snapshots.ts isNewestSnapshot
-- takes $1 uuid, $2 timestamp with time zone
select from receipts where export_id = $1 and snapshot_at is not null and data_interval_start > $2 limit 1;

-- intervals/look-backs.ts takeLookBacks
-- takes $1 jsonb, $2 bigint, $3 uuid[], $4 uuid[], $5 boolean
-- gives exportId uuid, teamId integer, tenantKey text, organizationId uuid, interval json, snapshot text, keyDigest text, keyCount bigint, deliveredRows bigint, settled boolean, pending text[], tries integer, exportFailures integer, isDue boolean, lookBackHours integer, model text, recipe jsonb, destinationType text, hasMoved boolean
with in_time as materialized (
       -- One range of an index for each export.
       select r.place from (
         select id, mode, model, look_back_hours from batch_exports where deleted_at is null and look_back_hours > 0
         union all
         select id, mode, model, null from batch_exports where deleted_at is null and look_back_hours is null
            and ($1::jsonb ->> 'lateLookbackHours' <> '0' or $1::jsonb -> 'modelLookbackHours' <> '{}')
         ) e, lateral (
         select ctid as place from receipts
          where export_id = e.id and data_interval_end > now() - case when e.mode = 'append' then coalesce(e.look_back_hours, ($1::jsonb -> 'modelLookbackHours' ->> e.model)::int, ($1::jsonb ->> 'lateLookbackHours')::int) else 0 end * interval '1 hour' offset 0) r
        where case when e.mode = 'append' then coalesce(e.look_back_hours, ($1::jsonb -> 'modelLookbackHours' ->> e.model)::int, ($1::jsonb ->> 'lateLookbackHours')::int) else 0 end > 0
     ), candidates as materialized (
       select ctid as place from receipts where not settled
       union
       select place from in_time
       union
       select ctid from receipts where look_owed
     ), due as (
       select c.ctid as place, p.organization_id, c.pending_checked_at,
              row_number() over (partition by p.organization_id order by c.pending_checked_at) as nth
         from receipts c
         join batch_exports e on e.id = c.export_id and (e.deleted_at is null and not (e.paused and (e.paused_reason is null or coalesce(e.paused_code in ('organization.disabled', 'project.disabled', 'destination.files_differ', 'run.cancelled', 'run.crashed', 'run.late_rows_wait', 'run.unknown_history', 'source.json_too_deep', 'source.rows_missing'), false))))
         join projects p on p.id = e.team_id and p.organization_id <> all ($3) and p.disabled_at is null
         join organizations o on o.id = p.organization_id and o.disabled_at is null
        where c.ctid = any (array(select place from candidates))
          and (c.export_id = any ($4)) = $5
          and not exists (select from guarded_work g where g.kind = 'look_back' and g.id = c.export_id::text and g.set_aside_at is not null)
          -- What waits for a person is looked at again after the export was changed, unless a person accepted it as it is.
          -- What had another fault is tried again each hour: the cause may be gone.
          and (c.late_rows_wait is null or c.late_rows_wait is not null and not exists (
  select from accepted_intervals a where a.export_id = c.export_id and a.data_interval_start = c.data_interval_start
      and a.data_interval_end = c.data_interval_end and a.accepted_at >= c.pending_checked_at) and (e.last_updated_at > c.pending_checked_at or c.pending_checked_at > now() + interval '65 minutes'
               or not is_decided_by_people(c.late_rows_code) and c.pending_checked_at < now() - interval '1 hour'))
          -- What failed is tried again later, also if it is the export that fails.
          and (c.look_after is null or (c.look_after <= clock_timestamp() or c.look_after > clock_timestamp() + interval '65 minutes')) and (e.look_after is null or (e.look_after <= clock_timestamp() or e.look_after > clock_timestamp() + interval '65 minutes'))
          and (c.look_tries = 0 or e.heal_after is null or (e.heal_after <= clock_timestamp() or e.heal_after > clock_timestamp() + interval '65 minutes'))
          and (c.pending_checked_at < now() - interval '10 s' or c.pending_checked_at > now() + interval '65 minutes')
          and (not c.settled and (c.pending_checked_at < now() - case when c.pending_transactions && '{standby}' then interval '1 hour'
                      else least((now() - c.committed_at) / 20, interval '1 hour') end or c.pending_checked_at > now() + interval '65 minutes')
               or case when e.mode = 'append' then coalesce(e.look_back_hours, ($1::jsonb -> 'modelLookbackHours' ->> e.model)::int, ($1::jsonb ->> 'lateLookbackHours')::int) else 0 end > 0 and (c.data_interval_end > now() - case when e.mode = 'append' then coalesce(e.look_back_hours, ($1::jsonb -> 'modelLookbackHours' ->> e.model)::int, ($1::jsonb ->> 'lateLookbackHours')::int) else 0 end * interval '1 hour' or c.look_owed)
  and (c.looked_back_at < now() - interval '5 minutes' or c.looked_back_at > now() + interval '65 minutes'))
          and not exists (
            select from runs later
             where later.export_id = c.export_id and later.data_interval_start = c.data_interval_start
      and later.data_interval_end = c.data_interval_end and later.status in ('Starting', 'Running'))
     ), chosen as (
       select organization_id from due where nth = 1 order by pending_checked_at limit $2
     ), taken as (
       select c.ctid as place, case when e.mode = 'append' then coalesce(e.look_back_hours, ($1::jsonb -> 'modelLookbackHours' ->> e.model)::int, ($1::jsonb ->> 'lateLookbackHours')::int) else 0 end > 0 and (c.data_interval_end > now() - case when e.mode = 'append' then coalesce(e.look_back_hours, ($1::jsonb -> 'modelLookbackHours' ->> e.model)::int, ($1::jsonb ->> 'lateLookbackHours')::int) else 0 end * interval '1 hour' or c.look_owed)
  and (c.looked_back_at < now() - interval '5 minutes' or c.looked_back_at > now() + interval '65 minutes') as due
         from receipts c join batch_exports e on e.id = c.export_id
        where c.ctid = any (array(select place from due where nth <= 20 and organization_id in (select organization_id from chosen)))
          -- Again, for a row that another worker has taken since.
          and (c.pending_checked_at < now() - interval '10 s' or c.pending_checked_at > now() + interval '65 minutes')
        for update of c skip locked
     ), owed as (
       -- From now on, the clock alone does not end its looks.
       update receipts c set look_owed = true where c.ctid = any (array(
         select ctid from receipts where ctid = any (array(select place from in_time)) and not look_owed
            and ctid <> all (array(select place from taken)) for update skip locked))
     )
     update receipts c set pending_checked_at = now(), look_owed = c.look_owed or t.due from taken t, batch_exports e, projects p
      where c.ctid = t.place and e.id = c.export_id and p.id = e.team_id
     returning c.export_id as "exportId", e.team_id as "teamId", coalesce(p.tenant_key, p.id::text) as "tenantKey", p.organization_id as "organizationId",
       json_build_object('start', floor(extract(epoch from c.data_interval_start) * 1000)::bigint, 'end', floor(extract(epoch from c.data_interval_end) * 1000)::bigint) as interval,
       c.snapshot, c.key_digest as "keyDigest", c.key_count as "keyCount",
       (c.rows + (select coalesce(sum((f ->> 'rows')::bigint), 0) from jsonb_array_elements(c.rejected_files) f))::bigint as "deliveredRows", c.settled, c.pending_transactions as pending, c.look_tries as tries, e.look_failures as "exportFailures",
       t.due as "isDue", case when e.mode = 'append' then coalesce(e.look_back_hours, ($1::jsonb -> 'modelLookbackHours' ->> e.model)::int, ($1::jsonb ->> 'lateLookbackHours')::int) else 0 end as "lookBackHours", e.model, c.recipe, e.destination_type as "destinationType",
       c.destination_version <> e.destination_version as "hasMoved";

-- intervals/look-backs.ts stampLookBack
-- takes $1 uuid, $2 timestamp with time zone, $3 timestamp with time zone
update receipts set pending_checked_at = now()
      where export_id = $1 and data_interval_start = $2 and data_interval_end = $3;

-- intervals/look-backs.ts recordLookBack
-- takes $1 uuid, $2 timestamp with time zone, $3 timestamp with time zone, $4 text, $5 boolean, $6 text[], $7 boolean, $8 text, $9 text, $10 bigint, $11 integer
-- gives export_id uuid
update receipts c set settled = $5, pending_transactions = $6, pending_checked_at = now(),
            looked_back_at = case when $7 then now() else c.looked_back_at end, late_rows_wait = null, late_rows_code = null,
            look_tries = case when $7 then 0 else c.look_tries end, look_after = case when $7 then null else c.look_after end,
            look_owed = case when $7 then c.data_interval_end > now() - $11::int * interval '1 hour' else c.look_owed end,
            snapshot = coalesce($8, c.snapshot), key_digest = case when $7 then $9 else c.key_digest end,
            key_count = coalesce($10, c.key_count)
      where c.export_id = $1 and c.data_interval_start = $2 and c.data_interval_end = $3 and c.snapshot = $4
      returning c.export_id;

-- intervals/look-backs.ts recordLookBack
-- takes $1 uuid, $2 timestamp with time zone, $3 timestamp with time zone
update runs set settled = true, pending_transactions = '{}'
        where export_id = $1 and data_interval_start = $2 and data_interval_end = $3
          and status = 'Completed' and not settled;

-- intervals/look-backs.ts mayAddLateRows
-- takes $1 uuid
select from batch_exports e where e.id = $1 and ((e.deleted_at is null and not (e.paused and (e.paused_reason is null or coalesce(e.paused_code in ('organization.disabled', 'project.disabled', 'destination.files_differ', 'run.cancelled', 'run.crashed', 'run.late_rows_wait', 'run.unknown_history', 'source.json_too_deep', 'source.rows_missing'), false)))) and not (select d.disabled_at is not null or (select o.disabled_at is not null from organizations o where o.id = d.organization_id)
  from projects d where d.id = e.team_id));

-- intervals/look-backs.ts noteLook
-- takes $1 uuid
update batch_exports set look_failures = 0, look_after = null where id = $1;

-- intervals/look-backs.ts noteFailedLook
-- takes $1 uuid, $2 timestamp with time zone, $3 timestamp with time zone
-- gives waits boolean
with failed as (
       update receipts set look_tries = look_tries + 1, look_after = clock_timestamp() + healing_delay(look_tries + 1)
        where export_id = $1 and data_interval_start = $2 and data_interval_end = $3
     )
     update batch_exports set look_failures = look_failures + 1,
            look_after = case when look_failures >= 5 then clock_timestamp() + healing_delay(look_failures) end
      where id = $1 returning look_after is not null as waits;

-- intervals/look-backs.ts noteLateRowsWait
-- takes $1 uuid, $2 timestamp with time zone, $3 timestamp with time zone, $4 text, $5 text
-- gives isNew boolean, isFirst boolean
with before as (
       select late_rows_wait, not exists (select from receipts where export_id = $1 and late_rows_wait = $4) as is_first
         from receipts where export_id = $1 and data_interval_start = $2 and data_interval_end = $3 for update
     )
     update receipts c set late_rows_wait = $4, late_rows_code = $5, pending_checked_at = now() from before
      where export_id = $1 and data_interval_start = $2 and data_interval_end = $3
      returning before.late_rows_wait is distinct from $4 as "isNew", before.is_first as "isFirst";

-- intervals/named-objects.ts listNamedObjects
-- takes $1 uuid, $2 text, $3 text, $4 text, $5 text, $6 bigint
-- gives key text, bytes bigint, isHere boolean
select * from (select k.key, k.bytes, c.destination_version = e.destination_version as "isHere"
       from batch_exports e join receipts c on c.export_id = e.id
       cross join lateral (
         select c.manifest_key as key, null::bigint as bytes where c.manifest_key is not null
         union all select f->>'key', (f->>'bytes')::bigint from jsonb_array_elements(c.files || c.rejected_files) f) k
      where e.id = $1
      union all
     select $3 || s.number || '.json', octet_length(s.body)::bigint, true
       from batch_exports e join statements s on s.export_id = e.id and s.number <= e.statement_put
      where e.id = $1 and e.statement_place = $2) named
      where key collate "C" > coalesce($4, '') and ($5::text is null or key collate "C" <= $5)
      order by key collate "C" limit $6;

-- intervals/named-objects.ts noteListed
-- takes $1 uuid, $2 text
update batch_exports set statement_listed = $2 where id = $1 and statement_listed is distinct from $2;

-- intervals/named-objects.ts putStatementsAgain
-- takes $1 uuid, $2 text, $3 integer
update batch_exports set statement_put = $3 where id = $1 and statement_place = $2 and statement_put > $3;

-- intervals/receipts.ts hasReceiptAt
-- takes $1 uuid, $2 integer
select from receipts where export_id = $1 and destination_version = $2 limit 1;

-- intervals/receipts.ts listReceipts
-- takes $1 uuid, $2 timestamp with time zone, $3 timestamp with time zone, $4 bigint
-- gives exportId uuid, interval json, generation integer, era uuid, manifestKey text, manifestEtag text, manifestSha256 text, deliveredDigest text, files jsonb, rejectedFiles jsonb, recipe jsonb, snapshotAt text, element jsonb, runId uuid, destinationVersion integer, rows bigint, bytes bigint, proof json
select export_id as "exportId", json_build_object('start', floor(extract(epoch from receipts.data_interval_start) * 1000)::bigint, 'end', floor(extract(epoch from receipts.data_interval_end) * 1000)::bigint) as interval,
  generation as "generation", era as "era", manifest_key as "manifestKey", manifest_etag as "manifestEtag", manifest_sha256 as "manifestSha256", delivered_digest as "deliveredDigest", files as "files", rejected_files as "rejectedFiles", recipe as "recipe", api_time(snapshot_at) as "snapshotAt", element as "element", run_id as "runId", destination_version as "destinationVersion", rows as "rows", bytes as "bytes",
  json_build_object('snapshot', snapshot, 'digest', key_digest, 'count', key_count, 'settled', settled,
    'pending', pending_transactions) as proof from receipts where export_id = $1 and (data_interval_start, data_interval_end) > ($2, $3)
      order by data_interval_start, data_interval_end limit $4;

-- intervals/receipts.ts listCompletedIntervals
-- takes $1 uuid, $2 timestamp with time zone, $3 timestamp with time zone
-- gives start bigint, end bigint, rows bigint, deliveredDigest text
select floor(extract(epoch from c.data_interval_start) * 1000)::bigint as start, floor(extract(epoch from c.data_interval_end) * 1000)::bigint as "end",
            case when c.destination_version = e.destination_version then
              (select coalesce(sum((file->>'rows')::bigint), 0)::bigint from jsonb_array_elements(c.files || c.rejected_files) file)
            else 0 end as rows, c.delivered_digest as "deliveredDigest"
       from receipts c join batch_exports e on e.id = c.export_id
      where c.export_id = $1 and c.data_interval_start >= $2 and c.data_interval_start < $3
      order by c.data_interval_start;

-- intervals/stated-records.ts findStatementOf
-- takes $1 uuid, $2 bytea, $3 integer
-- gives number integer, sha256 text, body bytea
select number, sha256, body from statements
      where export_id = $1 and number > $3 and position($2::bytea in body) > 0 order by number limit 1;

-- intervals/stated-records.ts listStatedMonth
-- takes $1 integer, $2 timestamp without time zone, $3 bigint
-- gives id uuid, name text, projectId integer, count bigint, number integer, sha256 text, statedTo text, states jsonb, rows bigint, bytes bigint, files bigint, removed bigint, erased bigint, missedDeadlines bigint
select e.id, e.name, e.team_id as "projectId", e.count, nullif(e.statement_number, 0) as number, e.statement_sha256 as sha256,
            api_time(s.period_end) as "statedTo", i.states, i.rows, i.bytes, i.files, b.removed, b.erased,
            case when e.deadline_minutes is not null or e.deadline_at is not null then (
              select count(*) from late_intervals l where l.export_id = e.id and l.missed_at is not null and l.data_interval_start >= e.first at time zone 'UTC' and l.data_interval_start < (e.first + interval '1 month') at time zone 'UTC')
            end as "missedDeadlines"
       from (select e.id, e.name, e.team_id, e.statement_number, e.statement_sha256, e.deadline_minutes, e.deadline_at, m.first,
                    count(*) over () as count
               from (select $2::timestamp as first) m join batch_exports e on e.team_id = $1
              where e.deleted_at is null or e.statement_number > 0
              order by e.team_id, lower(e.name), e.id limit $3) e
       left join statements s on s.export_id = e.id and s.number = e.statement_number
       cross join lateral (
         select coalesce(jsonb_object_agg(state, intervals), '{}') as states, coalesce(sum(rows), 0)::bigint as rows,
                coalesce(sum(bytes), 0)::bigint as bytes, coalesce(sum(files), 0)::bigint as files
           from (select i.state->>'state' as state, count(*) as intervals, sum((i.state->>'rows')::bigint) as rows,
                        sum((i.state->>'bytes')::bigint) as bytes, sum((i.state->>'files')::bigint) as files
                   from stated_intervals i where i.export_id = e.id and i.data_interval_start >= e.first at time zone 'UTC' and i.data_interval_start < (e.first + interval '1 month') at time zone 'UTC' and i.state <> 'null'
                  group by 1) of_state) i
       cross join lateral (
         select coalesce(sum((s.balance->'removed'->>'rows')::bigint), 0)::bigint as removed,
                coalesce(sum((s.balance->'erased'->>'rows')::bigint), 0)::bigint as erased
           from statements s where s.export_id = e.id and s.made_at >= e.first at time zone 'UTC' and s.made_at < (e.first + interval '1 month') at time zone 'UTC') b
      order by e.team_id, lower(e.name), e.id;

-- intervals/stated-records.ts listStatedMonth
-- takes $1 uuid, $2 timestamp without time zone, $3 bigint
-- gives id uuid, name text, projectId integer, count bigint, number integer, sha256 text, statedTo text, states jsonb, rows bigint, bytes bigint, files bigint, removed bigint, erased bigint, missedDeadlines bigint
select e.id, e.name, e.team_id as "projectId", e.count, nullif(e.statement_number, 0) as number, e.statement_sha256 as sha256,
            api_time(s.period_end) as "statedTo", i.states, i.rows, i.bytes, i.files, b.removed, b.erased,
            case when e.deadline_minutes is not null or e.deadline_at is not null then (
              select count(*) from late_intervals l where l.export_id = e.id and l.missed_at is not null and l.data_interval_start >= e.first at time zone 'UTC' and l.data_interval_start < (e.first + interval '1 month') at time zone 'UTC')
            end as "missedDeadlines"
       from (select e.id, e.name, e.team_id, e.statement_number, e.statement_sha256, e.deadline_minutes, e.deadline_at, m.first,
                    count(*) over () as count
               from (select $2::timestamp as first) m join batch_exports e on e.team_id in (select id from projects where organization_id = $1)
              where e.deleted_at is null or e.statement_number > 0
              order by e.team_id, lower(e.name), e.id limit $3) e
       left join statements s on s.export_id = e.id and s.number = e.statement_number
       cross join lateral (
         select coalesce(jsonb_object_agg(state, intervals), '{}') as states, coalesce(sum(rows), 0)::bigint as rows,
                coalesce(sum(bytes), 0)::bigint as bytes, coalesce(sum(files), 0)::bigint as files
           from (select i.state->>'state' as state, count(*) as intervals, sum((i.state->>'rows')::bigint) as rows,
                        sum((i.state->>'bytes')::bigint) as bytes, sum((i.state->>'files')::bigint) as files
                   from stated_intervals i where i.export_id = e.id and i.data_interval_start >= e.first at time zone 'UTC' and i.data_interval_start < (e.first + interval '1 month') at time zone 'UTC' and i.state <> 'null'
                  group by 1) of_state) i
       cross join lateral (
         select coalesce(sum((s.balance->'removed'->>'rows')::bigint), 0)::bigint as removed,
                coalesce(sum((s.balance->'erased'->>'rows')::bigint), 0)::bigint as erased
           from statements s where s.export_id = e.id and s.made_at >= e.first at time zone 'UTC' and s.made_at < (e.first + interval '1 month') at time zone 'UTC') b
      order by e.team_id, lower(e.name), e.id;

-- intervals/statement-changes.ts listUnbooked
-- takes $1 uuid, $2 timestamp with time zone, $3 bigint
-- gives start text, end text, before jsonb, mark text, fate text, isOpen boolean, acceptedAt text, supersededBy text, receipt jsonb, superseded jsonb

     with known as materialized (
       select export_id, data_interval_start, data_interval_end from stated_intervals where export_id = $1 union select export_id, data_interval_start, data_interval_end from receipts where export_id = $1 union select export_id, data_interval_start, data_interval_end from holes where export_id = $1 union select export_id, data_interval_start, data_interval_end from accepted_intervals where export_id = $1
       union select export_id, data_interval_start, data_interval_end from ticks where export_id = $1 and data_interval_start >= coalesce($2::timestamptz, '-infinity')
     ), seen as (
       select k.*, s.state as before, s.mark as stated, s.superseded, t.fate, a.accepted_at, a.superseded_by, c as receipt, c.export_id is not null as is_received,
              case when c.export_id is not null then md5(concat_ws('|', c.destination_version, c.generation, c.rows, c.bytes, c.settled, c.pending_transactions::text,
    c.delivered_digest, coalesce(c.manifest_sha256, md5(c.files::text))))
                   when a.export_id is not null then 'accepted'
                   when h.export_id is not null or t.fate = 'ran' or t.fate = 'paused' and exists (select from batch_exports b where b.id = t.export_id and b.automatic_pauses @> t.tick_at) then 'open'
                   when t.fate is not null then 'not_due'
                   when s.mark = 'not_due' or s.state->>'state' = 'not_due' then 'not_due' else 'open' end as mark
         from known k
         left join stated_intervals s on s.export_id = k.export_id and s.data_interval_start = k.data_interval_start
      and s.data_interval_end = k.data_interval_end
         left join receipts c on c.export_id = k.export_id and c.data_interval_start = k.data_interval_start
      and c.data_interval_end = k.data_interval_end
         left join holes h on h.export_id = k.export_id and h.data_interval_start = k.data_interval_start
      and h.data_interval_end = k.data_interval_end
         left join accepted_intervals a on a.export_id = k.export_id and a.data_interval_start = k.data_interval_start
      and a.data_interval_end = k.data_interval_end
         left join ticks t on s.export_id is null and t.export_id = k.export_id and t.data_interval_start = k.data_interval_start
      and t.data_interval_end = k.data_interval_end
     )
     select api_time(k.data_interval_start) as start, api_time(k.data_interval_end) as "end", nullif(k.before, 'null') as before, k.mark,
            k.fate, k.mark = 'open' as "isOpen", api_time(k.accepted_at) as "acceptedAt", api_time(k.superseded_by) as "supersededBy",
            case when k.is_received then jsonb_build_object('version', (k.receipt).destination_version, 'generation', (k.receipt).generation, 'rows', (k.receipt).rows, 'bytes', (k.receipt).bytes,
    'files', jsonb_array_length((k.receipt).files), 'key', (k.receipt).files->0->>'key', 'manifest', (k.receipt).manifest_key, 'sha256', (k.receipt).manifest_sha256,
    'digest', (k.receipt).delivered_digest, 'settled', (k.receipt).settled, 'pending', (k.receipt).pending_transactions, 'made', (k.receipt).made_by,
    'at', api_time((k.receipt).committed_at), 'digests', case when (k.receipt).made_by->>'purpose' = 'erase' then
      (select coalesce(jsonb_agg(f->>'sha256'), '[]') from jsonb_array_elements((k.receipt).files || (k.receipt).rejected_files) f) end) end as receipt,
            coalesce((select jsonb_agg(jsonb_build_object('version', o.destination_version, 'generation', o.generation, 'rows', o.rows, 'bytes', o.bytes,
    'files', jsonb_array_length(o.files), 'key', o.files->0->>'key', 'manifest', o.manifest_key, 'sha256', o.manifest_sha256,
    'digest', o.delivered_digest, 'settled', o.settled, 'pending', o.pending_transactions, 'made', o.made_by,
    'at', api_time(o.committed_at), 'digests', case when true then
      (select coalesce(jsonb_agg(f->>'sha256'), '[]') from jsonb_array_elements(o.files || o.rejected_files) f) end) order by place)
                        from unnest(k.superseded) with ordinality as p (receipt, place), jsonb_populate_record(null::receipts, p.receipt) o),
                     '[]') as superseded
       from seen k where k.mark is distinct from k.stated or k.superseded <> '{}'
      order by k.data_interval_start, k.data_interval_end limit $3;

-- intervals/statement-changes.ts storeBooked
-- takes $1 uuid, $2 jsonb
insert into stated_intervals (export_id, data_interval_start, data_interval_end, state, mark)
     select $1, start, "end", state, mark from jsonb_to_recordset($2::jsonb) as b (start timestamptz, "end" timestamptz, state jsonb, mark text)
     on conflict (export_id, data_interval_start, data_interval_end) do update
        set state = excluded.state, mark = excluded.mark, superseded = '{}';

-- intervals/statement-changes.ts forgetStated
-- takes $1 uuid
update stated_intervals set mark = '', state = case when state->>'state' = 'not_due' then state else 'null' end where export_id = $1;

-- intervals/statement-changes.ts findAcceptance
-- takes $1 text, $2 timestamp with time zone, $3 timestamp with time zone
-- gives keyId uuid, reason text
select a.key_id as "keyId", c->'after'->>'reason' as reason
       from activity a, jsonb_array_elements(a.changes) c
      where a.subject_type = 'batch_export' and a.subject_id = $1 and a.action = 'accepted'
        and (c->'before'->>'from')::timestamptz <= $2 and (c->'before'->>'to')::timestamptz >= $3
      order by a.id desc limit 1;

-- intervals/statement-changes.ts findRemovalRequest
-- takes $1 text, $2 uuid
-- gives request uuid, keyId uuid, shown bigint
select coalesce(r.backfill_id, r.id) as request, a.key_id as "keyId", (a.changes->0->'after'->>'shown')::bigint as shown
       from runs r left join activity a on a.subject_type = 'batch_export' and a.subject_id = $1 and a.action = 'missing_rows_dropped'
        and a.changes->0->'after'->>'request' = coalesce(r.backfill_id, r.id)::text
      where r.id = $2;

-- intervals/statements.ts lockChain
-- takes $1 uuid
-- gives number integer, sha256 text, beganAt text, periodEnd text, closing jsonb, acknowledged jsonb, begins text, place text, putNumber integer

     select e.statement_number as number, e.statement_sha256 as sha256, api_time(e.statements_began_at) as "beganAt",
            api_time(s.period_end) as "periodEnd", s.balance->'closing' as closing, e.acknowledged, e.statement_begins as begins,
            e.statement_place as place, e.statement_put as "putNumber"
       from (select * from batch_exports where id = $1 for no key update) e
       left join statements s on s.export_id = e.id and s.number = e.statement_number;

-- intervals/statements.ts findHead
-- takes $1 uuid
-- gives number integer, sha256 text, madeAt text, putNumber integer, putFault text, acknowledged jsonb, owedRows bigint
select e.statement_number as number, e.statement_sha256 as sha256, api_time(s.made_at) as "madeAt", e.statement_put as "putNumber",
            e.statement_fault as "putFault", e.acknowledged, (a.balance->'closing'->>'rows')::bigint as "owedRows"
       from batch_exports e left join statements s on s.export_id = e.id and s.number = e.statement_number
       left join statements a on a.export_id = e.id and a.number = (e.acknowledged->>'number')::integer
        and a.sha256 = e.acknowledged->>'sha256'
      where e.id = $1;

-- intervals/statements.ts storeAcknowledgement
-- takes $1 uuid, $2 integer, $3 text, $4 bigint
update batch_exports set acknowledged = jsonb_build_object('number', $2::integer, 'sha256', $3::text, 'rows', $4::bigint,
            'at', api_time(clock_timestamp())) where id = $1;

-- intervals/statements.ts notifyOfLoad
-- takes $1 uuid, $2 text, $3 jsonb
-- gives notify_targets void
select notify_targets($1, $2, jsonb_build_object('acknowledged', $3::jsonb));

-- intervals/statements.ts findBalance
-- takes $1 uuid, $2 integer
-- gives sha256 text, rows bigint
select sha256, (balance->'closing'->>'rows')::bigint as rows from statements where export_id = $1 and number = $2;

-- intervals/statements.ts listStatements
-- takes $1 uuid
-- gives count bigint
select count(*) from statements where export_id = $1;

-- intervals/statements.ts listStatements
-- takes $1 uuid, $2 bigint, $3 bigint
-- gives number integer, sha256 text, madeAt text, bytes integer, periodStart text, periodEnd text, begins text, balance jsonb

      select number, sha256, api_time(made_at) as "madeAt", octet_length(body) as bytes,
              api_time(period_start) as "periodStart", api_time(period_end) as "periodEnd", begins, balance
         from statements where export_id = $1 order by number desc limit $2 offset $3;

-- intervals/statements.ts findStatement
-- takes $1 uuid, $2 integer
-- gives body bytea
select body from statements where export_id = $1 and number = $2;

-- intervals/statements.ts insertStatement
-- takes $1 uuid, $2 integer, $3 bytea, $4 text, $5 timestamp with time zone, $6 timestamp with time zone, $7 text, $8 jsonb
insert into statements (export_id, number, body, sha256, period_start, period_end, begins, balance)
     values ($1, $2, $3, $4, $5, $6, $7, $8);

-- intervals/statements.ts advanceChain
-- takes $1 uuid, $2 integer, $3 text, $4 timestamp with time zone, $5 timestamp with time zone
update batch_exports set statement_number = $2, statement_sha256 = $3, statements_began_at = $4, statement_begins = null,
            statement_at = $5 where id = $1;

-- intervals/statements.ts findWaitMs
-- takes $1 uuid, $2 bigint
-- gives ms bigint
select ceil(extract(epoch from made_at + interval '1 hour' - clock_timestamp()) * 1000)::bigint as ms
       from statements where export_id = $1 and made_at > clock_timestamp() - interval '1 hour'
      order by number desc limit 1 offset $2;

-- intervals/statements.ts putOffStatement
-- takes $1 uuid
update batch_exports set statement_at = now() + interval '10 minutes' where id = $1 and statement_at <= now();

-- intervals/statements.ts notePut
-- takes $1 uuid, $2 text, $3 integer

     update batch_exports set statement_place = $2, statement_put = $3, statement_fault = null, statement_tries = 0, statement_after = now()
      where id = $1;

-- intervals/statements.ts notePutFault
-- takes $1 uuid, $2 text
-- gives isFirst boolean

     update batch_exports set statement_fault = $2, statement_tries = statement_tries + 1,
            statement_after = now() + case when statement_tries + 1 = 0 then 0 else least(3600, 2.5 * power(2, least(statement_tries + 1, 11))) end * (0.5 + random() / 2) * interval '1 s'
      where id = $1 returning statement_tries = 1 as "isFirst";

-- intervals/statements.ts beginChain
-- takes $1 uuid, $2 integer
delete from statements where export_id = $1 and number >= $2;

-- intervals/statements.ts beginChain
-- takes $1 uuid, $2 text, $3 integer, $4 text
update batch_exports set statement_begins = $2, statement_number = $3, statement_sha256 = $4, statement_put = $3, statement_fault = null,
            statement_at = now() + case when statement_tries = 0 then 0 else least(3600, 2.5 * power(2, least(statement_tries, 11))) end * (0.5 + random() / 2) * interval '1 s', statement_tries = statement_tries + 1 where id = $1;

-- intervals/statements.ts findPlaceOfStatements
-- takes $1 uuid
-- gives externalId uuid, destinationVersion integer, listed text
select p.external_id as "externalId", e.destination_version as "destinationVersion", e.statement_listed as listed
       from batch_exports e join projects p on p.id = e.team_id where e.id = $1;

-- intervals/statements.ts findTeamsWithStatements
-- takes $1 bigint
-- gives teamId integer
select e.team_id as "teamId" from batch_exports e where e.deleted_at is null and (e.statement_at <= now() or (e.statement_put < e.statement_number and e.statement_after <= now()))
  and not exists (select from guarded_work g where g.kind = 'statement' and g.id = e.id::text and g.set_aside_at is not null) group by 1 order by random() limit $1;

-- intervals/statements.ts findDueStatement
-- takes $1 integer, $2 uuid[]
-- gives exportId uuid, isToMake boolean

     select e.id as "exportId", e.statement_at <= now() as "isToMake" from batch_exports e
      where e.team_id = $1 and e.deleted_at is null and (e.statement_at <= now() or (e.statement_put < e.statement_number and e.statement_after <= now()))
  and not exists (select from guarded_work g where g.kind = 'statement' and g.id = e.id::text and g.set_aside_at is not null) and e.id <> all ($2::uuid[]) order by e.statement_at limit 1;

-- intervals/statements.ts findFirstPeriod
-- takes $1 uuid
-- gives start text
select api_time(min(data_interval_start)) as start from ticks where export_id = $1;

-- intervals/statements.ts listEnabledSteps
-- takes $1 integer
-- gives id integer, version integer, plugin integer, config jsonb

     select id, version, plugin, config from pipeline_transformation_configs
      where team_id = $1 and enabled and not deleted order by "order", id;

-- intervals/superseded.ts listLiveRuns
-- takes $1 uuid[]
-- gives exportId uuid, runId uuid, isFailing boolean

     select r.export_id as "exportId", r.id as "runId",
            r.lease_holder is null and (r.error_code is not null or r.crashes > 0 and r.attempt > 0) and r.committing_generation is null as "isFailing"
       from runs r where r.export_id = any ($1::uuid[]) and r.purpose = 'whole' and r.status in ('Starting', 'Running');

-- intervals/superseded.ts findGone
-- takes $1 uuid, $2 timestamp with time zone, $3 timestamp with time zone
-- gives gone text
select case when exists (select from accepted_intervals x where x.export_id = $1 and x.data_interval_start = $2 and x.data_interval_end = $3 and x.superseded_by is not null) then 'superseded'
                 when exists (select from receipts x where x.export_id = $1 and x.data_interval_start = $2 and x.data_interval_end = $3 and x.made_by->>'purpose' = 'expire') then 'removed'
                 when exists (select from receipts x where x.export_id = $1 and x.data_interval_start = $2 and x.data_interval_end = $3 and x.element is not null) then 'element' end as gone;

-- intervals/superseded.ts endSuperseded
-- takes $1 uuid[]
update runs set status = 'FailedRetryable', erases = null, commit_intent = commit_intent - '{files,rejectedFiles}'::text[], fence = fence + 1, finished_at = now(), last_updated_at = now()
      where id = any ($1::uuid[]) and runs.status not in ('Starting', 'Completed', 'Failed', 'FailedRetryable', 'Cancelled');

-- intervals/superseded.ts supersede
-- takes $1 uuid[], $2 timestamp with time zone[], $3 uuid[], $4 timestamp with time zone[], $5 timestamp with time zone[], $6 timestamp with time zone[]
with newer as (
       select * from unnest($1::uuid[], $2::timestamptz[]) as n (export_id, newest)
     ), passed as (
       select * from unnest($3::uuid[], $4::timestamptz[], $5::timestamptz[], $6::timestamptz[]) as p (export_id, data_interval_start, data_interval_end, newest)
     ), unmade as (
       delete from holes h using newer n where h.export_id = n.export_id and h.data_interval_end < n.newest
       returning h.export_id, h.data_interval_start, h.data_interval_end, n.newest
     ), never as materialized (select * from passed union select * from unmade
     ), owed as (
       delete from late_intervals l using never n where l.export_id = n.export_id and l.data_interval_start = n.data_interval_start
      and l.data_interval_end = n.data_interval_end and l.delivered_at is null
     )
     insert into accepted_intervals (export_id, data_interval_start, data_interval_end, superseded_by)
     select * from never on conflict do nothing;

-- intervals/superseded.ts goOnCounting
-- takes $1 uuid[], $2 timestamp with time zone[]
update runs n set (crashes, deaths_alone, furthest_bytes) = (select coalesce(l.crashes, 0), coalesce(l.deaths_alone, 0), coalesce(l.furthest_bytes, 0))
       from unnest($1::uuid[], $2::timestamptz[]) as made (export_id, newest)
      cross join lateral (select r.* from runs r where r.export_id = made.export_id and r.purpose = 'whole' and r.data_interval_start < made.newest and r.data_interval_end < made.newest
                           order by r.data_interval_start desc, r.generation desc limit 1) l
      where n.export_id = made.export_id and n.data_interval_end = made.newest and n.status in ('Starting', 'Running') and n.attempt = 0 and l.status <> 'Completed' and l.crashes > 0;

-- intervals/ticks.ts readNow
-- gives now bigint
select floor(extract(epoch from clock_timestamp()) * 1000)::bigint as now;

-- intervals/ticks.ts lockDueSchedules
-- takes $1 timestamp with time zone, $2 bigint
-- gives exportId uuid, teamId integer, mode text, schedule jsonb
select id as "exportId", team_id as "teamId", mode, schedule from batch_exports
      where next_tick_at <= $1 and deleted_at is null
      order by next_tick_at limit $2 for no key update skip locked;

-- intervals/ticks.ts recordTicks
-- takes $1 uuid[], $2 integer[], $3 timestamp with time zone[], $4 timestamp with time zone[], $5 timestamp with time zone[], $6 text[], $7 timestamp with time zone[]
-- gives runs integer
with decided as (
       select * from unnest($1::uuid[], $2::int[], $3::timestamptz[], $4::timestamptz[], $5::timestamptz[], $6::text[], $7::timestamptz[])
         as d (export_id, team_id, tick_at, interval_start, interval_end, fate, available_at)
     ), made as (
       insert into runs (export_id, team_id, data_interval_start, data_interval_end)
       select export_id, team_id, interval_start, interval_end from decided where fate = 'ran'
       on conflict do nothing
       returning id, export_id, team_id, backfill_id, data_interval_start, data_interval_end, purpose
     ), due as (
       select m.*, d.available_at from made m join decided d
           on d.export_id = m.export_id and d.interval_start = m.data_interval_start and d.interval_end = m.data_interval_end
     ), enqueued as (
       insert into outbox (run_id, team_id, export_id, backfill_id, data_interval_start, available_at, ready, small)
   select id, team_id, export_id, backfill_id, data_interval_start, available_at, available_at <= now(), (due.purpose = 'whole'
    and not (select true from batch_exports e where e.id = due.export_id and e.outgrew_at >= now() - interval '1 day' limit 1) is true
    and coalesce((select max(near.bytes) <= 131072 and max(near.rows) <= 2000 from (
        (select c.bytes, c.rows from receipts c where c.export_id = due.export_id and c.data_interval_start < due.data_interval_start
          order by c.data_interval_start desc limit 3)
        union all
        (select c.bytes, c.rows from receipts c where c.export_id = due.export_id and c.data_interval_start >= due.data_interval_start
          order by c.data_interval_start limit 1)) near), true)) from due
     ), recorded as (
       insert into ticks (export_id, tick_at, data_interval_start, data_interval_end, fate, run_id)
       select d.export_id, d.tick_at, d.interval_start, d.interval_end, d.fate,
              -- A backfill may have begun the interval in the moment before its tick was decided.
              coalesce(m.id, (select r.id from runs r
                               where d.fate = 'ran' and r.export_id = d.export_id and r.data_interval_start = d.interval_start
                                 and r.data_interval_end = d.interval_end and r.status in ('Starting', 'Running')))
         from decided d left join made m
           on m.export_id = d.export_id and m.data_interval_start = d.interval_start and m.data_interval_end = d.interval_end
       on conflict do nothing
     )
     select count(*)::int as runs from made;

-- intervals/ticks.ts putOffSchedule
-- takes $1 uuid, $2 double precision
update batch_exports set next_tick_at = now() + $2 * interval '1 s' where id = $1;

-- intervals/ticks.ts storeSchedules
-- takes $1 uuid[], $2 jsonb[], $3 timestamp with time zone[]
update batch_exports e set schedule = s.schedule, next_tick_at = s.next_tick_at
       from unnest($1::uuid[], $2::jsonb[], $3::timestamptz[]) as s (id, schedule, next_tick_at)
      where e.id = s.id;

-- intervals/verifications.ts listDueVerifications
-- takes $1 interval
-- gives exportId uuid, dueAt text
with round as (
       select date_trunc('day', clock_timestamp() - $1::interval, 'UTC') + $1::interval as due_at
     )
     select e.id as "exportId", api_time(r.due_at) as "dueAt"
       from round r cross join batch_exports e left join export_checks v on v.export_id = e.id
      where clock_timestamp() < r.due_at + interval '6 hours' and e.deleted_at is null and e.created_at < r.due_at
        and (v.verified_at is null or v.verified_at < r.due_at)
        and not exists (select from guarded_work g where g.kind = 'verify' and g.id = e.id::text
                           and (g.set_aside_at is not null or g.holder is not null and g.expires_at > clock_timestamp()))
      order by v.verified_at nulls first, e.created_at, e.id limit 100;

-- intervals/verifications.ts isVerificationDue
-- takes $1 uuid, $2 timestamp with time zone
select from batch_exports e left join export_checks v on v.export_id = e.id
      where e.id = $1 and clock_timestamp() < $2::timestamptz + interval '6 hours' and e.deleted_at is null and e.created_at < $2::timestamptz
        and (v.verified_at is null or v.verified_at < $2::timestamptz);

-- intervals/verifications.ts storeVerification
-- takes $1 uuid, $2 timestamp with time zone, $3 text, $4 bigint, $5 bigint, $6 bigint, $7 text, $8 text[]
insert into export_checks as v (export_id, verified_at, result, intervals, rows, breaches, detail, failed_since)
     select id, clock_timestamp(), $3, $4, $5, $6, $7, case when $3 = any ($8::text[]) then clock_timestamp() end
       from batch_exports where id = $1
     on conflict (export_id) do update
        set verified_at = excluded.verified_at, result = excluded.result, intervals = excluded.intervals, rows = excluded.rows,
            breaches = excluded.breaches, detail = excluded.detail,
            failed_since = case when excluded.failed_since is not null then coalesce(v.failed_since, excluded.failed_since) end
      where v.verified_at is null or v.verified_at < $2;

-- intervals/verifications.ts listVerifications
-- takes $1 bigint
-- gives exportId uuid, name text, teamId integer, organizationId uuid, organizationName text, verifiedAt timestamp with time zone, result text, intervals bigint, rows bigint, breaches bigint, detail text, failedSince timestamp with time zone, count integer
select v.export_id as "exportId", e.name, e.team_id as "teamId", o.id as "organizationId", o.name as "organizationName",
            v.verified_at as "verifiedAt", v.result, v.intervals, v.rows, v.breaches, v.detail, v.failed_since as "failedSince",
            count(*) over ()::int as count
       from export_checks v join batch_exports e on e.id = v.export_id and e.deleted_at is null
       join projects p on p.id = e.team_id join organizations o on o.id = p.organization_id
      where v.verified_at is not null
      order by v.failed_since nulls last, v.verified_at desc, v.export_id limit $1;

-- intervals/verifications.ts readVerifyState
-- gives failed integer, ageSeconds double precision, unverifiedSeconds double precision

     select count(*) filter (where v.failed_since is not null)::int as failed,
            extract(epoch from clock_timestamp() - min(v.verified_at))::float8 as "ageSeconds",
            extract(epoch from clock_timestamp() - min(e.created_at) filter (where v.verified_at is null))::float8 as "unverifiedSeconds"
       from batch_exports e left join export_checks v on v.export_id = e.id where e.deleted_at is null;

-- intervals/verify-queries.ts listVerifiedExports
-- takes $1 text, $2 text
-- gives id uuid, name text, teamId integer, tenantKey text, externalId uuid, model text, mode text, dslQuery text, type text, config jsonb, secrets bytea, destinationVersion integer, highWaterMark timestamp with time zone
select e.id, e.name, e.team_id as "teamId", coalesce(p.tenant_key, p.id::text) as "tenantKey", p.external_id as "externalId", e.model, e.mode, e.dsl_query as "dslQuery",
            e.destination_type as type, e.destination_config as config, e.destination_secrets as secrets,
            e.destination_version as "destinationVersion", e.high_water_mark as "highWaterMark"
       from batch_exports e join projects p on p.id = e.team_id join organizations o on o.id = p.organization_id
      where e.deleted_at is null and ($1::text is null or e.name = $1 or e.id::text = lower($1))
        and ($2::text is null or o.name = $2 or o.id::text = lower($2))
      order by e.created_at, e.id;

-- intervals/verify-queries.ts sizeExports
-- takes $1 uuid[]
-- gives id uuid, intervals bigint, rows bigint, bytes bigint
select export_id as id, count(*) as intervals, sum(rows)::bigint as rows, sum(bytes)::bigint as bytes
       from receipts where export_id = any ($1::uuid[]) group by export_id;

-- intervals/verify-queries.ts listExportPlaces
-- gives exportId uuid, version integer, type text, config jsonb, model text

     select id as "exportId", destination_version as version, destination_type as type, destination_config as config, model
       from batch_exports
     union all
     select f.export_id, f.version, e.destination_type, f.destination_config, e.model
       from former_destinations f join batch_exports e on e.id = f.export_id;

-- intervals/verify-queries.ts listLeftDestinations
-- takes $1 uuid
-- gives version integer, type text, config jsonb, secrets bytea, isLocked boolean, isOther boolean
select f.version, e.destination_type as type, f.destination_config as config, f.destination_secrets as secrets,
            f.destination_secrets is null and e.destination_secrets is not null as "isLocked",
            f.compared_with is not distinct from e.destination_version as "isOther"
       from former_destinations f join batch_exports e on e.id = f.export_id
      where f.export_id = $1 order by f.version;

-- intervals/verify-queries.ts readDestinationVersion
-- takes $1 uuid
-- gives version integer
select destination_version as version from batch_exports where id = $1;

-- intervals/verify-queries.ts readReceiptNow
-- takes $1 uuid, $2 timestamp with time zone, $3 timestamp with time zone
-- gives receipt jsonb, isLive boolean
select (select to_jsonb(r) from (select export_id as "exportId", json_build_object('start', floor(extract(epoch from receipts.data_interval_start) * 1000)::bigint, 'end', floor(extract(epoch from receipts.data_interval_end) * 1000)::bigint) as interval,
  generation as "generation", era as "era", manifest_key as "manifestKey", manifest_etag as "manifestEtag", manifest_sha256 as "manifestSha256", delivered_digest as "deliveredDigest", files as "files", rejected_files as "rejectedFiles", recipe as "recipe", api_time(snapshot_at) as "snapshotAt", element as "element", run_id as "runId", destination_version as "destinationVersion", rows as "rows", bytes as "bytes",
  json_build_object('snapshot', snapshot, 'digest', key_digest, 'count', key_count, 'settled', settled,
    'pending', pending_transactions) as proof from receipts where export_id = $1
               and data_interval_start = $2 and data_interval_end = $3) r) as receipt,
            exists (select from runs where export_id = $1 and status in ('Starting', 'Running')
                       and data_interval_start = $2 and data_interval_end = $3) as "isLive";

-- intervals/verify-queries.ts findGaps
-- takes $1 uuid
-- gives start timestamp with time zone, end timestamp with time zone

     with marks as (
       select high_water_mark as reached, coalesce(mark_began_at,
              (select min(t.data_interval_start) from ticks t where t.export_id = e.id and t.fate = 'ran')) as began
         from batch_exports e where e.id = $1
     ), covered as (
       select data_interval_start, data_interval_end from receipts where export_id = $1
       union select data_interval_start, data_interval_end from accepted_intervals where export_id = $1
     ), walked as (
       select began, reached, c.data_interval_start as next,
              max(c.data_interval_end) over (order by c.data_interval_start rows between unbounded preceding and 1 preceding) as passed
         from marks join covered c on c.data_interval_start < reached and c.data_interval_end > began
       union all
       select began, reached, reached, (select max(c.data_interval_end) from covered c where c.data_interval_start < reached) from marks
     )
     select greatest(began, passed) as start, next as "end" from walked where next > greatest(began, passed) order by 1 limit 1000;

-- intervals/verify-queries.ts findTornTicks
-- takes $1 uuid, $2 double precision
-- gives end timestamp with time zone, next timestamp with time zone

     select "end", next from (
       select data_interval_end as "end", decided_at, lead(data_interval_start) over (order by tick_at) as next
         from ticks where export_id = $1
     ) t where next is not null and next <> "end" and decided_at > now() - $2 * interval '1 day'
      order by 1 limit 1000;

-- intervals/verify-queries.ts findOverlaps
-- takes $1 uuid
-- gives a timestamp with time zone, b timestamp with time zone

     select a, b from (
       select data_interval_start as b,
              lag(data_interval_start) over w as a, max(data_interval_end) over (
                order by data_interval_start, data_interval_end rows between unbounded preceding and 1 preceding) as covered
         from receipts where export_id = $1 window w as (order by data_interval_start, data_interval_end)
     ) r where covered > b limit 1000;

-- intervals/verify-queries.ts findInconsistentRuns
-- takes $1 uuid
-- gives id uuid, why text

     (select r.id, case when r.records_completed is distinct from r.records_total_count - r.records_dropped - r.records_rejected
                       then 'its counts do not agree' else 'its interval has no receipt' end as why
       from runs r
      where r.export_id = $1 and r.status = 'Completed'
        and (r.records_completed is distinct from r.records_total_count - r.records_dropped - r.records_rejected
             or not exists (select 1 from receipts c where c.export_id = r.export_id and c.data_interval_start = r.data_interval_start
      and c.data_interval_end = r.data_interval_end))
      limit 1000)
     union all
     (select r.id, 'it has ended and still waits for an attempt in the outbox'
        from outbox o join runs r on r.id = o.run_id
       where o.export_id = $1 and r.status not in ('Starting', 'Running') limit 1000);

-- intervals/verify-queries.ts countMissingData
-- takes $1 uuid
-- gives failed bigint, retrying bigint, running bigint
with waiting as (
       select data_interval_start, data_interval_end, bool_or(error_code is not null or crashes > 0) as failed
         from runs r where export_id = $1 and status in ('Starting', 'Running')
          and not exists (select from receipts c where c.export_id = $1 and c.data_interval_start = r.data_interval_start
                             and c.data_interval_end = r.data_interval_end)
        group by 1, 2)
     select (select count(*) from holes h where h.export_id = $1
                and not exists (select from waiting w where w.data_interval_start = h.data_interval_start
                                   and w.data_interval_end = h.data_interval_end)) as failed,
            count(*) filter (where w.failed) as retrying, count(*) filter (where not w.failed) as running
       from waiting w;

-- intervals/verify-queries.ts findKnownKeys
-- takes $1 uuid[], $2 integer[], $3 text[], $4 text[]
-- gives kind text, key text
with owner as (select * from unnest($1::uuid[], $2::int[]) as o (export_id, version)),
          interval as (select distinct text::timestamptz as start from unnest($4::text[]) as text)
     select 'current' as kind, k.key
       from owner o cross join interval i
       join receipts c on c.export_id = o.export_id and c.data_interval_start = i.start and c.destination_version = o.version
       cross join lateral (select c.manifest_key as key union all
                           select f ->> 'key' from jsonb_array_elements(c.files || c.rejected_files) f) k
      where k.key = any ($3::text[])
     union all
     select case when l.uncommitted then 'uncommitted' else 'replaced' end, l.key from owner o join leftover_files l
         on l.export_id = o.export_id and l.destination_version = o.version and l.key = any ($3::text[]);

-- intervals/verify-queries.ts listWriters
-- takes $1 uuid[], $2 timestamp with time zone
-- gives id uuid
select distinct export_id as id from runs
      where export_id = any ($1::uuid[]) and data_interval_start = $2 and status in ('Starting', 'Running');

-- intervals/verify-queries.ts isUploadKnown
-- takes $1 uuid[], $2 integer[], $3 timestamp with time zone, $4 numeric
-- gives known boolean
select exists (select from unnest($1::uuid[], $2::int[]) as o (export_id, version)
        join upload_places p on p.export_id = o.export_id and p.destination_version = o.version
        join runs r on r.export_id = o.export_id and r.data_interval_start = $3 and r.file_generation >= $4::numeric) as known;

-- intervals/verify-queries.ts isOfOurHistory
-- takes $1 uuid, $2 uuid, $3 integer, $4 timestamp with time zone, $5 text
-- gives known boolean
select ($5::text is null or exists (select from eras where id::text = $5))
        and (exists (select from runs where export_id = $1 and id = $2)
         or exists (select from receipts where export_id = $1 and data_interval_start = $4 and generation > $3)) as known;

-- intervals/verify-queries.ts hasLiveRuns
-- takes $1 uuid
select from runs where export_id = $1 and status in ('Starting', 'Running') limit 1;
