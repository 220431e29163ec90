-- runs/claims.ts claimSql, claimFree
-- is planned once
-- takes $1 uuid[], $2 text[], $3 double precision, $4 double precision
-- gives runId uuid, holder text, fence bigint, exportId uuid, teamId integer, backfillId uuid, purpose text, erases bytea, dropsMissing boolean, attempt integer, generation integer, crashes integer, faults integer, interval json, heals boolean, heldUpBy text, exportFails boolean, fileGeneration integer, commitIntent jsonb, chain jsonb, destinationType text, destinationConfig jsonb, destinationSecrets bytea, destinationVersion integer, isDeleted boolean, model text, mode text, newBase integer, lastElement jsonb, begunElements jsonb, made jsonb, dslQuery text, changedForMs double precision, externalId uuid, tenantKey text, storeTraits jsonb, newestEra jsonb, place jsonb, receipt jsonb, mayBeOvertaken boolean, begunManifests text[]
with asked as materialized (
  select * from unnest($1::uuid[], $2::text[]) as a (id, holder) limit (select 2147483647)), locked as materialized (
  select asked.holder, run.*, entry.* from asked, lateral (
      select r.id, r.xmin = (select seen.xmin from runs seen where seen.id = r.id) as is_fresh
        from runs r where r.id = asked.id for no key update skip locked) run
    left join lateral (
      select o.run_id as entry_id, o.available_at, o.ready, o.small as was_small
        from outbox o where o.run_id = run.id for update skip locked) entry on true), claimed as (
  update runs set status = 'Running', attempt = attempt + 1, fence = fence + 1,
         crashes = crashes + coalesce(lease_holder <> locked.holder, false)::int,
         lease_holder = locked.holder, lease_expires_at = now() + $3 * interval '1 ms', committing_at = null, cursor = null, step = null, step_since = null,
         started_at = coalesce(started_at, now()), last_updated_at = now(), chain = case when purpose = 'whole' then coalesce(runs.chain, (
  select jsonb_agg(jsonb_strip_nulls(jsonb_build_object('config', c.id, 'version', c.version, 'source',
    (select p.source_sha256 from plugins p where p.id = c.plugin))) order by c."order", c.id) from batch_exports e join pipeline_transformation_configs c on c.team_id = e.team_id and c.enabled and not c.deleted
   where e.id = runs.export_id and e.transformations), '[]') else coalesce(runs.chain,
  (select c.recipe->'chain' from receipts c where c.export_id = runs.export_id and c.data_interval_start = runs.data_interval_start
      and c.data_interval_end = runs.data_interval_end), '[]') end, file_generation = 1 + greatest(0,
  (select max(o.file_generation) from runs o where o.export_id = runs.export_id and o.data_interval_start = runs.data_interval_start
      and o.data_interval_end = runs.data_interval_end),
  (select c.generation from receipts c where c.export_id = runs.export_id and c.data_interval_start = runs.data_interval_start
      and c.data_interval_end = runs.data_interval_end),
  (select max(l.generation) from leftover_files l where l.export_id = runs.export_id and l.data_interval_start = runs.data_interval_start
      and l.data_interval_end = runs.data_interval_end)),
         small = coalesce(locked.was_small, false)
    from locked
   where runs.id = locked.id and locked.is_fresh and runs.status not in ('Completed', 'Failed', 'FailedRetryable', 'Cancelled')
  and (status <> 'Running' or lease_expires_at is null or lease_expires_at < now() or lease_holder = locked.holder)
  and case when locked.entry_id is null then not (select true from outbox where run_id = runs.id limit 1) is true else locked.ready or (locked.available_at <= clock_timestamp() or locked.available_at > clock_timestamp() + interval '65 minutes') end
  returning runs.*), taken as (delete from outbox where run_id = any (array(select id from claimed))) select c.id as "runId", c.lease_holder as holder, c.fence, c.export_id as "exportId", c.team_id as "teamId", c.backfill_id as "backfillId",
       c.purpose, c.erases, c.drops_missing as "dropsMissing", c.attempt, c.generation, c.crashes, c.faults, json_build_object('start', floor(extract(epoch from c.data_interval_start) * 1000)::bigint, 'end', floor(extract(epoch from c.data_interval_end) * 1000)::bigint) as interval,
       c.heals, case when c.purpose = 'whole' and not c.heals
    and c.backfill_id is null and c.generation = 0 and c.commit_intent is null
    and e.failing_since is not null and e.heal_for_hours > 0 and not (e.heal_after <= clock_timestamp() or e.heal_after > clock_timestamp() + interval '65 minutes')
    and not (select true from receipts done where done.export_id = c.export_id and done.data_interval_start = c.data_interval_start
      and done.data_interval_end = c.data_interval_end limit 1) is true then e.failing_code end as "heldUpBy", e.heal_after is not null as "exportFails",
       c.file_generation as "fileGeneration", c.commit_intent as "commitIntent", c.chain,
       e.destination_type as "destinationType", e.destination_config as "destinationConfig", e.destination_secrets as "destinationSecrets",
       e.destination_version as "destinationVersion", e.deleted_at is not null as "isDeleted", e.model, e.mode, e.new_base as "newBase", l.element as "lastElement", coalesce(case when e.mode = 'changes' then (select jsonb_agg(r.commit_intent->'element') from runs r
  where r.export_id = e.id and r.purpose = 'whole' and r.commit_intent->'element' <> 'null'
    and r.data_interval_end >= coalesce(to_timestamp((l.element->'interval'->>'end')::float8 / 1000), '-infinity')
    and (r.commit_intent->'element'->>'number')::int > coalesce((l.element->'element'->>'number')::int, -1)) end, '[]') as "begunElements",
       case when e.mode = 'changes' and l.element is null then (select jsonb_build_object('era', m.id, 'minutes', ceil(extract(epoch from now() - e.created_at) / 60))
  from eras m where m.began_at <= e.created_at or m.number = 1 order by m.number desc limit 1) end as made, e.dsl_query as "dslQuery",
       (extract(epoch from now() - e.last_updated_at) * 1000)::float8 as "changedForMs",
       p.external_id as "externalId", coalesce(p.tenant_key, p.id::text) as "tenantKey", case when e.store_traits_version = e.destination_version
  and e.store_traits_at > now() - $4 * interval '1 day' then e.store_traits end as "storeTraits", (select to_jsonb(n) from (select e.id, e.number, e.needs_acceptance and e.accepted_at is null as held, e.system_identifier as "systemIdentifier", e.timeline, e.database_oid as "databaseOid", e.eras_oid as "erasOid"
     from eras e order by e.number desc limit 1) n) as "newestEra",
  (select to_jsonb(n) from (select p.system_identifier as "systemIdentifier", p.timeline, p.database_oid as "databaseOid", p.eras_oid as "erasOid" from read_place() p) n) as place,
       (select to_jsonb(found) from (select export_id as "exportId", json_build_object('start', floor(extract(epoch from receipts.data_interval_start) * 1000)::bigint, 'end', floor(extract(epoch from receipts.data_interval_end) * 1000)::bigint) as interval,
  generation as "generation", era as "era", manifest_key as "manifestKey", manifest_etag as "manifestEtag", manifest_sha256 as "manifestSha256", delivered_digest as "deliveredDigest", files as "files", rejected_files as "rejectedFiles", recipe as "recipe", api_time(snapshot_at) as "snapshotAt", element as "element", run_id as "runId", destination_version as "destinationVersion", rows as "rows", bytes as "bytes",
  json_build_object('snapshot', snapshot, 'digest', key_digest, 'count', key_count, 'settled', settled,
    'pending', pending_transactions) as proof from receipts where export_id = c.export_id
           and data_interval_start = c.data_interval_start and data_interval_end = c.data_interval_end) found) as receipt,
       (select true from leftover_files l where l.export_id = c.export_id and l.data_interval_start = c.data_interval_start
      and l.data_interval_end = c.data_interval_end and l.uncommitted limit 1) is true as "mayBeOvertaken",
       array(select distinct d.digest from runs r, jsonb_array_elements_text(r.commit_intent->'begunManifests') as d (digest)
    where r.export_id = c.export_id and r.data_interval_start = c.data_interval_start
      and r.data_interval_end = c.data_interval_end
      and r.committing_generation > coalesce((select o.generation from receipts o where o.export_id = r.export_id and o.data_interval_start = r.data_interval_start
      and o.data_interval_end = r.data_interval_end), 0)) as "begunManifests"
  from claimed c join batch_exports e on e.id = c.export_id join projects p on p.id = c.team_id
  cross join lateral (select case when e.mode = 'changes' then (select to_jsonb(found) from (select c.element, c.era, c.destination_version as "destinationVersion", json_build_object('start', floor(extract(epoch from c.data_interval_start) * 1000)::bigint, 'end', floor(extract(epoch from c.data_interval_end) * 1000)::bigint) as interval
  from receipts c where c.export_id = e.id and c.element is not null order by c.data_interval_end desc limit 1) found) end as element) l;

