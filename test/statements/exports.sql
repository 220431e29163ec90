-- exports/activity.ts recording, recordActivity
-- takes $1 uuid, $2 integer, $3 text, $4 text, $5 text, $6 uuid, $7 jsonb
insert into activity (organization_id, team_id, subject_type, subject_id, action, key_id, changes)
   select $1, $2, $3, $4, $5, $6, $7;

-- exports/activity.ts recordingOnce, recordOncePerHour
-- takes $1 uuid, $2 integer, $3 text, $4 text, $5 text, $6 uuid, $7 jsonb
insert into activity (organization_id, team_id, subject_type, subject_id, action, key_id, changes)
   select $1, $2, $3, $4, $5, $6, $7  on conflict (subject_id, key_id, date_trunc('hour', happened_at at time zone 'UTC'))
     where action = 'viewed by an operator' do nothing;

-- exports/activity.ts listActivity
-- takes $1 text, $2 text
-- gives count bigint
select count(*) from activity where subject_type = $1 and subject_id = $2;

-- exports/activity.ts listActivity
-- takes $1 text, $2 text, $3 bigint, $4 bigint
-- gives id bigint, action text, keyId uuid, keyName text, changes jsonb, happenedAt timestamp with time zone
select a.id, a.action, a.key_id as "keyId", k.name as "keyName", a.changes, a.happened_at as "happenedAt"
         from (select * from (
      select page.*, sum(page.size) over (order by page.id desc) - page.size as before from (select a.*, octet_length(a.changes::text) as size from activity a
      where a.subject_type = $1 and a.subject_id = $2 order by a.id desc limit $3 offset $4) as page
    ) as weighed where before < 1048576) a left join api_keys k on k.id = a.key_id
        order by a.id desc;

-- exports/backfills.ts insertBackfill
-- takes $1 uuid, $2 integer, $3 timestamp with time zone, $4 timestamp with time zone, $5 text, $6 text, $7 boolean, $8 integer, $9 integer
-- gives id uuid
insert into backfills (export_id, team_id, start_at, end_at, "order", reprocess, drops_missing, concurrency, total_runs)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9) returning id;

-- exports/backfills.ts listRunningBackfills
-- gives id uuid
select id from backfills where status = 'Running';

-- exports/backfills.ts findRunningRanges
-- takes $1 uuid
-- gives id uuid, range json
select id, json_build_object('start', floor(extract(epoch from backfills.start_at) * 1000)::bigint, 'end', floor(extract(epoch from backfills.end_at) * 1000)::bigint) as range from backfills where export_id = $1 and status = 'Running';

-- exports/backfills.ts countRunningBackfills
-- takes $1 integer
-- gives n integer
select count(*)::int as n from backfills where team_id = $1 and status = 'Running';

-- exports/backfills.ts finishBackfill
-- takes $1 uuid, $2 text
-- gives id uuid

     update backfills set status = $2, finished_at = now(), last_updated_at = now()
      where id = $1 and status = 'Running' returning id;

-- exports/backfills.ts stopFailingBackfill
-- takes $1 uuid, $2 bigint, $3 text
-- gives id uuid

     update backfills set status = 'Cancelled', stopped_reason = left($3, 2000), finished_at = now(), last_updated_at = now()
      where id = $1 and status = 'Running' and $2 <= (
        select count(*) filter (where newest.status = 'Failed') from (
          select r.status from runs r where r.backfill_id = $1 and r.finished_at is not null and r.status <> 'Cancelled'
           order by r.finished_at desc limit $2) newest)
     returning id;

-- exports/backfills.ts cancelBackfillsOf
-- takes $1 uuid

     update backfills set status = 'Cancelled', finished_at = now(), last_updated_at = now()
      where export_id = $1 and status = 'Running';

-- exports/backfills.ts findPassedOver
-- takes $1 uuid, $2 timestamp with time zone[]
-- gives start bigint
select distinct floor(extract(epoch from data_interval_start) * 1000)::bigint as start from receipts
      where export_id = $1 and data_interval_start = any ($2::timestamptz[]);

-- exports/backfills.ts findPassedOver
-- takes $1 uuid, $2 timestamp with time zone[]
-- gives start bigint
select distinct floor(extract(epoch from data_interval_start) * 1000)::bigint as start from holes
      where export_id = $1 and data_interval_start = any ($2::timestamptz[]);

-- exports/backfills.ts findPassedOver
-- takes $1 uuid, $2 timestamp with time zone[]
-- gives start bigint
select distinct floor(extract(epoch from data_interval_start) * 1000)::bigint as start from runs
      where export_id = $1 and data_interval_start = any ($2::timestamptz[]);

-- exports/backfills.ts findPassedOverIn
-- takes $1 uuid, $2 timestamp with time zone, $3 timestamp with time zone
-- gives start bigint
select distinct floor(extract(epoch from data_interval_start) * 1000)::bigint as start from runs
        where export_id = $1 and data_interval_start >= $2 and data_interval_start < $3 and status in ('Starting', 'Running');

-- exports/backfills.ts findPassedOverIn
-- takes $1 uuid, $2 timestamp with time zone, $3 timestamp with time zone
-- gives start bigint
select distinct floor(extract(epoch from data_interval_start) * 1000)::bigint as start from receipts
        where export_id = $1 and data_interval_start >= $2 and data_interval_start < $3;

-- exports/backfills.ts findPassedOverIn
-- takes $1 uuid, $2 timestamp with time zone, $3 timestamp with time zone
-- gives start bigint
select distinct floor(extract(epoch from data_interval_start) * 1000)::bigint as start from holes
        where export_id = $1 and data_interval_start >= $2 and data_interval_start < $3;

-- exports/backfills.ts findPassedOverIn
-- takes $1 uuid, $2 timestamp with time zone, $3 timestamp with time zone
-- gives start bigint
select distinct floor(extract(epoch from data_interval_start) * 1000)::bigint as start from runs
        where export_id = $1 and data_interval_start >= $2 and data_interval_start < $3;

-- exports/backfills.ts findPassedOverIn
-- takes $1 uuid, $2 timestamp with time zone, $3 timestamp with time zone
-- gives start bigint
select distinct floor(extract(epoch from data_interval_start) * 1000)::bigint as start from runs
        where export_id = $1 and data_interval_start >= $2 and data_interval_start < $3 and status in ('Starting', 'Running') and started_at is null;

-- exports/backfills.ts findBackfill
-- takes $1 uuid, $2 uuid
-- gives id uuid, exportId uuid, teamId integer, status text, range json, order text, reprocess text, dropsMissing boolean, concurrency integer, plannedTo bigint, totalRuns integer, createdAt timestamp with time zone, finishedAt timestamp with time zone, stoppedReason text, lastUpdatedAt timestamp with time zone, finishedRuns integer, failedRuns integer, rows bigint, bytes bigint, elapsedMs bigint
select b.id, b.export_id as "exportId", b.team_id as "teamId", b.status,
  json_build_object('start', floor(extract(epoch from b.start_at) * 1000)::bigint, 'end', floor(extract(epoch from b.end_at) * 1000)::bigint) as range, b."order", b.reprocess, b.drops_missing as "dropsMissing", b.concurrency,
  floor(extract(epoch from b.planned_to) * 1000)::bigint as "plannedTo", b.total_runs as "totalRuns", b.created_at as "createdAt",
  b.finished_at as "finishedAt", b.stopped_reason as "stoppedReason", b.last_updated_at as "lastUpdatedAt", p.finished as "finishedRuns", p.failed as "failedRuns", p.rows, p.bytes,
  floor(extract(epoch from coalesce(b.finished_at, clock_timestamp()) - b.created_at) * 1000)::bigint as "elapsedMs" from backfills b, lateral (
    select count(*) filter (where r.finished_at is not null)::int as finished,
           count(*) filter (where r.status in ('Failed', 'FailedRetryable'))::int as failed,
           coalesce(sum(r.records_completed) filter (where r.status = 'Completed'), 0)::bigint as rows,
           coalesce(sum(r.bytes_exported) filter (where r.status = 'Completed'), 0)::bigint as bytes
      from runs r where r.backfill_id = b.id) as p where b.id = $1 and b.export_id = $2;

-- exports/backfills.ts listBackfills
-- takes $1 uuid, $2 bigint
-- gives id uuid, exportId uuid, teamId integer, status text, range json, order text, reprocess text, dropsMissing boolean, concurrency integer, plannedTo bigint, totalRuns integer, createdAt timestamp with time zone, finishedAt timestamp with time zone, stoppedReason text, lastUpdatedAt timestamp with time zone, finishedRuns integer, failedRuns integer, rows bigint, bytes bigint, elapsedMs bigint
select b.id, b.export_id as "exportId", b.team_id as "teamId", b.status,
  json_build_object('start', floor(extract(epoch from b.start_at) * 1000)::bigint, 'end', floor(extract(epoch from b.end_at) * 1000)::bigint) as range, b."order", b.reprocess, b.drops_missing as "dropsMissing", b.concurrency,
  floor(extract(epoch from b.planned_to) * 1000)::bigint as "plannedTo", b.total_runs as "totalRuns", b.created_at as "createdAt",
  b.finished_at as "finishedAt", b.stopped_reason as "stoppedReason", b.last_updated_at as "lastUpdatedAt", p.finished as "finishedRuns", p.failed as "failedRuns", p.rows, p.bytes,
  floor(extract(epoch from coalesce(b.finished_at, clock_timestamp()) - b.created_at) * 1000)::bigint as "elapsedMs" from backfills b, lateral (
    select count(*) filter (where r.finished_at is not null)::int as finished,
           count(*) filter (where r.status in ('Failed', 'FailedRetryable'))::int as failed,
           coalesce(sum(r.records_completed) filter (where r.status = 'Completed'), 0)::bigint as rows,
           coalesce(sum(r.bytes_exported) filter (where r.status = 'Completed'), 0)::bigint as bytes
      from runs r where r.backfill_id = b.id) as p where b.export_id = $1 order by b.created_at desc, b.id desc limit $2;

-- exports/backfills.ts listBackfills
-- takes $1 uuid, $2 timestamp with time zone, $3 uuid, $4 bigint
-- gives id uuid, exportId uuid, teamId integer, status text, range json, order text, reprocess text, dropsMissing boolean, concurrency integer, plannedTo bigint, totalRuns integer, createdAt timestamp with time zone, finishedAt timestamp with time zone, stoppedReason text, lastUpdatedAt timestamp with time zone, finishedRuns integer, failedRuns integer, rows bigint, bytes bigint, elapsedMs bigint
select b.id, b.export_id as "exportId", b.team_id as "teamId", b.status,
  json_build_object('start', floor(extract(epoch from b.start_at) * 1000)::bigint, 'end', floor(extract(epoch from b.end_at) * 1000)::bigint) as range, b."order", b.reprocess, b.drops_missing as "dropsMissing", b.concurrency,
  floor(extract(epoch from b.planned_to) * 1000)::bigint as "plannedTo", b.total_runs as "totalRuns", b.created_at as "createdAt",
  b.finished_at as "finishedAt", b.stopped_reason as "stoppedReason", b.last_updated_at as "lastUpdatedAt", p.finished as "finishedRuns", p.failed as "failedRuns", p.rows, p.bytes,
  floor(extract(epoch from coalesce(b.finished_at, clock_timestamp()) - b.created_at) * 1000)::bigint as "elapsedMs" from backfills b, lateral (
    select count(*) filter (where r.finished_at is not null)::int as finished,
           count(*) filter (where r.status in ('Failed', 'FailedRetryable'))::int as failed,
           coalesce(sum(r.records_completed) filter (where r.status = 'Completed'), 0)::bigint as rows,
           coalesce(sum(r.bytes_exported) filter (where r.status = 'Completed'), 0)::bigint as bytes
      from runs r where r.backfill_id = b.id) as p where b.export_id = $1 and (b.created_at, b.id) < ($2::timestamptz, $3::uuid) order by b.created_at desc, b.id desc limit $4;

