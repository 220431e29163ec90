-- database/check-server.ts checkServer
-- gives version text, number integer, encoding text, isReadOnly boolean, readOnlySource text, role name, database name
select split_part(current_setting('server_version'), ' ', 1) as version,
              current_setting('server_version_num')::int as number,
              current_setting('server_encoding') as encoding,
              current_setting('transaction_read_only')::boolean as "isReadOnly",
              (select source from pg_settings where name = 'default_transaction_read_only' and setting = 'on') as "readOnlySource",
              current_user as role, current_database() as database;

-- database/eras.ts currentEra
-- gives newestEra jsonb, place jsonb
select (select to_jsonb(n) from (select e.id, e.number, e.needs_acceptance and e.accepted_at is null as held, e.system_identifier as "systemIdentifier", e.timeline, e.database_oid as "databaseOid", e.eras_oid as "erasOid"
     from eras e order by e.number desc limit 1) n) as "newestEra",
  (select to_jsonb(n) from (select p.system_identifier as "systemIdentifier", p.timeline, p.database_oid as "databaseOid", p.eras_oid as "erasOid" from read_place() p) n) as place;

-- database/eras.ts resolveEra
-- gives id uuid, number integer, held boolean
select e.id, e.number, e.needs_acceptance and e.accepted_at is null as held from eras e order by e.number desc limit 1;

-- database/eras.ts insertEra
-- takes $1 integer, $2 text, $3 text, $4 integer, $5 bigint, $6 bigint, $7 boolean
with begun as (
       insert into eras (number, reason, system_identifier, timeline, database_oid, eras_oid, needs_acceptance)
       values ($1, $2, $3, $4, $5, $6, $7) on conflict (number) do nothing returning number
     )
     -- A worker of the lost history may hold a fence that this one would give out again, also of a run that no
     -- worker has claimed in this one.
     update runs set fence = fence + 1000000000, lease_holder = null, era_generation = coalesce(committing_generation, 0),
            lease_expires_at = case when lease_expires_at is null then null else now() end
       from begun where begun.number > 1 and runs.status in ('Starting', 'Running');

-- database/eras.ts listEras
-- gives id uuid, number integer, held boolean, reason text, beganAt timestamp with time zone, acceptedAt timestamp with time zone, systemIdentifier text, timeline integer, databaseOid bigint, erasOid bigint

     select e.id, e.number, e.needs_acceptance and e.accepted_at is null as held, e.reason, e.began_at as "beganAt", e.accepted_at as "acceptedAt", e.system_identifier as "systemIdentifier", e.timeline, e.database_oid as "databaseOid", e.eras_oid as "erasOid"
       from eras e order by e.number;

-- database/eras.ts findHold
-- takes $1 integer
-- gives reason text
select reason from eras where number = $1;

-- database/eras.ts acceptEra
-- takes $1 integer
-- gives id uuid, number integer, held boolean, reason text, beganAt timestamp with time zone, acceptedAt timestamp with time zone, systemIdentifier text, timeline integer, databaseOid bigint, erasOid bigint
update eras e set accepted_at = now() where number = $1
     returning e.id, e.number, e.needs_acceptance and e.accepted_at is null as held, e.reason, e.began_at as "beganAt", e.accepted_at as "acceptedAt", e.system_identifier as "systemIdentifier", e.timeline, e.database_oid as "databaseOid", e.eras_oid as "erasOid";

-- database/own-schema.ts readSchemas
-- gives own name, database name, role name, mayCreate boolean, onPath text[], others text[]
select (select n.nspname from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  where c.relname = 'sluice_migrations' and c.relkind = 'r'
    and (n.nspname = any (pg_catalog.current_schemas(false)) or pg_catalog.has_schema_privilege(n.oid, 'usage'))
  order by pg_catalog.array_position(pg_catalog.current_schemas(false), n.nspname),
           pg_catalog.pg_has_role(c.relowner, 'usage') desc, c.oid limit 1) as own, current_database() as database, current_user as role,
            has_database_privilege(current_database(), 'create') as "mayCreate",
            array(select s::text from unnest(current_schemas(false)) with ordinality as p (s, position)
                   where has_schema_privilege(s, 'create') order by position) as "onPath",
            array(select nspname::text from pg_namespace
                   where nspname !~ '^pg_' and nspname not in ('information_schema', 'bullmq')
                     and nspname <> all (current_schemas(false)) and has_schema_privilege(oid, 'create')
                   order by nspname) as others;