-- runs/claims.ts claimLocked, lockEntry
-- takes $1 uuid
select from outbox where run_id = $1 for update;

-- runs/claims.ts claimLocked, removeDue
-- takes $1 uuid
delete from outbox where run_id = $1 and (ready or (available_at <= clock_timestamp() or available_at > clock_timestamp() + interval '65 minutes'));

-- runs/claims.ts lockRuns
-- takes $1 uuid[]
select from runs where id = any ($1::uuid[]) order by id for no key update;

-- runs/completions.ts completeSql, completeFree
-- is planned once
-- takes $1 jsonb, $2 integer[], $3 uuid[], $4 uuid[], $5 text[], $6 text[], $7 double precision[]
-- gives runId uuid, isCompleted boolean, leavesFiles boolean
with recursive asked as materialized (
  select * from jsonb_to_recordset($1::jsonb) as a (
    fence bigint, export_id uuid, data_interval_start timestamptz, data_interval_end timestamptz,
    total_rows bigint, completed_rows bigint, dropped_rows bigint, rejected_rows bigint, sent_bytes bigint, file_count int,
    steps jsonb, generation int, era uuid, manifest_key text, manifest_etag text, manifest_sha256 text, delivered_digest text, files jsonb, rejected_files jsonb, recipe jsonb, snapshot_at timestamptz, element jsonb, snapshot text, settled boolean, pending_transactions text[], key_digest text, key_count bigint, rows bigint, bytes bigint, run_id uuid, destination_version int, named text[], replaced jsonb) limit (select 2147483647)
), locked as materialized (
  -- Completions of an export come one after the other, so that each sees the receipts of those before.
  select export.* from (select distinct export_id from asked) known, lateral (
    select e.id, e.xmin = (select seen.xmin from batch_exports seen where seen.id = e.id) as is_fresh
      from batch_exports e where e.id = known.export_id for no key update skip locked) export
), free as materialized (
  select asked.* from asked join locked on locked.id = asked.export_id and locked.is_fresh,
         lateral (select from runs r where r.id = asked.run_id for no key update skip locked) run
), completed as (
  update runs set status = 'Completed', erases = null, commit_intent = commit_intent - '{files,rejectedFiles}'::text[], records_total_count = free.total_rows, records_completed = free.completed_rows,
         bytes_exported = free.sent_bytes, files = free.file_count, cursor = null, records_dropped = free.dropped_rows,
         records_rejected = free.rejected_rows, snapshot = free.snapshot, settled = free.settled,
         pending_transactions = free.pending_transactions, steps = free.steps,
         latest_error = null, error_code = null, lease_holder = null, lease_expires_at = null,
         finished_at = now(), last_updated_at = now()
    from free
   where runs.id = free.run_id and runs.fence = free.fence and runs.status not in ('Starting', 'Completed', 'Failed', 'FailedRetryable', 'Cancelled')
  returning free.*, runs.purpose, runs.drops_missing, runs.erasure, runs.created_at
), superseded as (
  insert into stated_intervals as s (export_id, data_interval_start, data_interval_end, superseded)
  select old.export_id, old.data_interval_start, old.data_interval_end, array[to_jsonb(old) - 'recipe' - 'snapshot']
    from completed c join receipts old on old.export_id = c.export_id and old.data_interval_start = c.data_interval_start
      and old.data_interval_end = c.data_interval_end and not ((old.destination_version, old.generation, old.rows, old.bytes, old.manifest_sha256) is not distinct from (c.destination_version, c.generation, c.rows, c.bytes, c.manifest_sha256)
   and (old.manifest_sha256 is not null or old.files = c.files))
  on conflict (export_id, data_interval_start, data_interval_end) do update set superseded = s.superseded || excluded.superseded
), received as (
  insert into receipts (export_id, data_interval_start, data_interval_end, made_by, pending_checked_at, looked_back_at, generation, era, manifest_key, manifest_etag, manifest_sha256, delivered_digest, files, rejected_files, recipe, snapshot_at, element, snapshot, settled, pending_transactions, key_digest, key_count, rows, bytes, run_id, destination_version)
  select export_id, data_interval_start, data_interval_end,
         jsonb_build_object('run', coalesce(erasure, run_id), 'purpose', purpose, 'drops', drops_missing, 'at', api_time(clock_timestamp()),
           'asked_at', api_time(created_at)), clock_timestamp(), clock_timestamp(), generation, era, manifest_key, manifest_etag, manifest_sha256, delivered_digest, files, rejected_files, recipe, snapshot_at, element, snapshot, settled, pending_transactions, key_digest, key_count, rows, bytes, run_id, destination_version from completed
  on conflict (export_id, data_interval_start, data_interval_end) do update
     set made_by = case when (receipts.destination_version, receipts.generation, receipts.rows, receipts.bytes, receipts.manifest_sha256) is not distinct from (excluded.destination_version, excluded.generation, excluded.rows, excluded.bytes, excluded.manifest_sha256)
   and (receipts.manifest_sha256 is not null or receipts.files = excluded.files) then receipts.made_by else excluded.made_by end,
         committed_at = clock_timestamp(), late_rows_wait = null, late_rows_code = null, look_tries = 0, look_after = null,
         pending_checked_at = excluded.pending_checked_at, looked_back_at = excluded.looked_back_at, generation = excluded.generation, era = excluded.era, manifest_key = excluded.manifest_key, manifest_etag = excluded.manifest_etag, manifest_sha256 = excluded.manifest_sha256, delivered_digest = excluded.delivered_digest, files = excluded.files, rejected_files = excluded.rejected_files, recipe = excluded.recipe, snapshot_at = excluded.snapshot_at, element = excluded.element, snapshot = excluded.snapshot, settled = excluded.settled, pending_transactions = excluded.pending_transactions, key_digest = excluded.key_digest, key_count = excluded.key_count, rows = excluded.rows, bytes = excluded.bytes, run_id = excluded.run_id, destination_version = excluded.destination_version
), forgotten as (
  delete from leftover_files l using completed c where l.export_id = c.export_id and l.data_interval_start = c.data_interval_start
      and l.data_interval_end = c.data_interval_end and l.destination_version = c.destination_version and l.key = any (c.named)
), noted as (
  insert into leftover_files (export_id, data_interval_start, data_interval_end, destination_version, key, generation, manifest_key, etag, uncommitted)
  select c.export_id, c.data_interval_start, c.data_interval_end, c.destination_version, f.key, f.generation, f.manifest_key, f.etag, false
    from completed c, jsonb_to_recordset(c.replaced) as f (key text, generation int, manifest_key text, etag text)
  on conflict do nothing
), left_behind as (
  -- What is current at a place that the export has left stays so, until the export returns.
  insert into leftover_files (export_id, data_interval_start, data_interval_end, destination_version, key, generation, manifest_key, etag, uncommitted)
  select old.export_id, old.data_interval_start, old.data_interval_end, old.destination_version, f.key, old.generation, old.manifest_key, f.etag, false
    from completed c, lateral (select * from receipts r where r.export_id = c.export_id and r.data_interval_start = c.data_interval_start
      and r.data_interval_end = c.data_interval_end and r.destination_version <> c.destination_version) old,
         lateral (select file->>'key' as key, file->>'etag' as etag from jsonb_array_elements(old.files || old.rejected_files) file
                  union all select old.manifest_key, old.manifest_etag where old.manifest_key is not null) f
  on conflict do nothing
), prefix as (
    select e.id as export_id, coalesce(e.high_water_mark,
             (select min(t.data_interval_start) from ticks t where t.export_id = e.id and t.fate = 'ran')) as mark
      from batch_exports e where e.id in (select export_id from completed)
    union all
    select p.export_id, passed.data_interval_end from prefix p, lateral (
      select c.data_interval_end from completed c
        where c.export_id = p.export_id and c.data_interval_start = p.mark and c.settled
        union all
      select r.data_interval_end from receipts r
       where r.export_id = p.export_id and r.data_interval_start = p.mark and r.settled and not exists (select from completed c where c.export_id = p.export_id
             and c.data_interval_start = r.data_interval_start and c.data_interval_end = r.data_interval_end)
       union all
      select a.data_interval_end from accepted_intervals a
       where a.export_id = p.export_id and a.data_interval_start = p.mark
         -- A run that failed since is a hole again.
         and not exists (select from holes h
                          where h.export_id = p.export_id and h.data_interval_start = p.mark and not exists (select from completed c where c.export_id = p.export_id
             and c.data_interval_start = h.data_interval_start and c.data_interval_end = h.data_interval_end))
       limit 1) as passed
  ), marked as (
  update batch_exports e set mark_began_at = coalesce(e.mark_began_at, m.first), high_water_mark =
  case when m.mark > coalesce(e.high_water_mark, m.first) then m.mark else e.high_water_mark end,
         failure_streak = case when exists (select from completed c where c.export_id = e.id and c.purpose not in ('erase', 'expire')) then 0 else e.failure_streak end,
         last_success_at = case when exists (select from completed c where c.export_id = e.id and c.purpose not in ('erase', 'expire')) then now() else e.last_success_at end,
         heal_failures = case when exists (select from completed c where c.export_id = e.id and c.purpose not in ('erase', 'expire')) then 0 else e.heal_failures end,
         failing_since = case when not exists (select from completed c where c.export_id = e.id and c.purpose not in ('erase', 'expire')) then e.failing_since end, exhausted_since = case when not exists (select from completed c where c.export_id = e.id and c.purpose not in ('erase', 'expire')) then e.exhausted_since end, failing_code = case when not exists (select from completed c where c.export_id = e.id and c.purpose not in ('erase', 'expire')) then e.failing_code end, failing_error = case when not exists (select from completed c where c.export_id = e.id and c.purpose not in ('erase', 'expire')) then e.failing_error end, heal_after = case when not exists (select from completed c where c.export_id = e.id and c.purpose not in ('erase', 'expire')) then e.heal_after end
    from (select export_id, max(mark) as mark, min(mark) as first from prefix group by export_id limit (select 2147483647)) m where e.id = m.export_id
), logged as (
  insert into log_entries (team_id, export_id, run_id, level, message, timestamp)
     select e.team_id, e.export_id, e.run_id, e.level, e.message, clock_timestamp() - e.age_ms * interval '1 ms'
       from unnest($2::int[], $3::uuid[], $4::uuid[], $5::text[], $6::text[], $7::float8[]) with ordinality as e (team_id, export_id, run_id, level, message, age_ms, place)
      -- A worker may wake up after its tenant was deleted.
      where exists (select from batch_exports b where b.id = e.export_id) and exists (select from completed o where o.run_id = e.run_id)
      order by e.place
) select free.run_id as "runId", exists (select from completed c where c.run_id = free.run_id) as "isCompleted",
       jsonb_array_length(free.replaced) > 0
         or (select true from leftover_files l where l.export_id = free.export_id and l.data_interval_start = free.data_interval_start
      and l.data_interval_end = free.data_interval_end and l.destination_version = free.destination_version and l.key <> all (free.named) limit 1) is true as "leavesFiles"
  from free;