-- exports/backfills.ts listBackfills
-- takes $1 uuid, $2 timestamp with time zone, $3 uuid, $4 bigint
-- gives id uuid, exportId uuid, teamId integer, status text, range json, order text, reprocess text, dropsMissing boolean, concurrency integer, plannedTo bigint, totalRuns integer, createdAt timestamp with time zone, finishedAt timestamp with time zone, stoppedReason text, lastUpdatedAt timestamp with time zone, finishedRuns integer, failedRuns integer, rows bigint, bytes bigint, elapsedMs bigint
select b.id, b.export_id as "exportId", b.team_id as "teamId", b.status,
  json_build_object('start', floor(extract(epoch from b.start_at) * 1000)::bigint, 'end', floor(extract(epoch from b.end_at) * 1000)::bigint) as range, b."order", b.reprocess, b.drops_missing as "dropsMissing", b.concurrency,
  floor(extract(epoch from b.planned_to) * 1000)::bigint as "plannedTo", b.total_runs as "totalRuns", b.created_at as "createdAt",
  b.finished_at as "finishedAt", b.stopped_reason as "stoppedReason", b.last_updated_at as "lastUpdatedAt", p.finished as "finishedRuns", p.failed as "failedRuns", p.rows, p.bytes,
  floor(extract(epoch from coalesce(b.finished_at, clock_timestamp()) - b.created_at) * 1000)::bigint as "elapsedMs" from backfills b, lateral (
    select count(*) filter (where r.finished_at is not null)::int as finished,
           count(*) filter (where r.status in ('Failed', 'FailedRetryable'))::int as failed,
           coalesce(sum(r.records_completed) filter (where r.status = 'Completed'), 0)::bigint as rows,
           coalesce(sum(r.bytes_exported) filter (where r.status = 'Completed'), 0)::bigint as bytes
      from runs r where r.backfill_id = b.id) as p where b.export_id = $1 and (b.created_at, b.id) > ($2::timestamptz, $3::uuid) order by b.created_at asc, b.id asc limit $4;

-- exports/backfills.ts averageOfRuns
-- takes $1 uuid
-- gives rows double precision, bytes double precision
select avg(newest.records_total_count)::float8 as rows, avg(newest.bytes_exported)::float8 as bytes
       from (select records_total_count, bytes_exported from runs
              where export_id = $1 and status = 'Completed' order by created_at desc, id desc limit 100) as newest;

-- exports/backfills.ts findSql, findAdvancing
-- is planned once
-- takes $1 uuid[]
-- gives id uuid, exportId uuid, teamId integer, status text, range json, order text, reprocess text, dropsMissing boolean, concurrency integer, plannedTo bigint, totalRuns integer, createdAt timestamp with time zone, finishedAt timestamp with time zone, stoppedReason text, lastUpdatedAt timestamp with time zone, schedule jsonb, liveRuns integer, begunBefore json
select b.id, b.export_id as "exportId", b.team_id as "teamId", b.status,
  json_build_object('start', floor(extract(epoch from b.start_at) * 1000)::bigint, 'end', floor(extract(epoch from b.end_at) * 1000)::bigint) as range, b."order", b.reprocess, b.drops_missing as "dropsMissing", b.concurrency,
  floor(extract(epoch from b.planned_to) * 1000)::bigint as "plannedTo", b.total_runs as "totalRuns", b.created_at as "createdAt",
  b.finished_at as "finishedAt", b.stopped_reason as "stoppedReason", b.last_updated_at as "lastUpdatedAt", e.schedule, (select count(*)::int from runs r where r.backfill_id = b.id and r.status in ('Starting', 'Running')) as "liveRuns",
            (select coalesce(json_agg(floor(extract(epoch from r.data_interval_start) * 1000)::bigint), '[]') from runs r where r.export_id = b.export_id
                and r.data_interval_start >= b.start_at and r.data_interval_start < b.end_at
                and r.status in ('Starting', 'Running') and r.started_at < b.created_at) as "begunBefore"
       from backfills b join batch_exports e on e.id = b.export_id where b.id = any ($1::uuid[]) and b.status = 'Running';

-- exports/backfills.ts planPages, planLockedPage
-- is planned once
-- takes $1 uuid[], $2 integer[], $3 timestamp with time zone[], $4 timestamp with time zone[], $5 uuid[], $6 text[], $7 boolean[], $8 uuid[], $9 timestamp with time zone[], $10 timestamp with time zone[], $11 integer[]
-- gives id uuid, made integer
with held as materialized (
       select b.id, page.planned_to, page.intervals
         from unnest($8::uuid[], $9::timestamptz[], $10::timestamptz[], $11::int[]) as page (backfill_id, after, planned_to, intervals)
         join backfills b on b.id = page.backfill_id join batch_exports e on e.id = b.export_id
        where b.status = 'Running' and b.planned_to is not distinct from page.after and set_config('synchronous_commit', 'off', true) is not null for no key update of b
     ), wanted as (
       select * from unnest($1::uuid[], $2::int[], $3::timestamptz[], $4::timestamptz[], $5::uuid[], $6::text[], $7::boolean[])
         as w (export_id, team_id, interval_start, interval_end, backfill_id, purpose, drops_missing)
        limit (select 2147483647)
     ), made as (
       insert into runs (export_id, team_id, data_interval_start, data_interval_end, backfill_id, purpose, drops_missing, generation)
       select w.export_id, w.team_id, w.interval_start, w.interval_end, w.backfill_id, w.purpose,
              w.drops_missing or coalesce(b.drops_missing, false),
              coalesce((select max(r.generation) + 1 from runs r
                         where r.export_id = w.export_id and r.data_interval_start = w.interval_start
                           and r.data_interval_end = w.interval_end), 0)
         from wanted w left join backfills b on b.id = w.backfill_id
        where w.backfill_id in (select id from held) and (w.purpose <> 'whole' or (select e.mode = 'append' from batch_exports e where e.id = w.export_id)
  or not exists (select from runs t where t.export_id = w.export_id and t.purpose = 'whole' and t.status in ('Starting', 'Running'))
  and not exists (select from receipts t where t.export_id = w.export_id and t.data_interval_start > w.interval_start and t.element is not null))
          -- Its bounds may be those of other zone data.
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
     ), planned as (
       update backfills b set planned_to = held.planned_to, last_updated_at = now(),
              total_runs = total_runs - (held.intervals - (select count(*)::int from made where made.backfill_id = held.id))
         from held where b.id = held.id
     )
     select id, (select count(*)::int from made where made.backfill_id = held.id) as made from held;

-- exports/backfills.ts planPages, planFreePages
-- is planned once
-- takes $1 uuid[], $2 integer[], $3 timestamp with time zone[], $4 timestamp with time zone[], $5 uuid[], $6 text[], $7 boolean[], $8 uuid[], $9 timestamp with time zone[], $10 timestamp with time zone[], $11 integer[]
-- gives id uuid, made integer
with held as materialized (
       select b.id, page.planned_to, page.intervals
         from unnest($8::uuid[], $9::timestamptz[], $10::timestamptz[], $11::int[]) as page (backfill_id, after, planned_to, intervals)
         join backfills b on b.id = page.backfill_id join batch_exports e on e.id = b.export_id
        where b.status = 'Running' and b.planned_to is not distinct from page.after and set_config('synchronous_commit', 'off', true) is not null and e.mode = 'append' for no key update of b skip locked for key share of e skip locked
     ), wanted as (
       select * from unnest($1::uuid[], $2::int[], $3::timestamptz[], $4::timestamptz[], $5::uuid[], $6::text[], $7::boolean[])
         as w (export_id, team_id, interval_start, interval_end, backfill_id, purpose, drops_missing)
        limit (select 2147483647)
     ), made as (
       insert into runs (export_id, team_id, data_interval_start, data_interval_end, backfill_id, purpose, drops_missing, generation)
       select w.export_id, w.team_id, w.interval_start, w.interval_end, w.backfill_id, w.purpose,
              w.drops_missing or coalesce(b.drops_missing, false),
              coalesce((select max(r.generation) + 1 from runs r
                         where r.export_id = w.export_id and r.data_interval_start = w.interval_start
                           and r.data_interval_end = w.interval_end), 0)
         from wanted w left join backfills b on b.id = w.backfill_id
        where w.backfill_id in (select id from held) and (w.purpose <> 'whole' or (select e.mode = 'append' from batch_exports e where e.id = w.export_id)
  or not exists (select from runs t where t.export_id = w.export_id and t.purpose = 'whole' and t.status in ('Starting', 'Running'))
  and not exists (select from receipts t where t.export_id = w.export_id and t.data_interval_start > w.interval_start and t.element is not null))
          -- Its bounds may be those of other zone data.
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
     ), planned as (
       update backfills b set planned_to = held.planned_to, last_updated_at = now(),
              total_runs = total_runs - (held.intervals - (select count(*)::int from made where made.backfill_id = held.id))
         from held where b.id = held.id
     )
     select id, (select count(*)::int from made where made.backfill_id = held.id) as made from held;

-- exports/backfills.ts lockOther, planLockedPage
-- takes $1 uuid
select from batch_exports e where e.id = (select export_id from backfills where id = $1) and e.mode <> 'append' for no key update;