-- database/retention.ts deleteOldLogEntries
-- takes $1 double precision
-- gives ?column? integer
delete from log_entries where id = any (array(
     select id from (select id, timestamp from log_entries order by id limit 5000) oldest
      where timestamp < now() - $1 * interval '1 day')) returning 1;

-- database/retention.ts deleteOldActivity
-- takes $1 double precision
-- gives ?column? integer
delete from activity where id = any (array(
     select id from (select id, happened_at from activity order by id limit 5000) oldest
      where happened_at < now() - $1 * interval '1 day')) returning 1;

-- database/retention.ts deleteOldNotifications
-- takes $1 double precision
-- gives ?column? integer
delete from notification_deliveries where id in (
     select id from (select id, happened_at from notification_deliveries order by seq limit 5000) oldest
      where happened_at < now() - $1 * interval '1 day') returning 1;

-- database/retention.ts deleteOldTicks
-- takes $1 double precision
-- gives ?column? integer
delete from ticks where ctid = any (array(
     select t.ctid from batch_exports e
       left join lateral (
         select k.tick_at from ticks k
          where k.export_id = e.id and not (k.decided_at < now() - $1 * interval '1 day'
            and (e.deleted_at is not null or k.fate <> 'ran' or coalesce(k.data_interval_end <= e.high_water_mark, false)))
          order by k.tick_at limit 1) as first_kept on true
       cross join lateral (
         select o.ctid from ticks o where o.export_id = e.id and o.tick_at < coalesce(first_kept.tick_at, 'infinity')
          order by o.tick_at limit 5000) as t
      limit 5000)) returning 1;

-- database/retention.ts deleteOldRuns
-- takes $1 double precision
-- gives ?column? integer
delete from runs where id = any (array(
     select r.id from runs r
      where r.finished_at < now() - $1 * interval '1 day'
        and not exists (select 1 from receipts c where c.run_id = r.id)
        and not exists (select 1 from outbox o where o.run_id = r.id)
        and not exists (
          select 1 from holes h join batch_exports e on e.id = h.export_id and e.deleted_at is null
           where h.export_id = r.export_id and h.data_interval_start = r.data_interval_start
      and h.data_interval_end = r.data_interval_end
             and not exists (select 1 from runs newer where newer.export_id = r.export_id and newer.data_interval_start = r.data_interval_start
      and newer.data_interval_end = r.data_interval_end
                   and newer.generation > r.generation))
      limit 5000)) returning 1;

-- database/retention.ts deleteForgottenExports
-- takes $1 double precision
-- gives ?column? integer
delete from batch_exports where id = any (array(
     select e.id from batch_exports e where e.deleted_at < now() - $1 * interval '1 day' limit 10)) returning 1;

-- database/retention.ts deleteOldStepVersions
-- takes $1 double precision
update transformation_versions set unused_since = now() where unused_since is null and ctid = any (array(
     select v.ctid from transformation_versions v
      where v.created_at < now() - $1 * interval '1 day' and true
        and not exists (select 1 from pipeline_transformation_configs c where c.id = v.config_id and c.version = v.version)
        and not exists (select 1 from runs r where r.team_id = v.team_id
              and r.chain @> jsonb_build_array(jsonb_build_object('config', v.config_id, 'version', v.version)))
        and not exists (select 1 from receipts c join batch_exports e on e.id = c.export_id where e.team_id = v.team_id
              and c.recipe -> 'chain' @> jsonb_build_array(jsonb_build_object('config', v.config_id, 'version', v.version)))
      limit 5000));