-- runs/completions.ts beginCommitsSql, beginLockedCommit
-- is planned once
-- takes $1 jsonb, $2 double precision
-- gives runId uuid, isHeld boolean
with asked as materialized (
       select * from jsonb_to_recordset($1::jsonb) as a (
         run_id uuid, fence bigint, intent jsonb, generation int, destination_version int, manifest_key text, keys text[]) limit (select 2147483647)
     ), free as materialized (
       select asked.* from asked
     ), begun as (
       update runs set committing_at = now(), commit_intent = free.intent, committing_generation = file_generation,
              lease_expires_at = now() + $2 * interval '1 ms'
         from free where runs.id = free.run_id and runs.fence = free.fence and runs.status not in ('Starting', 'Completed', 'Failed', 'FailedRetryable', 'Cancelled')
       returning free.*, runs.export_id, runs.data_interval_start, runs.data_interval_end
     ), noted as (
       insert into leftover_files (export_id, data_interval_start, data_interval_end, destination_version, key, generation, manifest_key, uncommitted)
       select export_id, data_interval_start, data_interval_end, destination_version, key, generation, manifest_key, true
         from begun, unnest(begun.keys) as key
       on conflict (export_id, destination_version, key) do update
          set generation = excluded.generation, manifest_key = excluded.manifest_key, uncommitted = true, noted_at = now()
     )
     select run_id as "runId", exists (select from begun where begun.run_id = free.run_id) as "isHeld" from free;