-- exports/export-health.ts readExportHealth
-- takes $1 text[]
-- gives troubled jsonb, pausedBySluice jsonb, missingIntervals jsonb, pausedByPerson integer, pausedByOperator integer, worstLagSeconds double precision, longestLateSeconds double precision, waitingNotifications integer, oldestDueNotificationSeconds double precision, overdue jsonb, atRisk integer, healing integer, failingTargets integer
select (select coalesce(jsonb_agg(t), '[]') from (select coalesce(e.failing_code, case when e.late_since is not null and reads_long(e.id) then 'source.slow' end) as code, count(*) filter (where e.failing_since is not null)::int as failing,
         count(*) filter (where e.exhausted_since is not null)::int as exhausted,
         count(*) filter (where e.late_since is not null)::int as late
    from batch_exports e
   where e.deleted_at is null and not (e.paused and (e.paused_reason is null or coalesce(paused_code = any ($1::text[]), false))) and (e.failing_since is not null or e.exhausted_since is not null or e.late_since is not null)
   group by 1) t) as troubled,
            (select coalesce(jsonb_agg(t), '[]') from (select coalesce(e.failing_code, (select r.error_code from runs r
    where r.export_id = e.id and r.status in ('Failed', 'FailedRetryable') order by r.created_at desc, r.id desc limit 1)) as code, count(*)::int as count
    from batch_exports e where e.deleted_at is null and not (e.paused and (e.paused_reason is null or coalesce(paused_code = any ($1::text[]), false))) and e.paused
   group by 1) t) as "pausedBySluice",
            (select coalesce(jsonb_agg(t), '[]') from (select coalesce((select r.error_code from runs r
    where r.export_id = h.export_id and r.data_interval_start = h.data_interval_start
      and r.data_interval_end = h.data_interval_end and r.status in ('Failed', 'FailedRetryable') order by r.id desc limit 1), e.failing_code) as code, count(*)::int as count
    from missing_intervals h join batch_exports e on e.id = h.export_id and e.deleted_at is null and not (e.paused and (e.paused_reason is null or coalesce(paused_code = any ($1::text[]), false)))
   group by 1) t) as "missingIntervals",
            e.*, n.*,
            (select jsonb_build_object('ours', count(*) filter (where turn = 'ours'), 'source', count(*) filter (where turn = 'source'),
                      'customer', count(*) filter (where turn = 'customer')) from late_intervals l join batch_exports b on b.id = l.export_id and b.deleted_at is null
              where l.delivered_at is null and l.missed_at is not null) as overdue,
            (select count(*)::int from late_intervals l join batch_exports b on b.id = l.export_id and b.deleted_at is null
              where l.delivered_at is null and l.missed_at is null) as "atRisk",
            (select count(*)::int from holes h join batch_exports e on e.id = h.export_id where h.heals_since is not null and ((e.deleted_at is null and not (e.paused and (e.paused_reason is null or coalesce(e.paused_code in ('organization.disabled', 'project.disabled', 'destination.files_differ', 'run.cancelled', 'run.crashed', 'run.late_rows_wait', 'run.unknown_history', 'source.json_too_deep', 'source.rows_missing'), false)))) and not (select d.disabled_at is not null or (select o.disabled_at is not null from organizations o where o.id = d.organization_id)
  from projects d where d.id = e.team_id)) and h.heals_since + e.heal_for_hours * interval '1 hour' > clock_timestamp()) as healing,
            (select count(*)::int from notification_targets where enabled and failing_since is not null) as "failingTargets"
       from (select count(*) filter (where paused and paused_reason is null)::int as "pausedByPerson",
                    count(*) filter (where paused and coalesce(paused_code = any ($1::text[]), false))::int as "pausedByOperator",
                    coalesce(extract(epoch from max(least(now(), end_at) - coalesce(high_water_mark, greatest(created_at, start_at)))
                      filter (where not paused)), 0)::float8 as "worstLagSeconds",
                    coalesce(extract(epoch from now() - min(late_since)), 0)::float8 as "longestLateSeconds"
               from batch_exports where deleted_at is null) e,
            (select count(*)::int as "waitingNotifications",
                    coalesce(extract(epoch from max(now() - d.next_attempt_at) filter (
                      where d.next_attempt_at <= now() and (d.leased_until is null or d.leased_until <= now())
                        and not exists (select from notification_deliveries b where b.target_id = d.target_id
                              and b.export_id = d.export_id and b.status = 'waiting' and b.seq < d.seq))), 0)::float8 as "oldestDueNotificationSeconds"
               from notification_deliveries d where d.status = 'waiting') n;

-- exports/export-lists.ts listBatchExports
-- takes $1 integer, $2 bigint, $3 bigint
-- gives id uuid, teamId integer, name text, destinationType text, destinationConfig jsonb, destinationSecrets bytea, destinationSecretEnds jsonb, interval text, timezone text, offsetDay smallint, offsetHour smallint, model text, dslQuery text, querySchema jsonb, filters jsonb, transformations boolean, paused boolean, lastPausedAt timestamp with time zone, pausedReason text, pausedCode text, startAt timestamp with time zone, endAt timestamp with time zone, deadlineMinutes integer, deadlineAt text, warnMinutes integer, mode text, keepSnapshots integer, newBase integer, healForHours integer, statementShows text, lookBackHours integer, lateSince timestamp with time zone, createdAt timestamp with time zone, lastUpdatedAt timestamp with time zone, schedule jsonb, highWaterMark bigint, failureStreak integer, lastSuccessAt timestamp with time zone, count bigint
select e.id, e.team_id as "teamId", e.name, e.destination_type as "destinationType",
  e.destination_config as "destinationConfig", e.destination_secrets as "destinationSecrets",
  e.destination_secret_ends as "destinationSecretEnds",
  e."interval", e.timezone, e.offset_day as "offsetDay", e.offset_hour as "offsetHour", e.model,
  e.dsl_query as "dslQuery", e.query_schema as "querySchema", e.filters, e.transformations, e.paused,
  e.last_paused_at as "lastPausedAt", e.paused_reason as "pausedReason", e.paused_code as "pausedCode", e.start_at as "startAt",
  e.end_at as "endAt", e.deadline_minutes as "deadlineMinutes", e.deadline_at as "deadlineAt", e.warn_minutes as "warnMinutes", e.mode as "mode", e.keep_snapshots as "keepSnapshots", e.new_base as "newBase", e.heal_for_hours as "healForHours", e.statement_shows as "statementShows", e.look_back_hours as "lookBackHours", e.late_since as "lateSince",
  e.created_at as "createdAt", e.last_updated_at as "lastUpdatedAt",
  e.schedule, floor(extract(epoch from e.high_water_mark) * 1000)::bigint as "highWaterMark",
  e.failure_streak as "failureStreak", e.last_success_at as "lastSuccessAt", (select count(*) from batch_exports e where e.deleted_at is null and e.team_id = $1) as count
       from (select * from (
      select page.*, sum(page.size) over (order by page.created_at desc, page.id desc) - page.size as before from (select e.*, octet_length(e.destination_config::text) + coalesce(octet_length(to_json(e.dsl_query)::text), 0)
     + coalesce(octet_length(e.query_schema::text), 0)
     + coalesce(octet_length(e.filters::text), 0) as size
        from batch_exports e where e.deleted_at is null and e.team_id = $1 order by e.created_at desc, e.id desc limit $2 offset $3) as page
    ) as weighed where before < 1048576) e
      order by e.created_at desc, e.id desc;

-- exports/export-lists.ts listBatchExports
-- takes $1 uuid, $2 bigint, $3 bigint
-- gives id uuid, teamId integer, name text, destinationType text, destinationConfig jsonb, destinationSecrets bytea, destinationSecretEnds jsonb, interval text, timezone text, offsetDay smallint, offsetHour smallint, model text, dslQuery text, querySchema jsonb, filters jsonb, transformations boolean, paused boolean, lastPausedAt timestamp with time zone, pausedReason text, pausedCode text, startAt timestamp with time zone, endAt timestamp with time zone, deadlineMinutes integer, deadlineAt text, warnMinutes integer, mode text, keepSnapshots integer, newBase integer, healForHours integer, statementShows text, lookBackHours integer, lateSince timestamp with time zone, createdAt timestamp with time zone, lastUpdatedAt timestamp with time zone, schedule jsonb, highWaterMark bigint, failureStreak integer, lastSuccessAt timestamp with time zone, count bigint
select e.id, e.team_id as "teamId", e.name, e.destination_type as "destinationType",
  e.destination_config as "destinationConfig", e.destination_secrets as "destinationSecrets",
  e.destination_secret_ends as "destinationSecretEnds",
  e."interval", e.timezone, e.offset_day as "offsetDay", e.offset_hour as "offsetHour", e.model,
  e.dsl_query as "dslQuery", e.query_schema as "querySchema", e.filters, e.transformations, e.paused,
  e.last_paused_at as "lastPausedAt", e.paused_reason as "pausedReason", e.paused_code as "pausedCode", e.start_at as "startAt",
  e.end_at as "endAt", e.deadline_minutes as "deadlineMinutes", e.deadline_at as "deadlineAt", e.warn_minutes as "warnMinutes", e.mode as "mode", e.keep_snapshots as "keepSnapshots", e.new_base as "newBase", e.heal_for_hours as "healForHours", e.statement_shows as "statementShows", e.look_back_hours as "lookBackHours", e.late_since as "lateSince",
  e.created_at as "createdAt", e.last_updated_at as "lastUpdatedAt",
  e.schedule, floor(extract(epoch from e.high_water_mark) * 1000)::bigint as "highWaterMark",
  e.failure_streak as "failureStreak", e.last_success_at as "lastSuccessAt", (select count(*) from batch_exports e where e.deleted_at is null and e.team_id in (select id from projects where organization_id = $1)) as count
       from (select * from (
      select page.*, sum(page.size) over (order by page.created_at desc, page.id desc) - page.size as before from (select e.*, octet_length(e.destination_config::text) + coalesce(octet_length(to_json(e.dsl_query)::text), 0)
     + coalesce(octet_length(e.query_schema::text), 0)
     + coalesce(octet_length(e.filters::text), 0) as size
        from batch_exports e where e.deleted_at is null and e.team_id in (select id from projects where organization_id = $1) order by e.created_at desc, e.id desc limit $2 offset $3) as page
    ) as weighed where before < 1048576) e
      order by e.created_at desc, e.id desc;

-- exports/export-lists.ts listBatchExports, findBatchExports
-- takes $1 integer
-- gives count bigint
select count(*) from batch_exports e where e.deleted_at is null and e.team_id = $1;

-- exports/export-lists.ts listBatchExports, findBatchExports
-- takes $1 uuid
-- gives count bigint
select count(*) from batch_exports e where e.deleted_at is null and e.team_id in (select id from projects where organization_id = $1);

-- exports/export-lists.ts findBatchExports
-- takes $1 integer, $2 bigint, $3 bigint
-- gives id uuid, teamId integer, name text, destinationType text, destinationConfig jsonb, destinationSecrets bytea, destinationSecretEnds jsonb, interval text, timezone text, offsetDay smallint, offsetHour smallint, model text, dslQuery text, querySchema jsonb, filters jsonb, transformations boolean, paused boolean, lastPausedAt timestamp with time zone, pausedReason text, pausedCode text, startAt timestamp with time zone, endAt timestamp with time zone, deadlineMinutes integer, deadlineAt text, warnMinutes integer, mode text, keepSnapshots integer, newBase integer, healForHours integer, statementShows text, lookBackHours integer, lateSince timestamp with time zone, createdAt timestamp with time zone, lastUpdatedAt timestamp with time zone, schedule jsonb, highWaterMark bigint, failureStreak integer, lastSuccessAt timestamp with time zone, count bigint
select e.id, e.team_id as "teamId", e.name, e.destination_type as "destinationType",
  e.destination_config as "destinationConfig", e.destination_secrets as "destinationSecrets",
  e.destination_secret_ends as "destinationSecretEnds",
  e."interval", e.timezone, e.offset_day as "offsetDay", e.offset_hour as "offsetHour", e.model,
  e.dsl_query as "dslQuery", e.query_schema as "querySchema", e.filters, e.transformations, e.paused,
  e.last_paused_at as "lastPausedAt", e.paused_reason as "pausedReason", e.paused_code as "pausedCode", e.start_at as "startAt",
  e.end_at as "endAt", e.deadline_minutes as "deadlineMinutes", e.deadline_at as "deadlineAt", e.warn_minutes as "warnMinutes", e.mode as "mode", e.keep_snapshots as "keepSnapshots", e.new_base as "newBase", e.heal_for_hours as "healForHours", e.statement_shows as "statementShows", e.look_back_hours as "lookBackHours", e.late_since as "lateSince",
  e.created_at as "createdAt", e.last_updated_at as "lastUpdatedAt",
  e.schedule, floor(extract(epoch from e.high_water_mark) * 1000)::bigint as "highWaterMark",
  e.failure_streak as "failureStreak", e.last_success_at as "lastSuccessAt", e.total as count from (select * from (
      select page.*, sum(page.size) over (order by page.sort_key desc nulls last, page.created_at desc, page.id desc) - page.size as before from (select w.*, f.sort_key, f.total, octet_length(w.destination_config::text) + coalesce(octet_length(to_json(w.dsl_query)::text), 0)
     + coalesce(octet_length(w.query_schema::text), 0)
     + coalesce(octet_length(w.filters::text), 0) as size from (
      select id, sort_key, total from (
        select e.id, e.created_at, e.created_at as sort_key, count(*) over () as total from batch_exports e where e.deleted_at is null and e.team_id = $1) as k
       order by k.sort_key desc nulls last, k.created_at desc, k.id desc limit $2 offset $3
    ) as f join batch_exports w using (id)) as page
    ) as weighed where before < 1048576) e order by e.sort_key desc nulls last, e.created_at desc, e.id desc;