-- database/retention.ts deleteOldStepVersions
-- takes $1 double precision
-- gives ?column? integer
delete from transformation_versions where ctid = any (array(
     select v.ctid from transformation_versions v
      where v.created_at < now() - $1 * interval '1 day' and v.unused_since < now() - interval '1 hour'
        and not exists (select 1 from pipeline_transformation_configs c where c.id = v.config_id and c.version = v.version)
        and not exists (select 1 from runs r where r.team_id = v.team_id
              and r.chain @> jsonb_build_array(jsonb_build_object('config', v.config_id, 'version', v.version)))
        and not exists (select 1 from receipts c join batch_exports e on e.id = c.export_id where e.team_id = v.team_id
              and c.recipe -> 'chain' @> jsonb_build_array(jsonb_build_object('config', v.config_id, 'version', v.version)))
      limit 5000)) returning 1;

-- database/retention.ts deleteOldGuardedWork
-- takes $1 double precision
-- gives ?column? integer
delete from guarded_work where set_aside_at is null and expires_at < now() - $1 * interval '1 day' returning 1;

-- database/retention.ts deleteOldPluginSources
-- takes $1 double precision
-- gives ?column? integer
select 1 from plugin_sources s where replaced_at is not null and replaced_at < now() - $1 * interval '1 day'
        and not exists (select 1 from plugins p where p.source_sha256 = s.sha256) limit 1;

-- database/retention.ts deleteOldPluginSources
-- takes $1 double precision
-- gives ?column? integer
with named as (
       select pinned ->> 'source' as sha256 from runs r, jsonb_array_elements(r.chain) pinned where r.chain is not null
       union select pinned ->> 'source' from receipts c, jsonb_array_elements(c.recipe -> 'chain') pinned
               where jsonb_typeof(c.recipe -> 'chain') = 'array'
     )
     delete from plugin_sources s where replaced_at is not null and replaced_at < now() - $1 * interval '1 day'
        and not exists (select 1 from plugins p where p.source_sha256 = s.sha256) and not exists (select 1 from named n where n.sha256 = s.sha256)
     returning 1;

-- database/service-state.ts readServiceState
-- gives tickLagSeconds double precision, waitingLive integer, waitingBackfill integer, running integer, longestSteps jsonb, capacity integer, workSetAside integer, unsettled integer, oldestUnsettledSeconds double precision

     select coalesce((select greatest(extract(epoch from now() - min(next_tick_at)), 0)
                        from batch_exports where deleted_at is null), 0)::float8 as "tickLagSeconds",
            (select count(*)::int from outbox where available_at <= now() and backfill_id is null) as "waitingLive",
            (select count(*)::int from outbox where available_at <= now() and backfill_id is not null) as "waitingBackfill",
            (select count(*)::int from runs where status = 'Running' and lease_expires_at > now()) as running,
            (select coalesce(jsonb_object_agg(l.step, l.seconds), '{}') from (
               select step, extract(epoch from now() - min(step_since))::float8 as seconds from runs
                where status = 'Running' and lease_expires_at > now() and step is not null group by step) l) as "longestSteps",
            (select coalesce(sum(capacity), 0)::int from workers where heartbeat_at > now() - interval '30 s') as capacity,
            (select count(*)::int from guarded_work where set_aside_at is not null) as "workSetAside",
            u.count::int as unsettled, coalesce(extract(epoch from now() - u.oldest), 0)::float8 as "oldestUnsettledSeconds"
       from (select count(*), min(c.data_interval_end) as oldest
               from receipts c join batch_exports e on e.id = c.export_id and e.deleted_at is null
              where not c.settled) u;

-- database/signing-keys.ts listSigningKeys
-- gives key_id text, public_key text, created_at text, signed_by text, signature text
select key_id, public_key, created_at, signed_by, signature from signing_keys order by number;

-- database/signing-keys.ts findSigningKey
-- gives keyId text, sealed bytea
select key_id as "keyId", private_key as sealed from signing_keys order by number desc limit 1;

-- database/signing-keys.ts lockSigningKeys
lock table signing_keys in share row exclusive mode;

-- database/signing-keys.ts addSigningKey
update signing_keys set private_key = null where private_key is not null;

-- database/signing-keys.ts addSigningKey
-- takes $1 text, $2 text, $3 text, $4 text, $5 text, $6 bytea
insert into signing_keys (number, key_id, public_key, created_at, signed_by, signature, private_key)
     select coalesce(max(number), 0) + 1, $1, $2, $3, $4, $5, $6 from signing_keys;