-- runs/completions.ts beginCommitsSql, beginFreeCommits
-- is planned once
-- takes $1 jsonb, $2 double precision
-- gives runId uuid, isHeld boolean
with asked as materialized (
       select * from jsonb_to_recordset($1::jsonb) as a (
         run_id uuid, fence bigint, intent jsonb, generation int, destination_version int, manifest_key text, keys text[]) limit (select 2147483647)
     ), free as materialized (
       select asked.* from asked , lateral (select from runs r where r.id = asked.run_id for no key update skip locked) run
     ), begun as (
       update runs set committing_at = now(), commit_intent = free.intent, committing_generation = file_generation,
              lease_expires_at = now() + $2 * interval '1 ms'
         from free where runs.id = free.run_id and runs.fence = free.fence and runs.status not in ('Starting', 'Completed', 'Failed', 'FailedRetryable', 'Cancelled')
       returning free.*, runs.export_id, runs.data_interval_start, runs.data_interval_end
     ), noted as (
       insert into leftover_files (export_id, data_interval_start, data_interval_end, destination_version, key, generation, manifest_key, uncommitted)
       select export_id, data_interval_start, data_interval_end, destination_version, key, generation, manifest_key, true
         from begun, unnest(begun.keys) as key
       on conflict (export_id, destination_version, key) do update
          set generation = excluded.generation, manifest_key = excluded.manifest_key, uncommitted = true, noted_at = now()
     )
     select run_id as "runId", exists (select from begun where begun.run_id = free.run_id) as "isHeld" from free;

-- runs/leases.ts renewLeases
-- takes $1 uuid[], $2 bigint[], $3 double precision, $4 text[], $5 double precision[]
-- gives id uuid
update runs r set lease_expires_at = now() + $3 * interval '1 ms', step = coalesce(held.step, r.step),
              step_since = coalesce(now() - held.seconds * interval '1 s', r.step_since)
       from unnest($1::uuid[], $2::bigint[], $4::text[], $5::float8[]) as held (id, fence, step, seconds)
      where r.id = held.id and r.fence = held.fence and r.status not in ('Starting', 'Completed', 'Failed', 'FailedRetryable', 'Cancelled')
      returning r.id;

-- runs/leases.ts countDeathAlone
-- takes $1 uuid, $2 bigint
-- gives deaths integer
update runs set deaths_alone = deaths_alone + (died_at_fence is distinct from fence)::int, died_at_fence = fence
      where id = $1 and fence = $2 and runs.status not in ('Starting', 'Completed', 'Failed', 'FailedRetryable', 'Cancelled')
      returning deaths_alone as deaths;

-- runs/leases.ts whyLost
-- takes $1 uuid
-- gives status text, fence bigint
select status, fence from runs where id = $1;

-- runs/leases.ts raiseGeneration
-- takes $1 uuid, $2 bigint, $3 integer
-- gives generation integer
update runs set file_generation = greatest(file_generation, $3) + 1
      where id = $1 and fence = $2 and runs.status not in ('Starting', 'Completed', 'Failed', 'FailedRetryable', 'Cancelled') returning file_generation as generation;

-- runs/leases.ts sweepExpiredLeases
-- gives run_id uuid
with wrong as (
       update runs set lease_expires_at = now() where status = 'Running' and lease_expires_at > now() + interval '65 minutes'
     ), lost as (
       select id, team_id, export_id, coalesce(backfill_id, case when heals then export_id end) as backfill_id, data_interval_start, purpose from runs
        where status = 'Running' and lease_expires_at < now() for no key update skip locked
     )
     insert into outbox (run_id, team_id, export_id, backfill_id, data_interval_start, available_at, ready, small)
   select id, team_id, export_id, backfill_id, data_interval_start, now(), now() <= now(), (lost.purpose = 'whole'
    and not (select true from batch_exports e where e.id = lost.export_id and e.outgrew_at >= now() - interval '1 day' limit 1) is true
    and coalesce((select max(near.bytes) <= 131072 and max(near.rows) <= 2000 from (
        (select c.bytes, c.rows from receipts c where c.export_id = lost.export_id and c.data_interval_start < lost.data_interval_start
          order by c.data_interval_start desc limit 3)
        union all
        (select c.bytes, c.rows from receipts c where c.export_id = lost.export_id and c.data_interval_start >= lost.data_interval_start
          order by c.data_interval_start limit 1)) near), true)) from lost
     on conflict do nothing returning run_id;

-- runs/outbox.ts markReady

     update outbox set ready = true, available_at = least(available_at, now()) where run_id = any (array(
       (select run_id from outbox where not ready and available_at <= now() order by available_at limit 10000)
       union all
       (select run_id from outbox where not ready and available_at > now() + interval '65 minutes' limit 10000)));