-- exports/export-lists.ts findBatchExports
-- takes $1 uuid, $2 bigint, $3 bigint
-- gives id uuid, teamId integer, name text, destinationType text, destinationConfig jsonb, destinationSecrets bytea, destinationSecretEnds jsonb, interval text, timezone text, offsetDay smallint, offsetHour smallint, model text, dslQuery text, querySchema jsonb, filters jsonb, transformations boolean, paused boolean, lastPausedAt timestamp with time zone, pausedReason text, pausedCode text, startAt timestamp with time zone, endAt timestamp with time zone, deadlineMinutes integer, deadlineAt text, warnMinutes integer, mode text, keepSnapshots integer, newBase integer, healForHours integer, statementShows text, lookBackHours integer, lateSince timestamp with time zone, createdAt timestamp with time zone, lastUpdatedAt timestamp with time zone, schedule jsonb, highWaterMark bigint, failureStreak integer, lastSuccessAt timestamp with time zone, count bigint
select e.id, e.team_id as "teamId", e.name, e.destination_type as "destinationType",
  e.destination_config as "destinationConfig", e.destination_secrets as "destinationSecrets",
  e.destination_secret_ends as "destinationSecretEnds",
  e."interval", e.timezone, e.offset_day as "offsetDay", e.offset_hour as "offsetHour", e.model,
  e.dsl_query as "dslQuery", e.query_schema as "querySchema", e.filters, e.transformations, e.paused,
  e.last_paused_at as "lastPausedAt", e.paused_reason as "pausedReason", e.paused_code as "pausedCode", e.start_at as "startAt",
  e.end_at as "endAt", e.deadline_minutes as "deadlineMinutes", e.deadline_at as "deadlineAt", e.warn_minutes as "warnMinutes", e.mode as "mode", e.keep_snapshots as "keepSnapshots", e.new_base as "newBase", e.heal_for_hours as "healForHours", e.statement_shows as "statementShows", e.look_back_hours as "lookBackHours", e.late_since as "lateSince",
  e.created_at as "createdAt", e.last_updated_at as "lastUpdatedAt",
  e.schedule, floor(extract(epoch from e.high_water_mark) * 1000)::bigint as "highWaterMark",
  e.failure_streak as "failureStreak", e.last_success_at as "lastSuccessAt", e.total as count from (select * from (
      select page.*, sum(page.size) over (order by page.sort_key desc nulls last, page.created_at desc, page.id desc) - page.size as before from (select w.*, f.sort_key, f.total, octet_length(w.destination_config::text) + coalesce(octet_length(to_json(w.dsl_query)::text), 0)
     + coalesce(octet_length(w.query_schema::text), 0)
     + coalesce(octet_length(w.filters::text), 0) as size from (
      select id, sort_key, total from (
        select e.id, e.created_at, e.created_at as sort_key, count(*) over () as total from batch_exports e where e.deleted_at is null and e.team_id in (select id from projects where organization_id = $1)) as k
       order by k.sort_key desc nulls last, k.created_at desc, k.id desc limit $2 offset $3
    ) as f join batch_exports w using (id)) as page
    ) as weighed where before < 1048576) e order by e.sort_key desc nulls last, e.created_at desc, e.id desc;

-- exports/export-lists.ts findBatchExports
-- takes $1 integer, $2 text[], $3 text, $4 bigint, $5 bigint
-- gives id uuid, teamId integer, name text, destinationType text, destinationConfig jsonb, destinationSecrets bytea, destinationSecretEnds jsonb, interval text, timezone text, offsetDay smallint, offsetHour smallint, model text, dslQuery text, querySchema jsonb, filters jsonb, transformations boolean, paused boolean, lastPausedAt timestamp with time zone, pausedReason text, pausedCode text, startAt timestamp with time zone, endAt timestamp with time zone, deadlineMinutes integer, deadlineAt text, warnMinutes integer, mode text, keepSnapshots integer, newBase integer, healForHours integer, statementShows text, lookBackHours integer, lateSince timestamp with time zone, createdAt timestamp with time zone, lastUpdatedAt timestamp with time zone, schedule jsonb, highWaterMark bigint, failureStreak integer, lastSuccessAt timestamp with time zone, count bigint
select e.id, e.team_id as "teamId", e.name, e.destination_type as "destinationType",
  e.destination_config as "destinationConfig", e.destination_secrets as "destinationSecrets",
  e.destination_secret_ends as "destinationSecretEnds",
  e."interval", e.timezone, e.offset_day as "offsetDay", e.offset_hour as "offsetHour", e.model,
  e.dsl_query as "dslQuery", e.query_schema as "querySchema", e.filters, e.transformations, e.paused,
  e.last_paused_at as "lastPausedAt", e.paused_reason as "pausedReason", e.paused_code as "pausedCode", e.start_at as "startAt",
  e.end_at as "endAt", e.deadline_minutes as "deadlineMinutes", e.deadline_at as "deadlineAt", e.warn_minutes as "warnMinutes", e.mode as "mode", e.keep_snapshots as "keepSnapshots", e.new_base as "newBase", e.heal_for_hours as "healForHours", e.statement_shows as "statementShows", e.look_back_hours as "lookBackHours", e.late_since as "lateSince",
  e.created_at as "createdAt", e.last_updated_at as "lastUpdatedAt",
  e.schedule, floor(extract(epoch from e.high_water_mark) * 1000)::bigint as "highWaterMark",
  e.failure_streak as "failureStreak", e.last_success_at as "lastSuccessAt", e.total as count from (select * from (
      select page.*, sum(page.size) over (order by page.sort_key asc nulls last, page.created_at desc, page.id desc) - page.size as before from (select w.*, f.sort_key, f.total, octet_length(w.destination_config::text) + coalesce(octet_length(to_json(w.dsl_query)::text), 0)
     + coalesce(octet_length(w.query_schema::text), 0)
     + coalesce(octet_length(w.filters::text), 0) as size from (
      select id, sort_key, total from (
        select e.id, e.created_at, e.created_at as sort_key, count(*) over () as total from batch_exports e where e.deleted_at is null and e.team_id = $1 and case
  when e.paused and e.paused_reason is null then 'paused'
  when e.failing_since is not null then 'failing'
  when e.paused then 'paused'
  when e.late_since is not null then 'late'
  when exists (select from missing_intervals h where h.export_id = e.id) then 'incomplete'
  else 'fine' end = any ($2) and (e.name ilike '%' || $3 || '%' or e.id::text = lower($3))) as k
       order by k.sort_key asc nulls last, k.created_at desc, k.id desc limit $4 offset $5
    ) as f join batch_exports w using (id)) as page
    ) as weighed where before < 1048576) e order by e.sort_key asc nulls last, e.created_at desc, e.id desc;

-- exports/export-lists.ts findBatchExports
-- takes $1 integer, $2 text[], $3 text, $4 bigint, $5 bigint
-- gives id uuid, teamId integer, name text, destinationType text, destinationConfig jsonb, destinationSecrets bytea, destinationSecretEnds jsonb, interval text, timezone text, offsetDay smallint, offsetHour smallint, model text, dslQuery text, querySchema jsonb, filters jsonb, transformations boolean, paused boolean, lastPausedAt timestamp with time zone, pausedReason text, pausedCode text, startAt timestamp with time zone, endAt timestamp with time zone, deadlineMinutes integer, deadlineAt text, warnMinutes integer, mode text, keepSnapshots integer, newBase integer, healForHours integer, statementShows text, lookBackHours integer, lateSince timestamp with time zone, createdAt timestamp with time zone, lastUpdatedAt timestamp with time zone, schedule jsonb, highWaterMark bigint, failureStreak integer, lastSuccessAt timestamp with time zone, count bigint
select e.id, e.team_id as "teamId", e.name, e.destination_type as "destinationType",
  e.destination_config as "destinationConfig", e.destination_secrets as "destinationSecrets",
  e.destination_secret_ends as "destinationSecretEnds",
  e."interval", e.timezone, e.offset_day as "offsetDay", e.offset_hour as "offsetHour", e.model,
  e.dsl_query as "dslQuery", e.query_schema as "querySchema", e.filters, e.transformations, e.paused,
  e.last_paused_at as "lastPausedAt", e.paused_reason as "pausedReason", e.paused_code as "pausedCode", e.start_at as "startAt",
  e.end_at as "endAt", e.deadline_minutes as "deadlineMinutes", e.deadline_at as "deadlineAt", e.warn_minutes as "warnMinutes", e.mode as "mode", e.keep_snapshots as "keepSnapshots", e.new_base as "newBase", e.heal_for_hours as "healForHours", e.statement_shows as "statementShows", e.look_back_hours as "lookBackHours", e.late_since as "lateSince",
  e.created_at as "createdAt", e.last_updated_at as "lastUpdatedAt",
  e.schedule, floor(extract(epoch from e.high_water_mark) * 1000)::bigint as "highWaterMark",
  e.failure_streak as "failureStreak", e.last_success_at as "lastSuccessAt", e.total as count from (select * from (
      select page.*, sum(page.size) over (order by page.sort_key asc nulls last, page.created_at desc, page.id desc) - page.size as before from (select w.*, f.sort_key, f.total, octet_length(w.destination_config::text) + coalesce(octet_length(to_json(w.dsl_query)::text), 0)
     + coalesce(octet_length(w.query_schema::text), 0)
     + coalesce(octet_length(w.filters::text), 0) as size from (
      select id, sort_key, total from (
        select e.id, e.created_at, lower(e.name) as sort_key, count(*) over () as total from batch_exports e where e.deleted_at is null and e.team_id = $1 and case
  when e.paused and e.paused_reason is null then 'paused'
  when e.failing_since is not null then 'failing'
  when e.paused then 'paused'
  when e.late_since is not null then 'late'
  when exists (select from missing_intervals h where h.export_id = e.id) then 'incomplete'
  else 'fine' end = any ($2) and (e.name ilike '%' || $3 || '%' or e.id::text = lower($3))) as k
       order by k.sort_key asc nulls last, k.created_at desc, k.id desc limit $4 offset $5
    ) as f join batch_exports w using (id)) as page
    ) as weighed where before < 1048576) e order by e.sort_key asc nulls last, e.created_at desc, e.id desc;

-- exports/export-lists.ts findBatchExports
-- takes $1 integer, $2 text[], $3 text, $4 bigint, $5 bigint
-- gives id uuid, teamId integer, name text, destinationType text, destinationConfig jsonb, destinationSecrets bytea, destinationSecretEnds jsonb, interval text, timezone text, offsetDay smallint, offsetHour smallint, model text, dslQuery text, querySchema jsonb, filters jsonb, transformations boolean, paused boolean, lastPausedAt timestamp with time zone, pausedReason text, pausedCode text, startAt timestamp with time zone, endAt timestamp with time zone, deadlineMinutes integer, deadlineAt text, warnMinutes integer, mode text, keepSnapshots integer, newBase integer, healForHours integer, statementShows text, lookBackHours integer, lateSince timestamp with time zone, createdAt timestamp with time zone, lastUpdatedAt timestamp with time zone, schedule jsonb, highWaterMark bigint, failureStreak integer, lastSuccessAt timestamp with time zone, count bigint
select e.id, e.team_id as "teamId", e.name, e.destination_type as "destinationType",
  e.destination_config as "destinationConfig", e.destination_secrets as "destinationSecrets",
  e.destination_secret_ends as "destinationSecretEnds",
  e."interval", e.timezone, e.offset_day as "offsetDay", e.offset_hour as "offsetHour", e.model,
  e.dsl_query as "dslQuery", e.query_schema as "querySchema", e.filters, e.transformations, e.paused,
  e.last_paused_at as "lastPausedAt", e.paused_reason as "pausedReason", e.paused_code as "pausedCode", e.start_at as "startAt",
  e.end_at as "endAt", e.deadline_minutes as "deadlineMinutes", e.deadline_at as "deadlineAt", e.warn_minutes as "warnMinutes", e.mode as "mode", e.keep_snapshots as "keepSnapshots", e.new_base as "newBase", e.heal_for_hours as "healForHours", e.statement_shows as "statementShows", e.look_back_hours as "lookBackHours", e.late_since as "lateSince",
  e.created_at as "createdAt", e.last_updated_at as "lastUpdatedAt",
  e.schedule, floor(extract(epoch from e.high_water_mark) * 1000)::bigint as "highWaterMark",
  e.failure_streak as "failureStreak", e.last_success_at as "lastSuccessAt", e.total as count from (select * from (
      select page.*, sum(page.size) over (order by page.sort_key asc nulls last, page.created_at desc, page.id desc) - page.size as before from (select w.*, f.sort_key, f.total, octet_length(w.destination_config::text) + coalesce(octet_length(to_json(w.dsl_query)::text), 0)
     + coalesce(octet_length(w.query_schema::text), 0)
     + coalesce(octet_length(w.filters::text), 0) as size from (
      select id, sort_key, total from (
        select e.id, e.created_at, array_position(array['failing', 'late', 'incomplete', 'paused', 'fine'], case
  when e.paused and e.paused_reason is null then 'paused'
  when e.failing_since is not null then 'failing'
  when e.paused then 'paused'
  when e.late_since is not null then 'late'
  when exists (select from missing_intervals h where h.export_id = e.id) then 'incomplete'
  else 'fine' end) as sort_key, count(*) over () as total from batch_exports e where e.deleted_at is null and e.team_id = $1 and case
  when e.paused and e.paused_reason is null then 'paused'
  when e.failing_since is not null then 'failing'
  when e.paused then 'paused'
  when e.late_since is not null then 'late'
  when exists (select from missing_intervals h where h.export_id = e.id) then 'incomplete'
  else 'fine' end = any ($2) and (e.name ilike '%' || $3 || '%' or e.id::text = lower($3))) as k
       order by k.sort_key asc nulls last, k.created_at desc, k.id desc limit $4 offset $5
    ) as f join batch_exports w using (id)) as page
    ) as weighed where before < 1048576) e order by e.sort_key asc nulls last, e.created_at desc, e.id desc;

-- exports/export-lists.ts findBatchExports
-- takes $1 integer, $2 text[], $3 text, $4 bigint, $5 bigint
-- gives id uuid, teamId integer, name text, destinationType text, destinationConfig jsonb, destinationSecrets bytea, destinationSecretEnds jsonb, interval text, timezone text, offsetDay smallint, offsetHour smallint, model text, dslQuery text, querySchema jsonb, filters jsonb, transformations boolean, paused boolean, lastPausedAt timestamp with time zone, pausedReason text, pausedCode text, startAt timestamp with time zone, endAt timestamp with time zone, deadlineMinutes integer, deadlineAt text, warnMinutes integer, mode text, keepSnapshots integer, newBase integer, healForHours integer, statementShows text, lookBackHours integer, lateSince timestamp with time zone, createdAt timestamp with time zone, lastUpdatedAt timestamp with time zone, schedule jsonb, highWaterMark bigint, failureStreak integer, lastSuccessAt timestamp with time zone, count bigint
select e.id, e.team_id as "teamId", e.name, e.destination_type as "destinationType",
  e.destination_config as "destinationConfig", e.destination_secrets as "destinationSecrets",
  e.destination_secret_ends as "destinationSecretEnds",
  e."interval", e.timezone, e.offset_day as "offsetDay", e.offset_hour as "offsetHour", e.model,
  e.dsl_query as "dslQuery", e.query_schema as "querySchema", e.filters, e.transformations, e.paused,
  e.last_paused_at as "lastPausedAt", e.paused_reason as "pausedReason", e.paused_code as "pausedCode", e.start_at as "startAt",
  e.end_at as "endAt", e.deadline_minutes as "deadlineMinutes", e.deadline_at as "deadlineAt", e.warn_minutes as "warnMinutes", e.mode as "mode", e.keep_snapshots as "keepSnapshots", e.new_base as "newBase", e.heal_for_hours as "healForHours", e.statement_shows as "statementShows", e.look_back_hours as "lookBackHours", e.late_since as "lateSince",
  e.created_at as "createdAt", e.last_updated_at as "lastUpdatedAt",
  e.schedule, floor(extract(epoch from e.high_water_mark) * 1000)::bigint as "highWaterMark",
  e.failure_streak as "failureStreak", e.last_success_at as "lastSuccessAt", e.total as count from (select * from (
      select page.*, sum(page.size) over (order by page.sort_key asc nulls last, page.created_at desc, page.id desc) - page.size as before from (select w.*, f.sort_key, f.total, octet_length(w.destination_config::text) + coalesce(octet_length(to_json(w.dsl_query)::text), 0)
     + coalesce(octet_length(w.query_schema::text), 0)
     + coalesce(octet_length(w.filters::text), 0) as size from (
      select id, sort_key, total from (
        select e.id, e.created_at, (select max(r.created_at) from runs r where r.export_id = e.id) as sort_key, count(*) over () as total from batch_exports e where e.deleted_at is null and e.team_id = $1 and case
  when e.paused and e.paused_reason is null then 'paused'
  when e.failing_since is not null then 'failing'
  when e.paused then 'paused'
  when e.late_since is not null then 'late'
  when exists (select from missing_intervals h where h.export_id = e.id) then 'incomplete'
  else 'fine' end = any ($2) and (e.name ilike '%' || $3 || '%' or e.id::text = lower($3))) as k
       order by k.sort_key asc nulls last, k.created_at desc, k.id desc limit $4 offset $5
    ) as f join batch_exports w using (id)) as page
    ) as weighed where before < 1048576) e order by e.sort_key asc nulls last, e.created_at desc, e.id desc;

-- exports/export-lists.ts findBatchExports
-- takes $1 integer, $2 text[], $3 text
-- gives count bigint
select count(*) from batch_exports e where e.deleted_at is null and e.team_id = $1 and case
  when e.paused and e.paused_reason is null then 'paused'
  when e.failing_since is not null then 'failing'
  when e.paused then 'paused'
  when e.late_since is not null then 'late'
  when exists (select from missing_intervals h where h.export_id = e.id) then 'incomplete'
  else 'fine' end = any ($2) and (e.name ilike '%' || $3 || '%' or e.id::text = lower($3));

-- exports/export-lists.ts countExportHealths
-- takes $1 integer
-- gives failing integer, late integer, incomplete integer, paused integer, fine integer
select count(*) filter (where k.health = 'failing')::int as failing, count(*) filter (where k.health = 'late')::int as late, count(*) filter (where k.health = 'incomplete')::int as incomplete, count(*) filter (where k.health = 'paused')::int as paused, count(*) filter (where k.health = 'fine')::int as fine from (
        select case
  when e.paused and e.paused_reason is null then 'paused'
  when e.failing_since is not null then 'failing'
  when e.paused then 'paused'
  when e.late_since is not null then 'late'
  when exists (select from missing_intervals h where h.export_id = e.id) then 'incomplete'
  else 'fine' end as health from batch_exports e where e.deleted_at is null and e.team_id = $1 offset 0) as k;

-- exports/export-lists.ts countExportHealths
-- takes $1 uuid
-- gives failing integer, late integer, incomplete integer, paused integer, fine integer
select count(*) filter (where k.health = 'failing')::int as failing, count(*) filter (where k.health = 'late')::int as late, count(*) filter (where k.health = 'incomplete')::int as incomplete, count(*) filter (where k.health = 'paused')::int as paused, count(*) filter (where k.health = 'fine')::int as fine from (
        select case
  when e.paused and e.paused_reason is null then 'paused'
  when e.failing_since is not null then 'failing'
  when e.paused then 'paused'
  when e.late_since is not null then 'late'
  when exists (select from missing_intervals h where h.export_id = e.id) then 'incomplete'
  else 'fine' end as health from batch_exports e where e.deleted_at is null and e.team_id in (select id from projects where organization_id = $1) offset 0) as k;

-- exports/export-lists.ts details, findExportDetails
-- takes $1 text
-- gives exportId uuid, teamId integer, holes bigint, health text, healing jsonb, holesSince bigint, unsettledFrom bigint, failure text, lateRowsAdded jsonb, id uuid, backfillId uuid, purpose text, status text, startsAt timestamp with time zone, endsAt timestamp with time zone, attempt integer, faults integer, nextAttemptAt timestamp with time zone, waitsFor jsonb, step jsonb, recordsTotalCount bigint, recordsCompleted bigint, recordsDropped bigint, recordsRejected bigint, bytesExported bigint, files integer, settled boolean, steps jsonb, cursor jsonb, latestError text, superseded boolean, element jsonb, createdAt timestamp with time zone, startedAt timestamp with time zone, finishedAt timestamp with time zone, lastUpdatedAt timestamp with time zone
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
          where h.export_id = e.id and h.heals_since is not null order by h.data_interval_start limit 1000) x) as healing, floor(extract(epoch from h.since) * 1000)::bigint as "holesSince", floor(extract(epoch from u.start) * 1000)::bigint as "unsettledFrom", failed.latest_error as failure, added.late as "lateRowsAdded", newest.*
  from batch_exports e
     cross join lateral (select count(*) as count, min(data_interval_start) as since from (
       select h.data_interval_start from missing_intervals h
        where h.export_id = e.id order by h.data_interval_start limit 1000) as counted) as h
     left join lateral (
       select c.data_interval_start as start from receipts c
        where c.export_id = e.id and not c.settled and not exists (select from accepted_intervals x where x.export_id = c.export_id
     and x.data_interval_start = c.data_interval_start and x.data_interval_end = c.data_interval_end and true)
        order by c.data_interval_start limit 1) as u on true
  left join lateral (select f.latest_error from ((select r.created_at, r.latest_error from runs r
       where e.failing_since is not null and r.export_id = e.id and r.status = 'Failed' order by r.created_at desc, r.id desc limit 1) union all (select r.created_at, r.latest_error from runs r
       where e.failing_since is not null and r.export_id = e.id and r.status = 'FailedRetryable' order by r.created_at desc, r.id desc limit 1)) as f
                      order by f.created_at desc limit 1) as failed on true
  left join lateral (select jsonb_build_object('rows', r.records_completed, 'at', api_time(r.finished_at),
                            'start', api_time(r.data_interval_start), 'end', api_time(r.data_interval_end)) as late
                       from runs r where r.export_id = e.id and r.purpose = 'supplement' and r.status = 'Completed'
                        and r.records_completed > 0 order by r.finished_at desc limit 1) as added on true
  left join lateral (select r.id, r.backfill_id as "backfillId", r.purpose, r.status,
  r.data_interval_start as "startsAt", r.data_interval_end as "endsAt", r.attempt, r.faults,
  case when r.status in ('Starting', 'Running') then (select o.available_at from outbox o where o.run_id = r.id) end as "nextAttemptAt",
  case when r.status in ('Starting', 'Running') then (select o.waits_for -> 'blockers' from outbox o where o.run_id = r.id) end as "waitsFor",
  case when r.status = 'Running' and r.step is not null and r.lease_expires_at > now() then jsonb_build_object(
    'name', r.step, 'since', api_time(r.step_since), 'seconds', extract(epoch from now() - r.step_since), 'usual', (
      select percentile_cont(0.5) within group (order by extract(epoch from u.finished_at - u.started_at)::float8)
        from (select o.finished_at, o.started_at from runs o where o.export_id = r.export_id and o.status = 'Completed'
               order by o.created_at desc limit 20) u)) end as step, r.records_total_count as "recordsTotalCount", r.records_completed as "recordsCompleted", r.records_dropped as "recordsDropped", r.records_rejected as "recordsRejected",
  r.bytes_exported as "bytesExported", r.files, r.settled, r.steps, r.cursor, r.latest_error as "latestError", r.status in ('Failed', 'FailedRetryable', 'Cancelled') and exists (select from receipts c where c.export_id = r.export_id and c.data_interval_start = r.data_interval_start
      and c.data_interval_end = r.data_interval_end
    and c.committed_at > r.finished_at) as superseded,
  case when r.status = 'Completed' then (select c.element from receipts c where c.export_id = r.export_id and c.data_interval_start = r.data_interval_start
      and c.data_interval_end = r.data_interval_end and c.run_id = r.id) end as element,
  r.created_at as "createdAt", r.started_at as "startedAt", r.finished_at as "finishedAt", r.last_updated_at as "lastUpdatedAt" from runs r where r.export_id = e.id
                      order by r.created_at desc, r.id desc limit 10) as newest on true
 where e.id = any ((select $1)::uuid[]);