-- runs/outbox.ts takeRuns
-- takes $1 integer, $2 integer, $3 uuid[]
-- gives runs jsonb, organizationIds uuid[], smallSlots integer, isCurrent boolean
with held as materialized (select turn from installation where set_config('synchronous_commit', 'off', true) is not null for update
     ), slots as (select *, least(share, greatest(per_turn, slots / 8)) as crowded, greatest(1, slots / 4) as healing from (
         select *, case when slots >= 4 then slots - 1 end as share
           from (values (false, (select coalesce(sum(capacity), 0)::int from workers where heartbeat_at > now() - interval '30 s'), 1), (true, (select coalesce(sum(small_capacity), 0)::int from workers where heartbeat_at > now() - interval '30 s'), 4)) v (is_small, slots, per_turn)) s
     ), seen as materialized (
       select *, small and (select coalesce(sum(small_capacity), 0)::int from workers where heartbeat_at > now() - interval '30 s') > 0 as is_small from (
         select 0 as stage, id as run_id, team_id, export_id, small, heals, coalesce(backfill_id, case when heals then export_id end) is not null as behind, data_interval_start as start
           from runs where status = 'Running' and lease_expires_at > now()
         union all
         select 1, run_id, team_id, export_id, small, heals, backfill_id is not null, data_interval_start from outbox where dispatched_at is not null and (select r.status not in ('Completed', 'Failed', 'FailedRetryable', 'Cancelled') from runs r where r.id = outbox.run_id)
         union all
         select 2, run_id, team_id, export_id, small, heals, backfill_id is not null, data_interval_start from outbox where ready and dispatched_at is null and (select turn from held) = (select turn from installation)
       ) r join (select id as team_id, organization_id from projects) p using (team_id)
     ), active as materialized (select distinct organization_id from seen
     ), of_export as (
       select *, row_number() over (partition by export_id, behind order by stage, start, run_id) as n from seen join slots using (is_small)
     ), of_project as (
       select *, row_number() over (partition by team_id, is_small order by stage, behind, start, team_id, run_id) as nth from of_export where stage < 2 or behind or n <= $1::int
     ), of_organization as (
       select *, row_number() over w as number, (row_number() over w - 1) / per_turn as turn from of_project where stage < 2 or nth <= $2::int
       window w as (partition by organization_id, is_small order by stage, (nth - 1) / per_turn, behind, start, team_id, run_id)
     ), of_healing as (
       select *, count(*) filter (where heals) over (partition by is_small order by stage, turn, behind, start, team_id, run_id) as healed
         from of_organization
        where stage < 2 or number <= case when $3::uuid[] is not null and (select count(*) > 1 from (select * from active union select unnest($3)) a) then crowded else coalesce(share, number) end
     ), placed as (
       select *, count(*) filter (where stage > 0) over (partition by is_small order by stage, turn, behind, start, team_id, run_id) as place from of_healing where stage < 2 or not heals or healed <= healing
     ), chosen as materialized (select run_id, is_small, place from placed where stage = 2 and place <= 2 * slots
     ), free as (
       select run_id from outbox where run_id = any (array(select run_id from chosen)) and ready and dispatched_at is null for update skip locked
     ), marked as (
       update outbox set dispatched_at = clock_timestamp(), times_enqueued = times_enqueued + 1
        where run_id = any (array(select run_id from free)) returning run_id, times_enqueued
     ), noted as (update installation set turn = turn + 1, taken_at = now() where exists (select from marked))
     select coalesce((select jsonb_agg(jsonb_build_object('runId', run_id, 'timesEnqueued', times_enqueued, 'small', is_small) order by is_small, place)
                        from marked join chosen using (run_id)), '[]') as runs,
            array(select organization_id from active) as "organizationIds", (select coalesce(sum(small_capacity), 0)::int from workers where heartbeat_at > now() - interval '30 s') as "smallSlots", (select turn from held) = (select turn from installation) as "isCurrent";

-- runs/outbox.ts markDispatched
-- takes $1 uuid[]
-- gives runId uuid, timesEnqueued integer, small boolean

     update outbox set dispatched_at = clock_timestamp(), times_enqueued = times_enqueued + 1
      where run_id = any ($1::uuid[]) and dispatched_at is not null returning run_id as "runId", times_enqueued as "timesEnqueued", small and (select coalesce(sum(small_capacity), 0)::int from workers where heartbeat_at > now() - interval '30 s') > 0 as small;

-- runs/outbox.ts unmarkDispatched
-- takes $1 uuid[]
update outbox set dispatched_at = null where run_id = any ($1::uuid[]);

-- runs/outbox.ts findUnanswered
-- takes $1 double precision
-- gives runId uuid

     select run_id as "runId" from outbox
      where (dispatched_at < clock_timestamp() - $1 * interval '1 ms'
         or dispatched_at > clock_timestamp() + interval '1 s') and (select r.status not in ('Completed', 'Failed', 'FailedRetryable', 'Cancelled') from runs r where r.id = outbox.run_id);

-- runs/outbox.ts removeEndedEntries
-- gives ?column? integer
delete from outbox where dispatched_at is not null and not (select r.status not in ('Completed', 'Failed', 'FailedRetryable', 'Cancelled') from runs r where r.id = outbox.run_id) returning 1;

-- runs/outbox.ts findStalledDispatch
-- takes $1 double precision
-- gives seconds double precision

     select floor(extract(epoch from now() - d.taken_at))::float8 as seconds from installation d
      where d.taken_at < now() - $1 * interval '1 s' and (select coalesce(sum(capacity), 0)::int from workers where heartbeat_at > now() - interval '30 s') > 0
        and exists (select from outbox where ready and available_at < now() - $1 * interval '1 s')
        and not exists (select from runs where status = 'Running' and lease_expires_at > now());

-- runs/outbox.ts goBack
-- takes $1 uuid[], $2 double precision[], $3 jsonb[]
-- gives runId uuid, isFirst boolean
with due as materialized (
       select run_id from outbox where run_id = any ($1::uuid[]) and (ready or (available_at <= clock_timestamp() or available_at > clock_timestamp() + interval '65 minutes')) order by run_id for update
     )
     update outbox o set available_at = now() + w.for_ms * interval '1 ms', ready = false, dispatched_at = null, times_enqueued = 0,
            waits_since = coalesce(o.waits_since, now()), waits_for = w.waits_for
       from due join unnest($1::uuid[], $2::float8[], $3::jsonb[]) as w (run_id, for_ms, waits_for) using (run_id)
      where o.run_id = due.run_id returning o.run_id as "runId", o.waits_since = now() as "isFirst";

-- runs/outbox.ts expectLarge
-- takes $1 uuid
with waiting as (
       update outbox set small = false, dispatched_at = null where run_id = $1 and small returning export_id
     )
     update batch_exports e set outgrew_at = now() from waiting where e.id = waiting.export_id;

-- runs/outbox.ts countWaiting
-- gives n integer
select count(*)::int as n from outbox where available_at <= now();