-- exports/export-states.ts checkSql, checkLateness
-- gives ?column? integer
with changed as (
       select e.id from batch_exports e
        where e.deleted_at is null and (e.late_since is null) <> (case when not (e.paused and e.paused_reason is null) then least(
  case when coalesce(e.high_water_mark, greatest(e.created_at, e.start_at)) + case when e.deadline_minutes is null and e.deadline_at is null then 2 * (case e."interval" when 'hour' then interval '1 hour' when 'day' then interval '25 hours'
  when 'week' then interval '169 hours' else split_part(e."interval", ' ', 2)::int * interval '1 minute' end) + interval '6 minutes' end < least(clock_timestamp(), e.end_at) then coalesce(e.high_water_mark, greatest(e.created_at, e.start_at)) + case when e.deadline_minutes is null and e.deadline_at is null then 2 * (case e."interval" when 'hour' then interval '1 hour' when 'day' then interval '25 hours'
  when 'week' then interval '169 hours' else split_part(e."interval", ' ', 2)::int * interval '1 minute' end) + interval '6 minutes' end end, (select min(l.due_by) from late_intervals l
  where l.export_id = e.id and l.delivered_at is null and l.missed_at is not null)) end is null)
        order by e.id limit 500 for no key update skip locked
     )
     update batch_exports e set late_since = case when not (e.paused and e.paused_reason is null) then least(
  case when coalesce(e.high_water_mark, greatest(e.created_at, e.start_at)) + case when e.deadline_minutes is null and e.deadline_at is null then 2 * (case e."interval" when 'hour' then interval '1 hour' when 'day' then interval '25 hours'
  when 'week' then interval '169 hours' else split_part(e."interval", ' ', 2)::int * interval '1 minute' end) + interval '6 minutes' end < least(clock_timestamp(), e.end_at) then coalesce(e.high_water_mark, greatest(e.created_at, e.start_at)) + case when e.deadline_minutes is null and e.deadline_at is null then 2 * (case e."interval" when 'hour' then interval '1 hour' when 'day' then interval '25 hours'
  when 'week' then interval '169 hours' else split_part(e."interval", ' ', 2)::int * interval '1 minute' end) + interval '6 minutes' end end, (select min(l.due_by) from late_intervals l
  where l.export_id = e.id and l.delivered_at is null and l.missed_at is not null)) end
       from changed where e.id = changed.id returning 1;

-- exports/export-states.ts checkCompleteness
-- gives ?column? integer
with candidates as (
       select distinct export_id as id from holes where noted_at < now() - interval '1 hour'
       union select id from batch_exports where incomplete_since is not null
     ), changed as (
       select e.id from batch_exports e
        where e.id in (select id from candidates) and e.deleted_at is null and (e.incomplete_since is not null) <> (e.failing_since is null and not (e.paused and e.paused_reason is null) and exists (
    select from missing_intervals h where h.export_id = e.id and h.noted_at < now() - interval '1 hour'))
        order by e.id limit 500 for no key update of e skip locked
     )
     update batch_exports e set incomplete_since = case when (e.failing_since is null and not (e.paused and e.paused_reason is null) and exists (
    select from missing_intervals h where h.export_id = e.id and h.noted_at < now() - interval '1 hour')) then
              (select min(h.noted_at) from missing_intervals h where h.export_id = e.id) end
       from changed where e.id = changed.id returning 1;

-- exports/exports.ts updating, updateBatchExport
-- takes $1 uuid, $2 text, $3 jsonb, $4 bytea, $5 jsonb, $6 text, $7 text, $8 smallint, $9 smallint, $10 text, $11 jsonb, $12 jsonb, $13 boolean, $14 boolean, $15 timestamp with time zone, $16 text, $17 text, $18 timestamp with time zone, $19 timestamp with time zone, $20 jsonb, $21 timestamp with time zone, $22 integer, $23 text, $24 integer, $25 text, $26 integer, $27 integer, $28 integer, $29 text, $30 integer, $31 uuid, $32 integer, $33 text, $34 text, $35 text, $36 uuid, $37 jsonb
-- gives id uuid, teamId integer, name text, destinationType text, destinationConfig jsonb, destinationSecrets bytea, destinationSecretEnds jsonb, interval text, timezone text, offsetDay smallint, offsetHour smallint, model text, dslQuery text, querySchema jsonb, filters jsonb, transformations boolean, paused boolean, lastPausedAt timestamp with time zone, pausedReason text, pausedCode text, startAt timestamp with time zone, endAt timestamp with time zone, deadlineMinutes integer, deadlineAt text, warnMinutes integer, mode text, keepSnapshots integer, newBase integer, healForHours integer, statementShows text, lookBackHours integer, lateSince timestamp with time zone, createdAt timestamp with time zone, lastUpdatedAt timestamp with time zone, schedule jsonb, highWaterMark bigint, failureStreak integer, lastSuccessAt timestamp with time zone
with changed as (
     update batch_exports e
        set ("name", "destination_config", "destination_secrets", "destination_secret_ends", "interval", "timezone", "offset_day", "offset_hour", "dsl_query", "query_schema", "filters", "transformations", "paused", "last_paused_at", "paused_reason", "paused_code", "start_at", "end_at", "schedule", "next_tick_at", "deadline_minutes", "deadline_at", "warn_minutes", "mode", "keep_snapshots", "new_base", "heal_for_hours", "statement_shows", "look_back_hours", last_updated_at) = ($2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, clock_timestamp()),
            -- An unpause follows a fix: the failures before it do not pause the export again.
            failure_streak = case when e.paused and not $14::boolean
                                  then 0 else failure_streak end
      where e.id = $1 returning e.id, e.team_id as "teamId", e.name, e.destination_type as "destinationType",
  e.destination_config as "destinationConfig", e.destination_secrets as "destinationSecrets",
  e.destination_secret_ends as "destinationSecretEnds",
  e."interval", e.timezone, e.offset_day as "offsetDay", e.offset_hour as "offsetHour", e.model,
  e.dsl_query as "dslQuery", e.query_schema as "querySchema", e.filters, e.transformations, e.paused,
  e.last_paused_at as "lastPausedAt", e.paused_reason as "pausedReason", e.paused_code as "pausedCode", e.start_at as "startAt",
  e.end_at as "endAt", e.deadline_minutes as "deadlineMinutes", e.deadline_at as "deadlineAt", e.warn_minutes as "warnMinutes", e.mode as "mode", e.keep_snapshots as "keepSnapshots", e.new_base as "newBase", e.heal_for_hours as "healForHours", e.statement_shows as "statementShows", e.look_back_hours as "lookBackHours", e.late_since as "lateSince",
  e.created_at as "createdAt", e.last_updated_at as "lastUpdatedAt",
  e.schedule, floor(extract(epoch from e.high_water_mark) * 1000)::bigint as "highWaterMark",
  e.failure_streak as "failureStreak", e.last_success_at as "lastSuccessAt"
   ), noted as (insert into activity (organization_id, team_id, subject_type, subject_id, action, key_id, changes)
   select $31, $32, $33, $34, $35, $36, $37 from changed)
   select * from changed;

-- exports/exports.ts creationFrom, createBatchExport
-- takes $1 uuid, $2 integer, $3 text, $4 text, $5 text, $6 jsonb, $7 bytea, $8 jsonb, $9 text, $10 text, $11 smallint, $12 smallint, $13 text, $14 jsonb, $15 jsonb, $16 boolean, $17 boolean, $18 timestamp with time zone, $19 text, $20 text, $21 timestamp with time zone, $22 timestamp with time zone, $23 jsonb, $24 timestamp with time zone, $25 integer, $26 text, $27 integer, $28 text, $29 integer, $30 integer, $31 integer, $32 text, $33 integer, $34 integer, $35 uuid, $36 integer, $37 text, $38 text, $39 text, $40 uuid, $41 jsonb
-- gives id uuid, teamId integer, name text, destinationType text, destinationConfig jsonb, destinationSecrets bytea, destinationSecretEnds jsonb, interval text, timezone text, offsetDay smallint, offsetHour smallint, model text, dslQuery text, querySchema jsonb, filters jsonb, transformations boolean, paused boolean, lastPausedAt timestamp with time zone, pausedReason text, pausedCode text, startAt timestamp with time zone, endAt timestamp with time zone, deadlineMinutes integer, deadlineAt text, warnMinutes integer, mode text, keepSnapshots integer, newBase integer, healForHours integer, statementShows text, lookBackHours integer, lateSince timestamp with time zone, createdAt timestamp with time zone, lastUpdatedAt timestamp with time zone, schedule jsonb, highWaterMark bigint, failureStreak integer, lastSuccessAt timestamp with time zone
with  created as (
    insert into batch_exports as e (id, team_id, model, destination_type, "name", "destination_config", "destination_secrets", "destination_secret_ends", "interval", "timezone", "offset_day", "offset_hour", "dsl_query", "query_schema", "filters", "transformations", "paused", "last_paused_at", "paused_reason", "paused_code", "start_at", "end_at", "schedule", "next_tick_at", "deadline_minutes", "deadline_at", "warn_minutes", "mode", "keep_snapshots", "new_base", "heal_for_hours", "statement_shows", "look_back_hours")
    select $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32, $33 where (select count(*) from batch_exports where team_id = $2 and deleted_at is null) < $34::int
    returning e.id, e.team_id as "teamId", e.name, e.destination_type as "destinationType",
  e.destination_config as "destinationConfig", e.destination_secrets as "destinationSecrets",
  e.destination_secret_ends as "destinationSecretEnds",
  e."interval", e.timezone, e.offset_day as "offsetDay", e.offset_hour as "offsetHour", e.model,
  e.dsl_query as "dslQuery", e.query_schema as "querySchema", e.filters, e.transformations, e.paused,
  e.last_paused_at as "lastPausedAt", e.paused_reason as "pausedReason", e.paused_code as "pausedCode", e.start_at as "startAt",
  e.end_at as "endAt", e.deadline_minutes as "deadlineMinutes", e.deadline_at as "deadlineAt", e.warn_minutes as "warnMinutes", e.mode as "mode", e.keep_snapshots as "keepSnapshots", e.new_base as "newBase", e.heal_for_hours as "healForHours", e.statement_shows as "statementShows", e.look_back_hours as "lookBackHours", e.late_since as "lateSince",
  e.created_at as "createdAt", e.last_updated_at as "lastUpdatedAt",
  e.schedule, floor(extract(epoch from e.high_water_mark) * 1000)::bigint as "highWaterMark",
  e.failure_streak as "failureStreak", e.last_success_at as "lastSuccessAt"
  ), noted as (insert into activity (organization_id, team_id, subject_type, subject_id, action, key_id, changes)
   select $35, $36, $37, $38, $39, $40, $41 from created)
  select * from created;

-- exports/exports.ts creationFrom, createBatchExport
-- takes $1 uuid, $2 integer, $3 text, $4 text, $5 text, $6 jsonb, $7 bytea, $8 jsonb, $9 text, $10 text, $11 smallint, $12 smallint, $13 text, $14 jsonb, $15 jsonb, $16 boolean, $17 boolean, $18 timestamp with time zone, $19 text, $20 text, $21 timestamp with time zone, $22 timestamp with time zone, $23 jsonb, $24 timestamp with time zone, $25 integer, $26 text, $27 integer, $28 text, $29 integer, $30 integer, $31 integer, $32 text, $33 integer, $34 integer, $35 uuid, $36 integer, $37 text, $38 text, $39 text, $40 uuid, $41 jsonb
-- gives id uuid, teamId integer, name text, destinationType text, destinationConfig jsonb, destinationSecrets bytea, destinationSecretEnds jsonb, interval text, timezone text, offsetDay smallint, offsetHour smallint, model text, dslQuery text, querySchema jsonb, filters jsonb, transformations boolean, paused boolean, lastPausedAt timestamp with time zone, pausedReason text, pausedCode text, startAt timestamp with time zone, endAt timestamp with time zone, deadlineMinutes integer, deadlineAt text, warnMinutes integer, mode text, keepSnapshots integer, newBase integer, healForHours integer, statementShows text, lookBackHours integer, lateSince timestamp with time zone, createdAt timestamp with time zone, lastUpdatedAt timestamp with time zone, schedule jsonb, highWaterMark bigint, failureStreak integer, lastSuccessAt timestamp with time zone
with locked as materialized (
    select pg_advisory_xact_lock_shared(1937011305, $2)
     where (select count(*) from batch_exports where team_id = $2 and deleted_at is null) < $34::int - 3 * current_setting('max_connections')::int
  ), created as (
    insert into batch_exports as e (id, team_id, model, destination_type, "name", "destination_config", "destination_secrets", "destination_secret_ends", "interval", "timezone", "offset_day", "offset_hour", "dsl_query", "query_schema", "filters", "transformations", "paused", "last_paused_at", "paused_reason", "paused_code", "start_at", "end_at", "schedule", "next_tick_at", "deadline_minutes", "deadline_at", "warn_minutes", "mode", "keep_snapshots", "new_base", "heal_for_hours", "statement_shows", "look_back_hours")
    select $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32, $33 from locked
    returning e.id, e.team_id as "teamId", e.name, e.destination_type as "destinationType",
  e.destination_config as "destinationConfig", e.destination_secrets as "destinationSecrets",
  e.destination_secret_ends as "destinationSecretEnds",
  e."interval", e.timezone, e.offset_day as "offsetDay", e.offset_hour as "offsetHour", e.model,
  e.dsl_query as "dslQuery", e.query_schema as "querySchema", e.filters, e.transformations, e.paused,
  e.last_paused_at as "lastPausedAt", e.paused_reason as "pausedReason", e.paused_code as "pausedCode", e.start_at as "startAt",
  e.end_at as "endAt", e.deadline_minutes as "deadlineMinutes", e.deadline_at as "deadlineAt", e.warn_minutes as "warnMinutes", e.mode as "mode", e.keep_snapshots as "keepSnapshots", e.new_base as "newBase", e.heal_for_hours as "healForHours", e.statement_shows as "statementShows", e.look_back_hours as "lookBackHours", e.late_since as "lateSince",
  e.created_at as "createdAt", e.last_updated_at as "lastUpdatedAt",
  e.schedule, floor(extract(epoch from e.high_water_mark) * 1000)::bigint as "highWaterMark",
  e.failure_streak as "failureStreak", e.last_success_at as "lastSuccessAt"
  ), noted as (insert into activity (organization_id, team_id, subject_type, subject_id, action, key_id, changes)
   select $35, $36, $37, $38, $39, $40, $41 from created)
  select * from created;

-- exports/exports.ts holdCreations
-- takes $1 integer, $2 integer
-- gives pg_advisory_xact_lock void
select pg_advisory_xact_lock($1, $2);

-- exports/exports.ts findExportNamed
-- takes $1 integer, $2 text
-- gives id uuid
select id from batch_exports where team_id = $1 and name = $2 and deleted_at is null
       order by created_at, id limit 1;

-- exports/exports.ts findBatchExport
-- takes $1 uuid, $2 integer
-- gives id uuid, teamId integer, name text, destinationType text, destinationConfig jsonb, destinationSecrets bytea, destinationSecretEnds jsonb, interval text, timezone text, offsetDay smallint, offsetHour smallint, model text, dslQuery text, querySchema jsonb, filters jsonb, transformations boolean, paused boolean, lastPausedAt timestamp with time zone, pausedReason text, pausedCode text, startAt timestamp with time zone, endAt timestamp with time zone, deadlineMinutes integer, deadlineAt text, warnMinutes integer, mode text, keepSnapshots integer, newBase integer, healForHours integer, statementShows text, lookBackHours integer, lateSince timestamp with time zone, createdAt timestamp with time zone, lastUpdatedAt timestamp with time zone, schedule jsonb, highWaterMark bigint, failureStreak integer, lastSuccessAt timestamp with time zone
select e.id, e.team_id as "teamId", e.name, e.destination_type as "destinationType",
  e.destination_config as "destinationConfig", e.destination_secrets as "destinationSecrets",
  e.destination_secret_ends as "destinationSecretEnds",
  e."interval", e.timezone, e.offset_day as "offsetDay", e.offset_hour as "offsetHour", e.model,
  e.dsl_query as "dslQuery", e.query_schema as "querySchema", e.filters, e.transformations, e.paused,
  e.last_paused_at as "lastPausedAt", e.paused_reason as "pausedReason", e.paused_code as "pausedCode", e.start_at as "startAt",
  e.end_at as "endAt", e.deadline_minutes as "deadlineMinutes", e.deadline_at as "deadlineAt", e.warn_minutes as "warnMinutes", e.mode as "mode", e.keep_snapshots as "keepSnapshots", e.new_base as "newBase", e.heal_for_hours as "healForHours", e.statement_shows as "statementShows", e.look_back_hours as "lookBackHours", e.late_since as "lateSince",
  e.created_at as "createdAt", e.last_updated_at as "lastUpdatedAt",
  e.schedule, floor(extract(epoch from e.high_water_mark) * 1000)::bigint as "highWaterMark",
  e.failure_streak as "failureStreak", e.last_success_at as "lastSuccessAt" from batch_exports e
    where e.id = $1 and e.deleted_at is null and e.team_id = $2;

-- exports/exports.ts findBatchExport
-- takes $1 uuid, $2 uuid
-- gives id uuid, teamId integer, name text, destinationType text, destinationConfig jsonb, destinationSecrets bytea, destinationSecretEnds jsonb, interval text, timezone text, offsetDay smallint, offsetHour smallint, model text, dslQuery text, querySchema jsonb, filters jsonb, transformations boolean, paused boolean, lastPausedAt timestamp with time zone, pausedReason text, pausedCode text, startAt timestamp with time zone, endAt timestamp with time zone, deadlineMinutes integer, deadlineAt text, warnMinutes integer, mode text, keepSnapshots integer, newBase integer, healForHours integer, statementShows text, lookBackHours integer, lateSince timestamp with time zone, createdAt timestamp with time zone, lastUpdatedAt timestamp with time zone, schedule jsonb, highWaterMark bigint, failureStreak integer, lastSuccessAt timestamp with time zone
select e.id, e.team_id as "teamId", e.name, e.destination_type as "destinationType",
  e.destination_config as "destinationConfig", e.destination_secrets as "destinationSecrets",
  e.destination_secret_ends as "destinationSecretEnds",
  e."interval", e.timezone, e.offset_day as "offsetDay", e.offset_hour as "offsetHour", e.model,
  e.dsl_query as "dslQuery", e.query_schema as "querySchema", e.filters, e.transformations, e.paused,
  e.last_paused_at as "lastPausedAt", e.paused_reason as "pausedReason", e.paused_code as "pausedCode", e.start_at as "startAt",
  e.end_at as "endAt", e.deadline_minutes as "deadlineMinutes", e.deadline_at as "deadlineAt", e.warn_minutes as "warnMinutes", e.mode as "mode", e.keep_snapshots as "keepSnapshots", e.new_base as "newBase", e.heal_for_hours as "healForHours", e.statement_shows as "statementShows", e.look_back_hours as "lookBackHours", e.late_since as "lateSince",
  e.created_at as "createdAt", e.last_updated_at as "lastUpdatedAt",
  e.schedule, floor(extract(epoch from e.high_water_mark) * 1000)::bigint as "highWaterMark",
  e.failure_streak as "failureStreak", e.last_success_at as "lastSuccessAt" from batch_exports e
    where e.id = $1 and e.deleted_at is null and e.team_id in (select id from projects where organization_id = $2);

-- exports/exports.ts hasRuns
-- takes $1 uuid
-- gives has boolean
select exists (select from runs where export_id = $1) or exists (select from receipts where export_id = $1)
         or exists (select from backfills where export_id = $1 and status = 'Running') as has;

-- exports/exports.ts isModelExported
-- takes $1 text
-- gives is boolean
select exists (select from batch_exports where model = $1 and deleted_at is null) as is;

-- exports/exports.ts locking, lockExport
-- takes $1 uuid
-- gives id uuid, teamId integer, name text, destinationType text, destinationConfig jsonb, destinationSecrets bytea, destinationSecretEnds jsonb, interval text, timezone text, offsetDay smallint, offsetHour smallint, model text, dslQuery text, querySchema jsonb, filters jsonb, transformations boolean, paused boolean, lastPausedAt timestamp with time zone, pausedReason text, pausedCode text, startAt timestamp with time zone, endAt timestamp with time zone, deadlineMinutes integer, deadlineAt text, warnMinutes integer, mode text, keepSnapshots integer, newBase integer, healForHours integer, statementShows text, lookBackHours integer, lateSince timestamp with time zone, createdAt timestamp with time zone, lastUpdatedAt timestamp with time zone, schedule jsonb, highWaterMark bigint, failureStreak integer, lastSuccessAt timestamp with time zone
select e.id, e.team_id as "teamId", e.name, e.destination_type as "destinationType",
  e.destination_config as "destinationConfig", e.destination_secrets as "destinationSecrets",
  e.destination_secret_ends as "destinationSecretEnds",
  e."interval", e.timezone, e.offset_day as "offsetDay", e.offset_hour as "offsetHour", e.model,
  e.dsl_query as "dslQuery", e.query_schema as "querySchema", e.filters, e.transformations, e.paused,
  e.last_paused_at as "lastPausedAt", e.paused_reason as "pausedReason", e.paused_code as "pausedCode", e.start_at as "startAt",
  e.end_at as "endAt", e.deadline_minutes as "deadlineMinutes", e.deadline_at as "deadlineAt", e.warn_minutes as "warnMinutes", e.mode as "mode", e.keep_snapshots as "keepSnapshots", e.new_base as "newBase", e.heal_for_hours as "healForHours", e.statement_shows as "statementShows", e.look_back_hours as "lookBackHours", e.late_since as "lateSince",
  e.created_at as "createdAt", e.last_updated_at as "lastUpdatedAt",
  e.schedule, floor(extract(epoch from e.high_water_mark) * 1000)::bigint as "highWaterMark",
  e.failure_streak as "failureStreak", e.last_success_at as "lastSuccessAt" from batch_exports e where e.id = $1 for no key update;