-- runs/outbox.ts findRunNeeds
-- is planned once
-- takes $1 uuid[]
-- gives newestEra jsonb, place jsonb, runId uuid, organizationId uuid, teamId integer, exportId uuid, purpose text, model text, mode text, interval json, beganCommit boolean, wait jsonb, type text, config jsonb, transformations boolean, small boolean, ownSteps integer, isHeldUp boolean, crashes integer
select (select to_jsonb(n) from (select e.id, e.number, e.needs_acceptance and e.accepted_at is null as held, e.system_identifier as "systemIdentifier", e.timeline, e.database_oid as "databaseOid", e.eras_oid as "erasOid"
     from eras e order by e.number desc limit 1) n) as "newestEra",
  (select to_jsonb(n) from (select p.system_identifier as "systemIdentifier", p.timeline, p.database_oid as "databaseOid", p.eras_oid as "erasOid" from read_place() p) n) as place, r.id as "runId", p.organization_id as "organizationId", r.team_id as "teamId", r.export_id as "exportId", r.purpose, e.model, e.mode, json_build_object('start', floor(extract(epoch from r.data_interval_start) * 1000)::bigint, 'end', floor(extract(epoch from r.data_interval_end) * 1000)::bigint) as interval,
            r.commit_intent is not null as "beganCommit", case when o.waits_for is not null then jsonb_build_object('pending', o.waits_for -> 'pending',
              'waitedMs', greatest(extract(epoch from now() - o.waits_since) * 1000, 0)) end as wait,
            e.destination_type as type, e.destination_config as config, e.transformations, coalesce(o.small and (r.purpose = 'whole'
    and not (select true from batch_exports e where e.id = r.export_id and e.outgrew_at >= now() - interval '1 day' limit 1) is true
    and coalesce((select max(near.bytes) <= 131072 and max(near.rows) <= 2000 from (
        (select c.bytes, c.rows from receipts c where c.export_id = r.export_id and c.data_interval_start < r.data_interval_start
          order by c.data_interval_start desc limit 3)
        union all
        (select c.bytes, c.rows from receipts c where c.export_id = r.export_id and c.data_interval_start >= r.data_interval_start
          order by c.data_interval_start limit 1)) near), true)), false) as small,
            (select count(*)::int from jsonb_array_elements(coalesce(r.chain, (
  select jsonb_agg(jsonb_strip_nulls(jsonb_build_object('config', c.id, 'version', c.version, 'source',
    (select p.source_sha256 from plugins p where p.id = c.plugin))) order by c."order", c.id) from batch_exports e join pipeline_transformation_configs c on c.team_id = e.team_id and c.enabled and not c.deleted
   where e.id = r.export_id and e.transformations), '[]')) pinned where pinned ? 'source') as "ownSteps",
            case when r.purpose = 'whole' and not r.heals
    and r.backfill_id is null and r.generation = 0 and r.commit_intent is null
    and e.failing_since is not null and e.heal_for_hours > 0 and not (e.heal_after <= clock_timestamp() or e.heal_after > clock_timestamp() + interval '65 minutes')
    and not (select true from receipts done where done.export_id = r.export_id and done.data_interval_start = r.data_interval_start
      and done.data_interval_end = r.data_interval_end limit 1) is true then e.failing_code end is not null as "isHeldUp",
            r.crashes + (r.lease_holder is not null)::int as crashes
       from (select * from unnest($1::uuid[]) as a (id) limit (select 2147483647)) asked join runs r on r.id = asked.id join batch_exports e on e.id = r.export_id join projects p on p.id = r.team_id
            -- Limited, so that it is looked up: a plan that was made while the outbox was empty would read all of it.
            left join lateral (select * from outbox where run_id = r.id limit 1) o on true
      where r.status not in ('Completed', 'Failed', 'FailedRetryable', 'Cancelled');

-- runs/runs.ts findRun
-- takes $1 uuid, $2 uuid
-- gives exportId uuid, teamId integer, id uuid, backfillId uuid, purpose text, status text, startsAt timestamp with time zone, endsAt timestamp with time zone, attempt integer, faults integer, nextAttemptAt timestamp with time zone, waitsFor jsonb, step jsonb, recordsTotalCount bigint, recordsCompleted bigint, recordsDropped bigint, recordsRejected bigint, bytesExported bigint, files integer, settled boolean, steps jsonb, cursor jsonb, latestError text, superseded boolean, element jsonb, createdAt timestamp with time zone, startedAt timestamp with time zone, finishedAt timestamp with time zone, lastUpdatedAt timestamp with time zone, interval json
select r.export_id as "exportId", r.team_id as "teamId", r.id, r.backfill_id as "backfillId", r.purpose, r.status,
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
  r.created_at as "createdAt", r.started_at as "startedAt", r.finished_at as "finishedAt", r.last_updated_at as "lastUpdatedAt", json_build_object('start', floor(extract(epoch from r.data_interval_start) * 1000)::bigint, 'end', floor(extract(epoch from r.data_interval_end) * 1000)::bigint) as interval from runs r where r.id = $1 and r.export_id = $2;