-- exports/exports.ts lockingLive, lockExport
-- takes $1 uuid
-- gives id uuid, teamId integer, name text, destinationType text, destinationConfig jsonb, destinationSecrets bytea, destinationSecretEnds jsonb, interval text, timezone text, offsetDay smallint, offsetHour smallint, model text, dslQuery text, querySchema jsonb, filters jsonb, transformations boolean, paused boolean, lastPausedAt timestamp with time zone, pausedReason text, pausedCode text, startAt timestamp with time zone, endAt timestamp with time zone, deadlineMinutes integer, deadlineAt text, warnMinutes integer, mode text, keepSnapshots integer, newBase integer, healForHours integer, statementShows text, lookBackHours integer, lateSince timestamp with time zone, createdAt timestamp with time zone, lastUpdatedAt timestamp with time zone, schedule jsonb, highWaterMark bigint, failureStreak integer, lastSuccessAt timestamp with time zone
select e.id, e.team_id as "teamId", e.name, e.destination_type as "destinationType",
  e.destination_config as "destinationConfig", e.destination_secrets as "destinationSecrets",
  e.destination_secret_ends as "destinationSecretEnds",
  e."interval", e.timezone, e.offset_day as "offsetDay", e.offset_hour as "offsetHour", e.model,
  e.dsl_query as "dslQuery", e.query_schema as "querySchema", e.filters, e.transformations, e.paused,
  e.last_paused_at as "lastPausedAt", e.paused_reason as "pausedReason", e.paused_code as "pausedCode", e.start_at as "startAt",
  e.end_at as "endAt", e.deadline_minutes as "deadlineMinutes", e.deadline_at as "deadlineAt", e.warn_minutes as "warnMinutes", e.mode as "mode", e.keep_snapshots as "keepSnapshots", e.new_base as "newBase", e.heal_for_hours as "healForHours", e.statement_shows as "statementShows", e.look_back_hours as "lookBackHours", e.late_since as "lateSince",
  e.created_at as "createdAt", e.last_updated_at as "lastUpdatedAt",
  e.schedule, floor(extract(epoch from e.high_water_mark) * 1000)::bigint as "highWaterMark",
  e.failure_streak as "failureStreak", e.last_success_at as "lastSuccessAt" from batch_exports e where e.id = $1 and e.deleted_at is null for no key update;

-- exports/exports.ts lockingNow, lockExportNow
-- takes $1 uuid
-- gives id uuid, teamId integer, name text, destinationType text, destinationConfig jsonb, destinationSecrets bytea, destinationSecretEnds jsonb, interval text, timezone text, offsetDay smallint, offsetHour smallint, model text, dslQuery text, querySchema jsonb, filters jsonb, transformations boolean, paused boolean, lastPausedAt timestamp with time zone, pausedReason text, pausedCode text, startAt timestamp with time zone, endAt timestamp with time zone, deadlineMinutes integer, deadlineAt text, warnMinutes integer, mode text, keepSnapshots integer, newBase integer, healForHours integer, statementShows text, lookBackHours integer, lateSince timestamp with time zone, createdAt timestamp with time zone, lastUpdatedAt timestamp with time zone, schedule jsonb, highWaterMark bigint, failureStreak integer, lastSuccessAt timestamp with time zone, now bigint
select e.id, e.team_id as "teamId", e.name, e.destination_type as "destinationType",
  e.destination_config as "destinationConfig", e.destination_secrets as "destinationSecrets",
  e.destination_secret_ends as "destinationSecretEnds",
  e."interval", e.timezone, e.offset_day as "offsetDay", e.offset_hour as "offsetHour", e.model,
  e.dsl_query as "dslQuery", e.query_schema as "querySchema", e.filters, e.transformations, e.paused,
  e.last_paused_at as "lastPausedAt", e.paused_reason as "pausedReason", e.paused_code as "pausedCode", e.start_at as "startAt",
  e.end_at as "endAt", e.deadline_minutes as "deadlineMinutes", e.deadline_at as "deadlineAt", e.warn_minutes as "warnMinutes", e.mode as "mode", e.keep_snapshots as "keepSnapshots", e.new_base as "newBase", e.heal_for_hours as "healForHours", e.statement_shows as "statementShows", e.look_back_hours as "lookBackHours", e.late_since as "lateSince",
  e.created_at as "createdAt", e.last_updated_at as "lastUpdatedAt",
  e.schedule, floor(extract(epoch from e.high_water_mark) * 1000)::bigint as "highWaterMark",
  e.failure_streak as "failureStreak", e.last_success_at as "lastSuccessAt", floor(extract(epoch from clock_timestamp()) * 1000)::bigint as now from batch_exports e
  where e.id = $1 and e.deleted_at is null for no key update;

-- exports/exports.ts markBatchExportDeleted
-- takes $1 uuid
-- gives id uuid

     update batch_exports set deleted_at = clock_timestamp(), last_updated_at = clock_timestamp()
      where id = $1 and deleted_at is null returning id;

-- exports/exports.ts recordFailure
-- takes $1 uuid, $2 integer, $3 text, $4 text
-- gives streak integer, paused boolean
with old as (
       select id, case when paused then $2 = 1 and paused_reason is not null and is_decided_by_people($4) and not is_decided_by_people(paused_code)
                       else failure_streak + 1 >= $2 end as pauses
         from batch_exports where id = $1 for no key update)
     update batch_exports e
        set failure_streak = failure_streak + 1,
            paused = e.paused or old.pauses,
            last_paused_at = case when old.pauses and not e.paused then now() else last_paused_at end,
            paused_reason = case when old.pauses then $3 else paused_reason end,
            paused_code = case when old.pauses then $4 else paused_code end
       from old where e.id = old.id
     returning e.failure_streak as streak, old.pauses as paused;

-- exports/exports.ts listPausableExports
-- takes $1 uuid, $2 integer, $3 text
-- gives id uuid
select e.id from batch_exports e join projects p on p.id = e.team_id
      where p.organization_id = $1 and ($2::int is null or p.id = $2) and e.deleted_at is null
        and case when $3::text is null then not e.paused else e.paused and e.paused_code = $3 end
      order by e.id;

-- exports/exports.ts endPause
-- takes $1 uuid, $2 jsonb, $3 timestamp with time zone
update batch_exports set paused = false, paused_reason = null, paused_code = null, failure_streak = 0, schedule = $2, next_tick_at = $3,
            last_updated_at = clock_timestamp()
      where id = $1;

-- exports/log-entries.ts appendLogEntries
-- takes $1 integer[], $2 uuid[], $3 uuid[], $4 text[], $5 text[], $6 double precision[]
insert into log_entries (team_id, export_id, run_id, level, message, timestamp)
     select e.team_id, e.export_id, e.run_id, e.level, e.message, clock_timestamp() - e.age_ms * interval '1 ms'
       from unnest($1::int[], $2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::float8[]) with ordinality as e (team_id, export_id, run_id, level, message, age_ms, place)
      -- A worker may wake up after its tenant was deleted.
      where exists (select from batch_exports b where b.id = e.export_id)
      order by e.place;

-- exports/log-entries.ts countEntries
-- takes $1 uuid
-- gives count bigint
select count(*) as count from (select from log_entries l where l.export_id = $1 order by l.id desc) as counted;

-- exports/log-entries.ts countEntries
-- takes $1 uuid, $2 text, $3 text[]
-- gives count bigint
select count(*) as count from unnest($3::text[]) as chosen (level), lateral (select from log_entries l where l.export_id = $1 and l.message ilike '%' || $2 || '%' and l.level = chosen.level order by l.id desc) as counted;

-- exports/log-entries.ts countEntries
-- takes $1 uuid, $2 uuid, $3 timestamp with time zone, $4 interval, $5 text[]
-- gives count bigint
select count(*) as count from unnest($5::text[]) as chosen (level), lateral (select from log_entries l where l.export_id = $1 and l.run_id = $2 and l.timestamp >= $3::timestamptz and l.timestamp <= now() - $4::interval and l.level = chosen.level order by l.id desc) as counted;

-- exports/log-entries.ts readPage
-- takes $1 uuid, $2 bigint, $3 bigint
-- gives teamId integer, exportId uuid, runId uuid, timestamp timestamp with time zone, level text, message text
with page as materialized (
       select l.id from log_entries l where l.export_id = $1 order by l.id desc limit $2 offset $3
     )
     select l.team_id as "teamId", l.export_id as "exportId", l.run_id as "runId", l.timestamp, l.level, l.message
       from page join log_entries l using (id) order by l.id desc;

-- exports/log-entries.ts readPage
-- takes $1 uuid, $2 text, $3 text, $4 bigint, $5 bigint
-- gives teamId integer, exportId uuid, runId uuid, timestamp timestamp with time zone, level text, message text
with page as materialized (
       select l.id from log_entries l where l.export_id = $1 and l.message ilike '%' || $2 || '%' and l.level = $3 order by l.id desc limit $4 offset $5
     )
     select l.team_id as "teamId", l.export_id as "exportId", l.run_id as "runId", l.timestamp, l.level, l.message
       from page join log_entries l using (id) order by l.id desc;

-- exports/log-entries.ts readPage
-- takes $1 uuid, $2 uuid, $3 timestamp with time zone, $4 interval, $5 text, $6 text, $7 bigint, $8 bigint, $9 bigint
-- gives teamId integer, exportId uuid, runId uuid, timestamp timestamp with time zone, level text, message text
with page as materialized (
       select l.id from ((select l.id from log_entries l where l.export_id = $1 and l.run_id = $2 and l.timestamp >= $3::timestamptz and l.timestamp <= now() - $4::interval and l.level = $5 order by l.id desc limit $7::bigint) union all (select l.id from log_entries l where l.export_id = $1 and l.run_id = $2 and l.timestamp >= $3::timestamptz and l.timestamp <= now() - $4::interval and l.level = $6 order by l.id desc limit $7::bigint)) as l order by l.id desc limit $8 offset $9
     )
     select l.team_id as "teamId", l.export_id as "exportId", l.run_id as "runId", l.timestamp, l.level, l.message
       from page join log_entries l using (id) order by l.id desc;

-- exports/log-entries.ts countQuotes
-- takes $1 uuid, $2 text
-- gives count bigint
select count(*) from (
       select message as text from log_entries where export_id = $1
       union all select latest_error from runs where export_id = $1
       union all select late_rows_wait from receipts where export_id = $1
       union all select detail from export_checks where export_id = $1
       union all select facts::text from notification_deliveries where export_id = $1
       union all select changes::text from activity where subject_type = 'batch_export' and subject_id = $1::text
       union all select unnest(array[e.failing_error, e.paused_reason]) from batch_exports e where e.id = $1
       union all select c.error from pipeline_transformation_configs c join batch_exports e on e.team_id = c.team_id where e.id = $1
     ) as stored where text ~ $2;