-- runs/runs.ts insertRuns
-- takes $1 uuid[], $2 integer[], $3 timestamp with time zone[], $4 timestamp with time zone[], $5 uuid[], $6 text[], $7 boolean[]
-- gives id uuid
with wanted as (
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
        where true and (w.purpose <> 'whole' or (select e.mode = 'append' from batch_exports e where e.id = w.export_id)
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
     ) select id from made;

-- runs/runs.ts sealErased
-- takes $1 uuid, $2 bytea, $3 uuid
update runs set erases = $2, erasure = $3 where id = $1;

-- runs/runs.ts recordProgress
-- takes $1 uuid, $2 bigint, $3 bigint, $4 bigint, $5 bigint, $6 integer, $7 jsonb
-- gives id uuid
update runs set records_total_count = $3, records_completed = $4, bytes_exported = $5, files = $6,
            cursor = $7, last_updated_at = now()
      where id = $1 and fence = $2 and runs.status not in ('Starting', 'Completed', 'Failed', 'FailedRetryable', 'Cancelled') returning id;

-- runs/runs.ts recordSent
-- takes $1 uuid, $2 bigint, $3 bigint
update runs set crashes = case when $3 > furthest_bytes then 0 else crashes end,
              deaths_alone = case when $3 > furthest_bytes then 0 else deaths_alone end,
              furthest_bytes = greatest(furthest_bytes, $3)
        where id = $1 and fence = $2 and runs.status not in ('Starting', 'Completed', 'Failed', 'FailedRetryable', 'Cancelled') and set_config('synchronous_commit', 'off', true) is not null;

-- runs/runs.ts failRun
-- takes $1 uuid, $2 bigint, $3 text, $4 text, $5 boolean
-- gives id uuid
update runs set status = 'Failed', erases = null, commit_intent = commit_intent - '{files,rejectedFiles}'::text[], error_code = $3, latest_error = $4, lease_holder = null, lease_expires_at = null,
            finished_at = now(), last_updated_at = now(), heals = heals or $5
      where id = $1 and fence = $2 and runs.status not in ('Starting', 'Completed', 'Failed', 'FailedRetryable', 'Cancelled') returning id;

-- runs/runs.ts failRun
-- takes $1 uuid, $2 bigint, $3 text, $4 text, $5 boolean
-- gives id uuid
update runs set status = 'FailedRetryable', erases = null, commit_intent = commit_intent - '{files,rejectedFiles}'::text[], error_code = $3, latest_error = $4, lease_holder = null, lease_expires_at = null,
            finished_at = now(), last_updated_at = now(), heals = heals or $5
      where id = $1 and fence = $2 and runs.status not in ('Starting', 'Completed', 'Failed', 'FailedRetryable', 'Cancelled') returning id;

-- runs/runs.ts handBackRun
-- takes $1 uuid, $2 bigint, $3 double precision, $4 text, $5 text, $6 boolean
-- gives run_id uuid
with handed_back as (
       update runs set status = 'Running', fence = fence + 1, lease_holder = null, lease_expires_at = null, committing_at = null,
              faults = faults + $6::boolean::int,
              error_code = coalesce($4, error_code), latest_error = coalesce($5, latest_error), last_updated_at = now()
        where id = $1 and fence = $2 and runs.status not in ('Starting', 'Completed', 'Failed', 'FailedRetryable', 'Cancelled')
        returning id, team_id, export_id, coalesce(backfill_id, case when heals then export_id end) as backfill_id, data_interval_start, purpose
     )
     insert into outbox (run_id, team_id, export_id, backfill_id, data_interval_start, available_at, ready, small)
   select id, team_id, export_id, backfill_id, data_interval_start, now() + $3 * interval '1 ms', now() + $3 * interval '1 ms' <= now(), (handed_back.purpose = 'whole'
    and not (select true from batch_exports e where e.id = handed_back.export_id and e.outgrew_at >= now() - interval '1 day' limit 1) is true
    and coalesce((select max(near.bytes) <= 131072 and max(near.rows) <= 2000 from (
        (select c.bytes, c.rows from receipts c where c.export_id = handed_back.export_id and c.data_interval_start < handed_back.data_interval_start
          order by c.data_interval_start desc limit 3)
        union all
        (select c.bytes, c.rows from receipts c where c.export_id = handed_back.export_id and c.data_interval_start >= handed_back.data_interval_start
          order by c.data_interval_start limit 1)) near), true)) from handed_back
     on conflict (run_id) do update
        set available_at = excluded.available_at, ready = excluded.ready, dispatched_at = null, times_enqueued = 0, small = excluded.small,
            waits_since = null, waits_for = null
     returning run_id;

-- runs/runs.ts handBackOutgrown
-- takes $1 uuid, $2 bigint
update batch_exports e set outgrew_at = now() from runs r
      where r.id = $1 and r.fence = $2 and r.export_id = e.id;

-- runs/runs.ts findErrorCode
-- takes $1 uuid
-- gives code text
select error_code as code from runs where id = $1;

-- runs/runs.ts cancelRuns
-- takes $1 uuid, $2 uuid, $3 uuid
-- gives id uuid
with locked as materialized (
       select id from runs
        where export_id = $1 and status in ('Starting', 'Running') and committing_at is null
          and ($2::uuid is null or id = $2) and ($3::uuid is null or backfill_id = $3)
        order by id for no key update
     )
     , cancelled as (
       update runs set status = 'Cancelled', erases = null, commit_intent = commit_intent - '{files,rejectedFiles}'::text[], finished_at = now(), last_updated_at = now(), lease_holder = null
         from locked where runs.id = locked.id returning runs.id
     )
     select id from cancelled;

-- runs/runs.ts cancelHeldRun
-- takes $1 uuid, $2 bigint
-- gives id uuid
update runs set status = 'Cancelled', erases = null, commit_intent = commit_intent - '{files,rejectedFiles}'::text[], lease_holder = null, lease_expires_at = null, finished_at = now(), last_updated_at = now()
      where id = $1 and fence = $2 and runs.status not in ('Completed', 'Failed', 'FailedRetryable', 'Cancelled') returning id;

-- runs/runs.ts hasBegunCommit
-- takes $1 uuid
select from runs where id = $1 and committing_generation is not null;

-- runs/runs.ts listRuns
-- takes $1 uuid, $2 bigint
-- gives exportId uuid, teamId integer, id uuid, backfillId uuid, purpose text, status text, startsAt timestamp with time zone, endsAt timestamp with time zone, attempt integer, faults integer, nextAttemptAt timestamp with time zone, waitsFor jsonb, step jsonb, recordsTotalCount bigint, recordsCompleted bigint, recordsDropped bigint, recordsRejected bigint, bytesExported bigint, files integer, settled boolean, steps jsonb, cursor jsonb, latestError text, superseded boolean, element jsonb, createdAt timestamp with time zone, startedAt timestamp with time zone, finishedAt timestamp with time zone, lastUpdatedAt timestamp with time zone
select r.export_id as "exportId", r.team_id as "teamId", r.id, r.backfill_id as "backfillId", r.purpose, r.status,
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
  r.created_at as "createdAt", r.started_at as "startedAt", r.finished_at as "finishedAt", r.last_updated_at as "lastUpdatedAt" from runs r where r.export_id = $1 order by r.created_at desc, r.id desc limit $2;

-- runs/runs.ts listRuns
-- takes $1 uuid, $2 timestamp with time zone, $3 uuid, $4 bigint
-- gives exportId uuid, teamId integer, id uuid, backfillId uuid, purpose text, status text, startsAt timestamp with time zone, endsAt timestamp with time zone, attempt integer, faults integer, nextAttemptAt timestamp with time zone, waitsFor jsonb, step jsonb, recordsTotalCount bigint, recordsCompleted bigint, recordsDropped bigint, recordsRejected bigint, bytesExported bigint, files integer, settled boolean, steps jsonb, cursor jsonb, latestError text, superseded boolean, element jsonb, createdAt timestamp with time zone, startedAt timestamp with time zone, finishedAt timestamp with time zone, lastUpdatedAt timestamp with time zone
select r.export_id as "exportId", r.team_id as "teamId", r.id, r.backfill_id as "backfillId", r.purpose, r.status,
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
  r.created_at as "createdAt", r.started_at as "startedAt", r.finished_at as "finishedAt", r.last_updated_at as "lastUpdatedAt" from runs r where r.export_id = $1 and (r.created_at, r.id) < ($2::timestamptz, $3::uuid) order by r.created_at desc, r.id desc limit $4;

-- runs/runs.ts listRuns
-- takes $1 uuid, $2 timestamp with time zone, $3 uuid, $4 bigint
-- gives exportId uuid, teamId integer, id uuid, backfillId uuid, purpose text, status text, startsAt timestamp with time zone, endsAt timestamp with time zone, attempt integer, faults integer, nextAttemptAt timestamp with time zone, waitsFor jsonb, step jsonb, recordsTotalCount bigint, recordsCompleted bigint, recordsDropped bigint, recordsRejected bigint, bytesExported bigint, files integer, settled boolean, steps jsonb, cursor jsonb, latestError text, superseded boolean, element jsonb, createdAt timestamp with time zone, startedAt timestamp with time zone, finishedAt timestamp with time zone, lastUpdatedAt timestamp with time zone
select r.export_id as "exportId", r.team_id as "teamId", r.id, r.backfill_id as "backfillId", r.purpose, r.status,
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
  r.created_at as "createdAt", r.started_at as "startedAt", r.finished_at as "finishedAt", r.last_updated_at as "lastUpdatedAt" from runs r where r.export_id = $1 and (r.created_at, r.id) > ($2::timestamptz, $3::uuid) order by r.created_at asc, r.id asc limit $4;

-- runs/runs.ts listRuns
-- takes $1 uuid, $2 bigint
-- gives exportId uuid, teamId integer, id uuid, backfillId uuid, purpose text, status text, startsAt timestamp with time zone, endsAt timestamp with time zone, attempt integer, faults integer, nextAttemptAt timestamp with time zone, waitsFor jsonb, step jsonb, recordsTotalCount bigint, recordsCompleted bigint, recordsDropped bigint, recordsRejected bigint, bytesExported bigint, files integer, settled boolean, steps jsonb, cursor jsonb, latestError text, superseded boolean, element jsonb, createdAt timestamp with time zone, startedAt timestamp with time zone, finishedAt timestamp with time zone, lastUpdatedAt timestamp with time zone
select r.export_id as "exportId", r.team_id as "teamId", r.id, r.backfill_id as "backfillId", r.purpose, r.status,
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
  r.created_at as "createdAt", r.started_at as "startedAt", r.finished_at as "finishedAt", r.last_updated_at as "lastUpdatedAt" from runs r where r.export_id = $1 order by r.data_interval_start desc, r.id desc limit $2;

-- runs/runs.ts listRuns
-- takes $1 uuid, $2 timestamp with time zone, $3 uuid, $4 bigint
-- gives exportId uuid, teamId integer, id uuid, backfillId uuid, purpose text, status text, startsAt timestamp with time zone, endsAt timestamp with time zone, attempt integer, faults integer, nextAttemptAt timestamp with time zone, waitsFor jsonb, step jsonb, recordsTotalCount bigint, recordsCompleted bigint, recordsDropped bigint, recordsRejected bigint, bytesExported bigint, files integer, settled boolean, steps jsonb, cursor jsonb, latestError text, superseded boolean, element jsonb, createdAt timestamp with time zone, startedAt timestamp with time zone, finishedAt timestamp with time zone, lastUpdatedAt timestamp with time zone
select r.export_id as "exportId", r.team_id as "teamId", r.id, r.backfill_id as "backfillId", r.purpose, r.status,
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
  r.created_at as "createdAt", r.started_at as "startedAt", r.finished_at as "finishedAt", r.last_updated_at as "lastUpdatedAt" from runs r where r.export_id = $1 and (r.data_interval_start, r.id) < ($2::timestamptz, $3::uuid) order by r.data_interval_start desc, r.id desc limit $4;

-- runs/runs.ts listRuns
-- takes $1 uuid, $2 timestamp with time zone, $3 uuid, $4 bigint
-- gives exportId uuid, teamId integer, id uuid, backfillId uuid, purpose text, status text, startsAt timestamp with time zone, endsAt timestamp with time zone, attempt integer, faults integer, nextAttemptAt timestamp with time zone, waitsFor jsonb, step jsonb, recordsTotalCount bigint, recordsCompleted bigint, recordsDropped bigint, recordsRejected bigint, bytesExported bigint, files integer, settled boolean, steps jsonb, cursor jsonb, latestError text, superseded boolean, element jsonb, createdAt timestamp with time zone, startedAt timestamp with time zone, finishedAt timestamp with time zone, lastUpdatedAt timestamp with time zone
select r.export_id as "exportId", r.team_id as "teamId", r.id, r.backfill_id as "backfillId", r.purpose, r.status,
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
  r.created_at as "createdAt", r.started_at as "startedAt", r.finished_at as "finishedAt", r.last_updated_at as "lastUpdatedAt" from runs r where r.export_id = $1 and (r.data_interval_start, r.id) > ($2::timestamptz, $3::uuid) order by r.data_interval_start asc, r.id asc limit $4;

-- runs/runs.ts listRuns
-- takes $1 uuid, $2 timestamp with time zone, $3 interval, $4 timestamp with time zone, $5 timestamp with time zone, $6 bigint
-- gives exportId uuid, teamId integer, id uuid, backfillId uuid, purpose text, status text, startsAt timestamp with time zone, endsAt timestamp with time zone, attempt integer, faults integer, nextAttemptAt timestamp with time zone, waitsFor jsonb, step jsonb, recordsTotalCount bigint, recordsCompleted bigint, recordsDropped bigint, recordsRejected bigint, bytesExported bigint, files integer, settled boolean, steps jsonb, cursor jsonb, latestError text, superseded boolean, element jsonb, createdAt timestamp with time zone, startedAt timestamp with time zone, finishedAt timestamp with time zone, lastUpdatedAt timestamp with time zone
select r.export_id as "exportId", r.team_id as "teamId", r.id, r.backfill_id as "backfillId", r.purpose, r.status,
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
  r.created_at as "createdAt", r.started_at as "startedAt", r.finished_at as "finishedAt", r.last_updated_at as "lastUpdatedAt" from ((select r.* from runs r where r.export_id = $1 and r.created_at >= $2::timestamptz and r.created_at <= now() - $3::interval and r.data_interval_start >= $4::timestamptz and r.data_interval_end <= $5::timestamptz and r.status = 'Starting' and (r.error_code is not null or r.crashes > 0 and r.attempt > 0) order by r.created_at desc, r.id desc limit $6) union all (select r.* from runs r where r.export_id = $1 and r.created_at >= $2::timestamptz and r.created_at <= now() - $3::interval and r.data_interval_start >= $4::timestamptz and r.data_interval_end <= $5::timestamptz and r.status = 'Running' and (r.error_code is not null or r.crashes > 0 and r.attempt > 0) order by r.created_at desc, r.id desc limit $6) union all (select r.* from runs r where r.export_id = $1 and r.created_at >= $2::timestamptz and r.created_at <= now() - $3::interval and r.data_interval_start >= $4::timestamptz and r.data_interval_end <= $5::timestamptz and r.status = 'Failed'  order by r.created_at desc, r.id desc limit $6)) r order by r.created_at desc, r.id desc limit $6;

-- runs/runs.ts listModelsAtWork
-- gives model text

     select distinct model from batch_exports where id in (
       select export_id from runs where status in ('Starting', 'Running')
       union select export_id from runs where finished_at > now() - interval '1 minute'
       union select export_id from receipts where not settled);

-- runs/runs.ts findNamedRuns
-- takes $1 uuid[]
-- gives id uuid, exportId uuid, teamId integer, status text, error text, name text

     select r.id, r.export_id as "exportId", r.team_id as "teamId", r.status, r.latest_error as error,
            concat_ws(' · ', o.name, e.name, to_char(r.data_interval_start at time zone 'UTC',
              case when r.data_interval_end - r.data_interval_start >= interval '23 hours' then 'YYYY-MM-DD'
                   when r.data_interval_start >= date_trunc('day', now(), 'UTC') then 'HH24:MI' else 'YYYY-MM-DD HH24:MI' end)) as name
       from runs r join batch_exports e on e.id = r.export_id join projects p on p.id = r.team_id join organizations o on o.id = p.organization_id
      where r.id = any ($1::uuid[]);

-- runs/workers.ts reportWorker
-- takes $1 text, $2 integer, $3 integer, $4 integer
insert into workers (id, capacity, small_capacity, silent_seconds) values ($1, $2, $3, $4)
     on conflict (id) do update set capacity = excluded.capacity, small_capacity = excluded.small_capacity,
            silent_seconds = excluded.silent_seconds, heartbeat_at = now();

-- runs/workers.ts removeWorker
-- takes $1 text
delete from workers where id = $1;

-- runs/workers.ts sumCapacity
-- gives capacity integer
select (select coalesce(sum(capacity), 0)::int from workers where heartbeat_at > now() - interval '30 s') as capacity;

-- runs/workers.ts findSilence
-- gives seconds integer
select min(silent_seconds) as seconds from workers where heartbeat_at > now() - interval '30 s';

-- runs/workers.ts countWorkersAndExports
-- gives workers integer, exports integer

     select (select count(*)::int from workers where heartbeat_at > now() - interval '1 minute') as workers,
            (select count(*)::int from batch_exports where deleted_at is null and not paused) as exports;

-- runs/workers.ts sweepWorkers
delete from workers where heartbeat_at < now() - interval '10 minutes' or heartbeat_at > now() + interval '1 minute';
