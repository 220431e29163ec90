-- tenants/api-keys.ts insertApiKey
-- takes $1 uuid, $2 integer[], $3 text, $4 bytea, $5 text[], $6 timestamp with time zone
-- gives id uuid, organizationId uuid, projectIds integer[], name text, scopes text[], createdAt timestamp with time zone, expiresAt timestamp with time zone, revokedAt timestamp with time zone, lastUsedAt timestamp with time zone
insert into api_keys as k (organization_id, project_ids, name, hash, scopes, expires_at)
     values ($1, $2, $3, $4, $5, $6) returning k.id, k.organization_id as "organizationId", k.project_ids as "projectIds", k.name, k.scopes,
  k.created_at as "createdAt", k.expires_at as "expiresAt",
  k.revoked_at as "revokedAt", k.last_used_at as "lastUsedAt";

-- tenants/api-keys.ts findPresentedKey
-- takes $1 bytea, $2 integer
-- gives id uuid, organizationId uuid, projectIds integer[], name text, scopes text[], createdAt timestamp with time zone, expiresAt timestamp with time zone, revokedAt timestamp with time zone, lastUsedAt timestamp with time zone, hash bytea, ended boolean, useIsStale boolean, isDisabled boolean, ownsProject boolean
select k.id, k.organization_id as "organizationId", k.project_ids as "projectIds", k.name, k.scopes,
  k.created_at as "createdAt", k.expires_at as "expiresAt",
  k.revoked_at as "revokedAt", k.last_used_at as "lastUsedAt", k.hash,
            coalesce(k.revoked_at <= now(), false) or coalesce(k.expires_at <= now(), false) as ended,
            coalesce(k.last_used_at < now() - interval '1 minute', true) as "useIsStale",
            exists (select from organizations o where o.id = k.organization_id and o.disabled_at is not null) as "isDisabled",
            exists (select from projects p where p.id = $2 and p.organization_id = k.organization_id and p.closed_at is null and p.disabled_at is null) as "ownsProject"
       from api_keys k where k.hash = $1;

-- tenants/api-keys.ts findKnownHashes
-- takes $1 bytea[]
-- gives hash bytea
select hash from api_keys
      where hash = any($1) and not coalesce(revoked_at <= now(), false)
        and not coalesce(expires_at <= now(), false);

-- tenants/api-keys.ts touchApiKey
-- takes $1 uuid
update api_keys set last_used_at = now()
      where id = $1 and coalesce(last_used_at < now() - interval '1 minute', true);

-- tenants/api-keys.ts findApiKey
-- takes $1 uuid
-- gives id uuid, organizationId uuid, projectIds integer[], name text, scopes text[], createdAt timestamp with time zone, expiresAt timestamp with time zone, revokedAt timestamp with time zone, lastUsedAt timestamp with time zone
select k.id, k.organization_id as "organizationId", k.project_ids as "projectIds", k.name, k.scopes,
  k.created_at as "createdAt", k.expires_at as "expiresAt",
  k.revoked_at as "revokedAt", k.last_used_at as "lastUsedAt" from api_keys k where k.id = $1;

-- tenants/api-keys.ts listApiKeys
-- takes $1 uuid
-- gives id uuid, organizationId uuid, projectIds integer[], name text, scopes text[], createdAt timestamp with time zone, expiresAt timestamp with time zone, revokedAt timestamp with time zone, lastUsedAt timestamp with time zone
select k.id, k.organization_id as "organizationId", k.project_ids as "projectIds", k.name, k.scopes,
  k.created_at as "createdAt", k.expires_at as "expiresAt",
  k.revoked_at as "revokedAt", k.last_used_at as "lastUsedAt" from api_keys k where k.organization_id is not distinct from $1::uuid order by k.created_at, k.id;

-- tenants/api-keys.ts revokeApiKey
-- takes $1 uuid, $2 double precision
-- gives id uuid, organizationId uuid, projectIds integer[], name text, scopes text[], createdAt timestamp with time zone, expiresAt timestamp with time zone, revokedAt timestamp with time zone, lastUsedAt timestamp with time zone
update api_keys k set revoked_at = least(k.revoked_at, now() + $2 * interval '1 second')
      where k.id = $1 returning k.id, k.organization_id as "organizationId", k.project_ids as "projectIds", k.name, k.scopes,
  k.created_at as "createdAt", k.expires_at as "expiresAt",
  k.revoked_at as "revokedAt", k.last_used_at as "lastUsedAt";

-- tenants/idempotency.ts lockIdempotencyKey
-- takes $1 text
-- gives locked boolean
select pg_try_advisory_xact_lock(hashtextextended($1, 0)) as locked;

-- tenants/idempotency.ts findKeptResponse
-- takes $1 uuid, $2 text, $3 bytea
-- gives same boolean, status smallint, response text
select fingerprint = $3 as same, status, response from idempotency_keys
      where key_id = $1 and idempotency_key = $2 and status is not null
        and created_at > now() - interval '24 hours';

-- tenants/idempotency.ts keepResponse
-- takes $1 uuid, $2 text, $3 bytea, $4 smallint, $5 text
insert into idempotency_keys (key_id, idempotency_key, fingerprint, status, response)
     values ($1, $2, $3, $4, $5)
     on conflict (key_id, idempotency_key) do update
        set fingerprint = excluded.fingerprint, status = excluded.status, response = excluded.response,
            created_at = now();

-- tenants/idempotency.ts deleteSpentIdempotencyKeys
-- gives key_id uuid
delete from idempotency_keys where created_at < now() - interval '24 hours' returning key_id;

-- tenants/offboardings.ts findOffboarding
-- takes $1 uuid
-- gives id uuid, organizationId uuid, teamId integer, name text, requestedBy uuid, requestedAt timestamp with time zone, status text, deletedRows jsonb, lastError text, completedAt timestamp with time zone
select o.id, o.organization_id as "organizationId", o.team_id as "teamId", o.name, o.requested_by as "requestedBy",
  o.requested_at as "requestedAt", o.status, o.deleted_rows as "deletedRows", o.last_error as "lastError", o.completed_at as "completedAt" from offboardings o where o.id = $1;

-- tenants/offboardings.ts listOffboardings
-- takes $1 bigint
-- gives id uuid, organizationId uuid, teamId integer, name text, requestedBy uuid, requestedAt timestamp with time zone, status text, deletedRows jsonb, lastError text, completedAt timestamp with time zone
select o.id, o.organization_id as "organizationId", o.team_id as "teamId", o.name, o.requested_by as "requestedBy",
  o.requested_at as "requestedAt", o.status, o.deleted_rows as "deletedRows", o.last_error as "lastError", o.completed_at as "completedAt" from offboardings o order by o.requested_at desc, o.id limit $1;

-- tenants/offboardings.ts openOffboarding
-- takes $1 uuid, $2 integer, $3 uuid
-- gives id uuid, organizationId uuid, teamId integer, name text, requestedBy uuid, requestedAt timestamp with time zone, status text, deletedRows jsonb, lastError text, completedAt timestamp with time zone
with closed_organization as (
       update organizations set closed_at = coalesce(closed_at, now()) where id = $1 and $2::int is null returning name
     ), closed_projects as (
       update projects set closed_at = coalesce(closed_at, now())
        where organization_id = $1 and ($2::int is null or id = $2) returning name
     ), opened as (
       insert into offboardings (organization_id, team_id, name, requested_by)
       select $1::uuid, $2::int, name, $3::uuid from closed_organization
       union all select $1::uuid, $2::int, name, $3::uuid from closed_projects where $2::int is not null
       on conflict do nothing returning *
     )
     select o.id, o.organization_id as "organizationId", o.team_id as "teamId", o.name, o.requested_by as "requestedBy",
  o.requested_at as "requestedAt", o.status, o.deleted_rows as "deletedRows", o.last_error as "lastError", o.completed_at as "completedAt" from opened o;

-- tenants/offboardings.ts openOffboarding
-- takes $1 uuid, $2 integer
update api_keys set revoked_at = least(revoked_at, now())
      where organization_id = $1 and ($2::int is null or project_ids <@ array[$2::int]);

-- tenants/offboardings.ts openOffboarding
-- takes $1 uuid, $2 integer
update api_keys set project_ids = array_remove(project_ids, $2)
      where organization_id = $1 and $2::int = any (project_ids) and not project_ids <@ array[$2::int];

-- tenants/offboardings.ts openOffboarding
-- takes $1 uuid, $2 integer
update notification_targets set enabled = false
      where organization_id = $1 and ($2::int is null or team_id = $2) and enabled;

-- tenants/offboardings.ts openOffboarding
-- takes $1 uuid, $2 integer
-- gives id uuid, organizationId uuid, teamId integer, name text, requestedBy uuid, requestedAt timestamp with time zone, status text, deletedRows jsonb, lastError text, completedAt timestamp with time zone
select o.id, o.organization_id as "organizationId", o.team_id as "teamId", o.name, o.requested_by as "requestedBy",
  o.requested_at as "requestedAt", o.status, o.deleted_rows as "deletedRows", o.last_error as "lastError", o.completed_at as "completedAt" from offboardings o
      where o.organization_id = $1 and o.team_id is not distinct from $2 and o.completed_at is null;

-- tenants/offboardings.ts takeOffboarding
-- takes $1 double precision, $2 uuid[]
-- gives id uuid, organizationId uuid, teamId integer, status text, lease uuid, ageMs double precision
update offboardings o set lease = gen_random_uuid(), leased_until = now() + $1 * interval '1 ms'
      where id = (select id from offboardings where completed_at is null and (leased_until is null or leased_until < now()) and id <> all ($2::uuid[])
                   order by leased_until nulls first, requested_at limit 1 for update skip locked)
     returning id, organization_id as "organizationId", team_id as "teamId", status, lease,
               greatest(0, extract(epoch from now() - requested_at) * 1000)::float8 as "ageMs";

-- tenants/offboardings.ts leaveOffboarding
-- takes $1 uuid, $2 uuid, $3 text
update offboardings set leased_until = now(), last_error = $3 where id = $1 and lease = $2 and completed_at is null;

-- tenants/offboardings.ts moveOffboarding
-- takes $1 uuid, $2 uuid, $3 text
-- gives id uuid
update offboardings set status = $3,
            deleted_by = case when $3 = 'settling' then pg_current_xact_id() else deleted_by end,
            deleted_at = case when $3 = 'settling' then now() else deleted_at end,
            completed_at = case when $3 = 'completed' then now() end,
            last_error = case when $3 = 'completed' then null else last_error end
      where id = $1 and lease = $2 and completed_at is null returning id;

-- tenants/offboardings.ts countDeleted
-- takes $1 uuid, $2 uuid, $3 text, $4 bigint, $5 double precision, $6 text[]
-- gives id uuid
update offboardings set leased_until = now() + $5 * interval '1 ms',
            deleted_rows = case when $4::bigint = 0 then deleted_rows else deleted_rows || jsonb_build_object($3::text, coalesce((deleted_rows ->> $3)::bigint, 0) + $4::bigint) end,
            plugin_sources = array(select distinct unnest(plugin_sources || $6::text[]))
      where id = $1 and lease = $2 and completed_at is null returning id;

-- tenants/offboardings.ts hasSettled
-- takes $1 uuid, $2 double precision
select from offboardings where id = $1 and (pg_snapshot_xmin(pg_current_snapshot()) > deleted_by
        or deleted_at < now() - $2 * interval '1 ms');

-- tenants/offboardings.ts measurePlaces
-- takes $1 uuid
-- gives exportId uuid, exportName text, version integer, type text, config jsonb, files bigint, manifests bigint, rows bigint, bytes bigint, leftoverFiles bigint, openUploads integer
with places as (
       select destination_version as version, destination_config as config from batch_exports where id = $1
       union all select version, destination_config from former_destinations where export_id = $1
     ), current as (
       select destination_version as version, sum(jsonb_array_length(files) + jsonb_array_length(rejected_files)) as files,
              count(manifest_key) as manifests, sum(rows) as rows, sum(bytes) as bytes
         from receipts where export_id = $1 group by 1
     ), leftovers as (
       select destination_version as version, count(*) as files from leftover_files l where export_id = $1 and l.deleted_at is null
          and not exists (select from receipts c where c.export_id = l.export_id and c.data_interval_start = l.data_interval_start
                             and c.data_interval_end = l.data_interval_end and c.destination_version = l.destination_version
                             and l.key in (select f ->> 'key' from jsonb_array_elements(c.files || c.rejected_files) f))
        group by 1
     ), uploaded as (
       select destination_version as version, 1 as uploads from upload_places where export_id = $1
     )
     select e.id as "exportId", e.name as "exportName", p.version, e.destination_type as type, p.config,
            coalesce(c.files, 0)::bigint as files, coalesce(c.manifests, 0) as manifests, coalesce(c.rows, 0)::bigint as rows,
            coalesce(c.bytes, 0)::bigint as bytes, coalesce(l.files, 0) as "leftoverFiles", coalesce(u.uploads, 0) as "openUploads"
       from batch_exports e cross join places p left join current c using (version) left join leftovers l using (version)
            left join uploaded u using (version)
      where e.id = $1;

-- tenants/offboardings.ts keepPlaces
-- takes $1 uuid, $2 uuid, $3 integer, $4 text, $5 text, $6 text, $7 text, $8 bigint, $9 bigint, $10 bigint, $11 bigint, $12 bigint, $13 bigint
insert into offboarding_places (offboarding_id, export_id, version, export_name, destination_type, address, place,
              files, manifests, rows, bytes, leftover_files, open_uploads)
       select o.id, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13 from offboardings o
        where o.id = $1 or o.completed_at is null and exists (select from batch_exports e join projects p on p.id = e.team_id
                where e.id = $2 and p.organization_id = o.organization_id and (o.team_id is null or o.team_id = p.id))
        order by o.id on conflict do nothing;

-- tenants/offboardings.ts listRemainingFiles
-- takes $1 uuid, $2 bigint
-- gives destinationType text, address text, place text, exports bigint, files bigint, manifests bigint, rows bigint, bytes bigint, leftoverFiles bigint, openUploads bigint
select destination_type as "destinationType", address, place, count(distinct export_id) as exports,
            sum(files)::bigint as files, sum(manifests)::bigint as manifests, sum(rows)::bigint as rows, sum(bytes)::bigint as bytes,
            sum(leftover_files)::bigint as "leftoverFiles", sum(open_uploads)::bigint as "openUploads"
       from offboarding_places
      where offboarding_id = $1 and address is not null and files + manifests + leftover_files + open_uploads > 0
      group by 1, 2, 3 order by 2, 3, 1 limit $2;

-- tenants/rate-limits.ts reserveRequests
-- takes $1 uuid
insert into rate_limits (key_id) values ($1) on conflict do nothing;

-- tenants/rate-limits.ts reserve
-- takes $1 uuid, $2 bigint, $3 bigint, $4 bigint
-- gives granted bigint, minuteLeft bigint, hourLeft bigint, minuteEndsInMs bigint, hourEndsInMs bigint
with current as (
       select case when minute_fresh then minute_started_at else now() end as minute_started_at,
              case when hour_fresh then hour_started_at else now() end as hour_started_at,
              $2::bigint - case when minute_fresh then minute_used else 0 end as minute_left,
              $3::bigint - case when hour_fresh then hour_used else 0 end as hour_left
         from (select *, minute_started_at > now() - interval '1 minute' as minute_fresh,
                      hour_started_at > now() - interval '1 hour' as hour_fresh
                 from rate_limits where key_id = $1 for update) as stored
     ), taken as (
       select *, case when least(minute_left, hour_left) < $4::bigint then 0
                      else greatest($4::bigint, ceil(least(minute_left, hour_left) / 16.0))::bigint end as granted
         from current
     )
     update rate_limits r
        set minute_started_at = t.minute_started_at, minute_used = $2::bigint - t.minute_left + t.granted,
            hour_started_at = t.hour_started_at, hour_used = $3::bigint - t.hour_left + t.granted
       from taken t where r.key_id = $1
     returning t.granted, t.minute_left - t.granted as "minuteLeft", t.hour_left - t.granted as "hourLeft",
       ceil(extract(epoch from t.minute_started_at + interval '1 minute' - now()) * 1000)::bigint as "minuteEndsInMs",
       ceil(extract(epoch from t.hour_started_at + interval '1 hour' - now()) * 1000)::bigint as "hourEndsInMs";

-- tenants/sealed-secrets.ts listSealedSecrets
-- gives row text, identity text, box bytea
select ctid::text as row, concat("id") as identity, destination_secrets as box
         from batch_exports where destination_secrets is not null;

-- tenants/sealed-secrets.ts listSealedSecrets
-- gives row text, identity text, box bytea
select ctid::text as row, concat("export_id") as identity, destination_secrets as box
         from former_destinations where destination_secrets is not null;

-- tenants/sealed-secrets.ts listSealedSecrets
-- gives row text, identity text, box bytea
select ctid::text as row, concat('notification-target:', "id") as identity, secrets as box
         from notification_targets where secrets is not null;

-- tenants/sealed-secrets.ts listSealedSecrets
-- gives row text, identity text, box bytea
select ctid::text as row, concat('transformation-config:', "id") as identity, config_secrets as box
         from pipeline_transformation_configs where config_secrets is not null;

-- tenants/sealed-secrets.ts listSealedSecrets
-- gives row text, identity text, box bytea
select ctid::text as row, concat('erasure:', "id") as identity, erases as box
         from runs where erases is not null;

-- tenants/sealed-secrets.ts listSealedSecrets
-- gives row text, identity text, box bytea
select ctid::text as row, concat('signing-key:', "key_id") as identity, private_key as box
         from signing_keys where private_key is not null;

-- tenants/sealed-secrets.ts listSealedSecrets
-- gives row text, identity text, box bytea
select ctid::text as row, concat('transformation-config:', "config_id") as identity, config_secrets as box
         from transformation_versions where config_secrets is not null;

-- tenants/sealed-secrets.ts replaceSealedSecrets
-- takes $1 tid, $2 bytea, $3 bytea
-- gives ?column? integer
update batch_exports set destination_secrets = $3 where ctid = $1::tid and destination_secrets = $2 returning 1;

-- tenants/sealed-secrets.ts replaceSealedSecrets
-- takes $1 tid, $2 bytea, $3 bytea
-- gives ?column? integer
update former_destinations set destination_secrets = $3 where ctid = $1::tid and destination_secrets = $2 returning 1;

-- tenants/sealed-secrets.ts replaceSealedSecrets
-- takes $1 tid, $2 bytea, $3 bytea
-- gives ?column? integer
update notification_targets set secrets = $3 where ctid = $1::tid and secrets = $2 returning 1;

-- tenants/sealed-secrets.ts replaceSealedSecrets
-- takes $1 tid, $2 bytea, $3 bytea
-- gives ?column? integer
update pipeline_transformation_configs set config_secrets = $3 where ctid = $1::tid and config_secrets = $2 returning 1;

-- tenants/sealed-secrets.ts replaceSealedSecrets
-- takes $1 tid, $2 bytea, $3 bytea
-- gives ?column? integer
update runs set erases = $3 where ctid = $1::tid and erases = $2 returning 1;

-- tenants/sealed-secrets.ts replaceSealedSecrets
-- takes $1 tid, $2 bytea, $3 bytea
-- gives ?column? integer
update signing_keys set private_key = $3 where ctid = $1::tid and private_key = $2 returning 1;

-- tenants/sealed-secrets.ts replaceSealedSecrets
-- takes $1 tid, $2 bytea, $3 bytea
-- gives ?column? integer
update transformation_versions set config_secrets = $3 where ctid = $1::tid and config_secrets = $2 returning 1;

-- tenants/sealed-secrets.ts listSealedColumns
-- gives table text, column text, template text
select a.attrelid::regclass::text as table, quote_ident(a.attname) as column,
            substr(d.description, length('sealed: ') + 1) as template
       from pg_description d
       join pg_attribute a on a.attrelid = d.objoid and a.attnum = d.objsubid
       join pg_class c on c.oid = a.attrelid
      where d.classoid = 'pg_class'::regclass and d.description like 'sealed: %'
        and c.relnamespace = current_schema()::regnamespace
      order by 1, 2;

-- tenants/sealed-secrets.ts registerEncryptionKeys
-- takes $1 text, $2 text[]
-- gives id text
with registered as (
       insert into encryption_keys (id) values ($1) on conflict do nothing
     )
     select id from encryption_keys where id <> all ($2::text[]);

-- tenants/sealed-secrets.ts forgetOtherEncryptionKeys
-- takes $1 text
-- gives id text
delete from encryption_keys where id <> $1 returning id;

-- tenants/stored-bytes.ts reserveStoredBytes
-- takes $1 uuid
insert into stored_bytes as s (organization_id) values ($1) on conflict (organization_id) do update
        set day_started_at = now(), used = 0 where s.day_started_at <= now() - interval '1 day';

-- tenants/stored-bytes.ts reserveStoredBytes
-- takes $1 uuid, $2 bigint, $3 bigint
-- gives granted double precision, left double precision, endsInMs double precision
update stored_bytes s set used = s.used + t.granted
       from (select case when $3::bigint - used < $2::bigint then 0 else least($3::bigint - used, greatest($2::bigint, 1048576)) end as granted
               from stored_bytes where organization_id = $1 for update) t
      where s.organization_id = $1
     returning t.granted::float8 as granted, ($3::bigint - s.used)::float8 as left,
               (extract(epoch from s.day_started_at + interval '1 day' - now()) * 1000)::float8 as "endsInMs";

-- tenants/stored-bytes.ts countStoredBytes
-- takes $1 integer, $2 bigint, $3 bigint
-- gives organization_id uuid
insert into stored_bytes as s (organization_id, used) select organization_id, $2::bigint from projects where id = $1
     on conflict (organization_id) do update
        set day_started_at = case when s.day_started_at <= now() - interval '1 day' then now() else s.day_started_at end,
            used = case when s.day_started_at <= now() - interval '1 day' then 0 else s.used end + excluded.used
      where s.day_started_at <= now() - interval '1 day' or s.used + excluded.used <= $3::bigint
     returning organization_id;

-- tenants/tenant-rows.ts deleterOf
-- takes $1 uuid
-- gives rows bigint, sources text[]
with gone as (
     delete from outbox where ctid = any (array(select t.ctid from outbox t where t.export_id = $1 limit 2000)) returning null::jsonb as chain
   )
   select (select count(*) from gone) as rows, coalesce(array_agg(distinct step ->> 'source') filter (where step ? 'source'), '{}') as sources
     from gone cross join lateral jsonb_array_elements(case when jsonb_typeof(chain) = 'array' then chain else '[]' end) step;

-- tenants/tenant-rows.ts deleterOf
-- takes $1 uuid
-- gives rows bigint, sources text[]
with gone as (
     delete from verifications where ctid = any (array(select t.ctid from verifications t where t.export_id = $1 limit 2000)) returning null::jsonb as chain
   )
   select (select count(*) from gone) as rows, coalesce(array_agg(distinct step ->> 'source') filter (where step ? 'source'), '{}') as sources
     from gone cross join lateral jsonb_array_elements(case when jsonb_typeof(chain) = 'array' then chain else '[]' end) step;

-- tenants/tenant-rows.ts deleterOf
-- takes $1 uuid
-- gives rows bigint, sources text[]
with gone as (
     delete from log_entries where ctid = any (array(select t.ctid from log_entries t where t.export_id = $1 limit 2000)) returning null::jsonb as chain
   )
   select (select count(*) from gone) as rows, coalesce(array_agg(distinct step ->> 'source') filter (where step ? 'source'), '{}') as sources
     from gone cross join lateral jsonb_array_elements(case when jsonb_typeof(chain) = 'array' then chain else '[]' end) step;

-- tenants/tenant-rows.ts deleterOf
-- takes $1 uuid
-- gives rows bigint, sources text[]
with gone as (
     delete from log_counts where ctid = any (array(select t.ctid from log_counts t where t.export_id = $1 limit 2000)) returning null::jsonb as chain
   )
   select (select count(*) from gone) as rows, coalesce(array_agg(distinct step ->> 'source') filter (where step ? 'source'), '{}') as sources
     from gone cross join lateral jsonb_array_elements(case when jsonb_typeof(chain) = 'array' then chain else '[]' end) step;

-- tenants/tenant-rows.ts deleterOf
-- takes $1 uuid
-- gives rows bigint, sources text[]
with gone as (
     delete from receipts where ctid = any (array(select t.ctid from receipts t where t.export_id = $1 limit 2000)) returning recipe -> 'chain' as chain
   )
   select (select count(*) from gone) as rows, coalesce(array_agg(distinct step ->> 'source') filter (where step ? 'source'), '{}') as sources
     from gone cross join lateral jsonb_array_elements(case when jsonb_typeof(chain) = 'array' then chain else '[]' end) step;

-- tenants/tenant-rows.ts deleterOf
-- takes $1 uuid
-- gives rows bigint, sources text[]
with gone as (
     delete from superseded_receipts where ctid = any (array(select t.ctid from superseded_receipts t where t.export_id = $1 limit 2000)) returning null::jsonb as chain
   )
   select (select count(*) from gone) as rows, coalesce(array_agg(distinct step ->> 'source') filter (where step ? 'source'), '{}') as sources
     from gone cross join lateral jsonb_array_elements(case when jsonb_typeof(chain) = 'array' then chain else '[]' end) step;

-- tenants/tenant-rows.ts deleterOf
-- takes $1 uuid
-- gives rows bigint, sources text[]
with gone as (
     delete from stated_intervals where ctid = any (array(select t.ctid from stated_intervals t where t.export_id = $1 limit 2000)) returning null::jsonb as chain
   )
   select (select count(*) from gone) as rows, coalesce(array_agg(distinct step ->> 'source') filter (where step ? 'source'), '{}') as sources
     from gone cross join lateral jsonb_array_elements(case when jsonb_typeof(chain) = 'array' then chain else '[]' end) step;

-- tenants/tenant-rows.ts deleterOf
-- takes $1 uuid
-- gives rows bigint, sources text[]
with gone as (
     delete from statements where ctid = any (array(select t.ctid from statements t where t.export_id = $1 limit 2000)) returning null::jsonb as chain
   )
   select (select count(*) from gone) as rows, coalesce(array_agg(distinct step ->> 'source') filter (where step ? 'source'), '{}') as sources
     from gone cross join lateral jsonb_array_elements(case when jsonb_typeof(chain) = 'array' then chain else '[]' end) step;

-- tenants/tenant-rows.ts deleterOf
-- takes $1 uuid
-- gives rows bigint, sources text[]
with gone as (
     delete from statement_chains where ctid = any (array(select t.ctid from statement_chains t where t.export_id = $1 limit 2000)) returning null::jsonb as chain
   )
   select (select count(*) from gone) as rows, coalesce(array_agg(distinct step ->> 'source') filter (where step ? 'source'), '{}') as sources
     from gone cross join lateral jsonb_array_elements(case when jsonb_typeof(chain) = 'array' then chain else '[]' end) step;

-- tenants/tenant-rows.ts deleterOf
-- takes $1 uuid
-- gives rows bigint, sources text[]
with gone as (
     delete from late_intervals where ctid = any (array(select t.ctid from late_intervals t where t.export_id = $1 limit 2000)) returning null::jsonb as chain
   )
   select (select count(*) from gone) as rows, coalesce(array_agg(distinct step ->> 'source') filter (where step ? 'source'), '{}') as sources
     from gone cross join lateral jsonb_array_elements(case when jsonb_typeof(chain) = 'array' then chain else '[]' end) step;

-- tenants/tenant-rows.ts deleterOf
-- takes $1 uuid
-- gives rows bigint, sources text[]
with gone as (
     delete from deadline_checks where ctid = any (array(select t.ctid from deadline_checks t where t.export_id = $1 limit 2000)) returning null::jsonb as chain
   )
   select (select count(*) from gone) as rows, coalesce(array_agg(distinct step ->> 'source') filter (where step ? 'source'), '{}') as sources
     from gone cross join lateral jsonb_array_elements(case when jsonb_typeof(chain) = 'array' then chain else '[]' end) step;

-- tenants/tenant-rows.ts deleterOf
-- takes $1 uuid
-- gives rows bigint, sources text[]
with gone as (
     delete from automatic_pauses where ctid = any (array(select t.ctid from automatic_pauses t where t.export_id = $1 limit 2000)) returning null::jsonb as chain
   )
   select (select count(*) from gone) as rows, coalesce(array_agg(distinct step ->> 'source') filter (where step ? 'source'), '{}') as sources
     from gone cross join lateral jsonb_array_elements(case when jsonb_typeof(chain) = 'array' then chain else '[]' end) step;

-- tenants/tenant-rows.ts deleterOf
-- takes $1 uuid
-- gives rows bigint, sources text[]
with gone as (
     delete from holes where ctid = any (array(select t.ctid from holes t where t.export_id = $1 limit 2000)) returning null::jsonb as chain
   )
   select (select count(*) from gone) as rows, coalesce(array_agg(distinct step ->> 'source') filter (where step ? 'source'), '{}') as sources
     from gone cross join lateral jsonb_array_elements(case when jsonb_typeof(chain) = 'array' then chain else '[]' end) step;

-- tenants/tenant-rows.ts deleterOf
-- takes $1 uuid
-- gives rows bigint, sources text[]
with gone as (
     delete from accepted_intervals where ctid = any (array(select t.ctid from accepted_intervals t where t.export_id = $1 limit 2000)) returning null::jsonb as chain
   )
   select (select count(*) from gone) as rows, coalesce(array_agg(distinct step ->> 'source') filter (where step ? 'source'), '{}') as sources
     from gone cross join lateral jsonb_array_elements(case when jsonb_typeof(chain) = 'array' then chain else '[]' end) step;

-- tenants/tenant-rows.ts deleterOf
-- takes $1 uuid
-- gives rows bigint, sources text[]
with gone as (
     delete from leftover_files where ctid = any (array(select t.ctid from leftover_files t where t.export_id = $1 limit 2000)) returning null::jsonb as chain
   )
   select (select count(*) from gone) as rows, coalesce(array_agg(distinct step ->> 'source') filter (where step ? 'source'), '{}') as sources
     from gone cross join lateral jsonb_array_elements(case when jsonb_typeof(chain) = 'array' then chain else '[]' end) step;

-- tenants/tenant-rows.ts deleterOf
-- takes $1 uuid
-- gives rows bigint, sources text[]
with gone as (
     delete from ticks where ctid = any (array(select t.ctid from ticks t where t.export_id = $1 limit 2000)) returning null::jsonb as chain
   )
   select (select count(*) from gone) as rows, coalesce(array_agg(distinct step ->> 'source') filter (where step ? 'source'), '{}') as sources
     from gone cross join lateral jsonb_array_elements(case when jsonb_typeof(chain) = 'array' then chain else '[]' end) step;

-- tenants/tenant-rows.ts deleterOf
-- takes $1 uuid
-- gives rows bigint, sources text[]
with gone as (
     delete from notification_deliveries where ctid = any (array(select t.ctid from notification_events v join notification_deliveries t on t.event_id = v.id where v.export_id = $1 limit 2000)) returning null::jsonb as chain
   )
   select (select count(*) from gone) as rows, coalesce(array_agg(distinct step ->> 'source') filter (where step ? 'source'), '{}') as sources
     from gone cross join lateral jsonb_array_elements(case when jsonb_typeof(chain) = 'array' then chain else '[]' end) step;

-- tenants/tenant-rows.ts deleterOf
-- takes $1 uuid
-- gives rows bigint, sources text[]
with gone as (
     delete from notification_events where ctid = any (array(select t.ctid from notification_events t where t.export_id = $1 limit 2000)) returning null::jsonb as chain
   )
   select (select count(*) from gone) as rows, coalesce(array_agg(distinct step ->> 'source') filter (where step ? 'source'), '{}') as sources
     from gone cross join lateral jsonb_array_elements(case when jsonb_typeof(chain) = 'array' then chain else '[]' end) step;

-- tenants/tenant-rows.ts deleterOf
-- takes $1 uuid
-- gives rows bigint, sources text[]
with gone as (
     delete from upload_places where ctid = any (array(select t.ctid from upload_places t where t.export_id = $1 limit 2000)) returning null::jsonb as chain
   )
   select (select count(*) from gone) as rows, coalesce(array_agg(distinct step ->> 'source') filter (where step ? 'source'), '{}') as sources
     from gone cross join lateral jsonb_array_elements(case when jsonb_typeof(chain) = 'array' then chain else '[]' end) step;

-- tenants/tenant-rows.ts deleterOf
-- takes $1 uuid
-- gives rows bigint, sources text[]
with gone as (
     delete from runs where ctid = any (array(select t.ctid from runs t where t.export_id = $1 limit 2000)) returning chain as chain
   )
   select (select count(*) from gone) as rows, coalesce(array_agg(distinct step ->> 'source') filter (where step ? 'source'), '{}') as sources
     from gone cross join lateral jsonb_array_elements(case when jsonb_typeof(chain) = 'array' then chain else '[]' end) step;

-- tenants/tenant-rows.ts deleterOf
-- takes $1 uuid
-- gives rows bigint, sources text[]
with gone as (
     delete from backfills where ctid = any (array(select t.ctid from backfills t where t.export_id = $1 limit 2000)) returning null::jsonb as chain
   )
   select (select count(*) from gone) as rows, coalesce(array_agg(distinct step ->> 'source') filter (where step ? 'source'), '{}') as sources
     from gone cross join lateral jsonb_array_elements(case when jsonb_typeof(chain) = 'array' then chain else '[]' end) step;

-- tenants/tenant-rows.ts deleterOf
-- takes $1 text
-- gives rows bigint, sources text[]
with gone as (
     delete from guarded_work where ctid = any (array(select t.ctid from guarded_work t where t.id = $1::text limit 2000)) returning null::jsonb as chain
   )
   select (select count(*) from gone) as rows, coalesce(array_agg(distinct step ->> 'source') filter (where step ? 'source'), '{}') as sources
     from gone cross join lateral jsonb_array_elements(case when jsonb_typeof(chain) = 'array' then chain else '[]' end) step;

-- tenants/tenant-rows.ts deleterOf
-- takes $1 uuid
-- gives rows bigint, sources text[]
with gone as (
     delete from former_destinations where ctid = any (array(select t.ctid from former_destinations t where t.export_id = $1 limit 2000)) returning null::jsonb as chain
   )
   select (select count(*) from gone) as rows, coalesce(array_agg(distinct step ->> 'source') filter (where step ? 'source'), '{}') as sources
     from gone cross join lateral jsonb_array_elements(case when jsonb_typeof(chain) = 'array' then chain else '[]' end) step;

-- tenants/tenant-rows.ts deleterOf
-- takes $1 uuid
-- gives rows bigint, sources text[]
with gone as (
     delete from batch_exports where ctid = any (array(select t.ctid from batch_exports t where t.id = $1 limit 2000)) returning null::jsonb as chain
   )
   select (select count(*) from gone) as rows, coalesce(array_agg(distinct step ->> 'source') filter (where step ? 'source'), '{}') as sources
     from gone cross join lateral jsonb_array_elements(case when jsonb_typeof(chain) = 'array' then chain else '[]' end) step;

-- tenants/tenant-rows.ts deleterOf
-- takes $1 uuid, $2 integer
-- gives rows bigint, sources text[]
with gone as (
     delete from transformation_jobs where ctid = any (array(select t.ctid from transformation_jobs t join pipeline_transformation_configs c on c.id = t.config_id where c.team_id in (select id from projects where organization_id = $1 and ($2::int is null or id = $2)) limit 2000)) returning null::jsonb as chain
   )
   select (select count(*) from gone) as rows, coalesce(array_agg(distinct step ->> 'source') filter (where step ? 'source'), '{}') as sources
     from gone cross join lateral jsonb_array_elements(case when jsonb_typeof(chain) = 'array' then chain else '[]' end) step;

-- tenants/tenant-rows.ts deleterOf
-- takes $1 uuid, $2 integer
-- gives rows bigint, sources text[]
with gone as (
     delete from transformation_rates where ctid = any (array(select t.ctid from transformation_rates t join pipeline_transformation_configs c on c.id = t.config_id where c.team_id in (select id from projects where organization_id = $1 and ($2::int is null or id = $2)) limit 2000)) returning null::jsonb as chain
   )
   select (select count(*) from gone) as rows, coalesce(array_agg(distinct step ->> 'source') filter (where step ? 'source'), '{}') as sources
     from gone cross join lateral jsonb_array_elements(case when jsonb_typeof(chain) = 'array' then chain else '[]' end) step;

-- tenants/tenant-rows.ts deleterOf
-- takes $1 uuid, $2 integer
-- gives rows bigint, sources text[]
with gone as (
     delete from pipeline_transformation_configs where ctid = any (array(select t.ctid from pipeline_transformation_configs t where t.team_id in (select id from projects where organization_id = $1 and ($2::int is null or id = $2)) limit 2000)) returning null::jsonb as chain
   )
   select (select count(*) from gone) as rows, coalesce(array_agg(distinct step ->> 'source') filter (where step ? 'source'), '{}') as sources
     from gone cross join lateral jsonb_array_elements(case when jsonb_typeof(chain) = 'array' then chain else '[]' end) step;

-- tenants/tenant-rows.ts deleterOf
-- takes $1 uuid, $2 integer
-- gives rows bigint, sources text[]
with gone as (
     delete from transformation_versions where ctid = any (array(select t.ctid from transformation_versions t where t.team_id in (select id from projects where organization_id = $1 and ($2::int is null or id = $2)) limit 2000)) returning null::jsonb as chain
   )
   select (select count(*) from gone) as rows, coalesce(array_agg(distinct step ->> 'source') filter (where step ? 'source'), '{}') as sources
     from gone cross join lateral jsonb_array_elements(case when jsonb_typeof(chain) = 'array' then chain else '[]' end) step;

-- tenants/tenant-rows.ts deleterOf
-- takes $1 uuid, $2 integer
-- gives rows bigint, sources text[]
with gone as (
     delete from worker_seconds where ctid = any (array(select t.ctid from worker_seconds t where t.team_id in (select id from projects where organization_id = $1 and ($2::int is null or id = $2)) limit 2000)) returning null::jsonb as chain
   )
   select (select count(*) from gone) as rows, coalesce(array_agg(distinct step ->> 'source') filter (where step ? 'source'), '{}') as sources
     from gone cross join lateral jsonb_array_elements(case when jsonb_typeof(chain) = 'array' then chain else '[]' end) step;

-- tenants/tenant-rows.ts deleterOf
-- takes $1 uuid, $2 integer
-- gives rows bigint, sources text[]
with gone as (
     delete from notification_deliveries where ctid = any (array(select d.ctid from notification_targets t join notification_deliveries d on d.target_id = t.id where t.organization_id = $1 and ($2::int is null or t.team_id = $2) limit 2000)) returning null::jsonb as chain
   )
   select (select count(*) from gone) as rows, coalesce(array_agg(distinct step ->> 'source') filter (where step ? 'source'), '{}') as sources
     from gone cross join lateral jsonb_array_elements(case when jsonb_typeof(chain) = 'array' then chain else '[]' end) step;

-- tenants/tenant-rows.ts deleterOf
-- takes $1 uuid, $2 integer
-- gives rows bigint, sources text[]
with gone as (
     delete from notification_deliveries where ctid = any (array(select d.ctid from notification_events t join notification_deliveries d on d.event_id = t.id where t.organization_id = $1 and ($2::int is null or t.team_id = $2) limit 2000)) returning null::jsonb as chain
   )
   select (select count(*) from gone) as rows, coalesce(array_agg(distinct step ->> 'source') filter (where step ? 'source'), '{}') as sources
     from gone cross join lateral jsonb_array_elements(case when jsonb_typeof(chain) = 'array' then chain else '[]' end) step;

-- tenants/tenant-rows.ts deleterOf
-- takes $1 uuid, $2 integer
-- gives rows bigint, sources text[]
with gone as (
     delete from notification_events where ctid = any (array(select t.ctid from notification_events t where t.organization_id = $1 and ($2::int is null or t.team_id = $2) limit 2000)) returning null::jsonb as chain
   )
   select (select count(*) from gone) as rows, coalesce(array_agg(distinct step ->> 'source') filter (where step ? 'source'), '{}') as sources
     from gone cross join lateral jsonb_array_elements(case when jsonb_typeof(chain) = 'array' then chain else '[]' end) step;

-- tenants/tenant-rows.ts deleterOf
-- takes $1 uuid, $2 integer
-- gives rows bigint, sources text[]
with gone as (
     delete from notification_targets where ctid = any (array(select t.ctid from notification_targets t where t.organization_id = $1 and ($2::int is null or t.team_id = $2) limit 2000)) returning null::jsonb as chain
   )
   select (select count(*) from gone) as rows, coalesce(array_agg(distinct step ->> 'source') filter (where step ? 'source'), '{}') as sources
     from gone cross join lateral jsonb_array_elements(case when jsonb_typeof(chain) = 'array' then chain else '[]' end) step;

-- tenants/tenant-rows.ts deleterOf
-- takes $1 uuid, $2 integer
-- gives rows bigint, sources text[]
with gone as (
     delete from plugins where ctid = any (array(select t.ctid from plugins t where t.organization_id = $1 and $2::int is null limit 2000)) returning jsonb_build_array(jsonb_build_object('source', source_sha256)) as chain
   )
   select (select count(*) from gone) as rows, coalesce(array_agg(distinct step ->> 'source') filter (where step ? 'source'), '{}') as sources
     from gone cross join lateral jsonb_array_elements(case when jsonb_typeof(chain) = 'array' then chain else '[]' end) step;

-- tenants/tenant-rows.ts deleterOf
-- takes $1 uuid, $2 integer
-- gives rows bigint, sources text[]
with gone as (
     delete from stored_bytes where ctid = any (array(select t.ctid from stored_bytes t where t.organization_id = $1 and $2::int is null limit 2000)) returning null::jsonb as chain
   )
   select (select count(*) from gone) as rows, coalesce(array_agg(distinct step ->> 'source') filter (where step ? 'source'), '{}') as sources
     from gone cross join lateral jsonb_array_elements(case when jsonb_typeof(chain) = 'array' then chain else '[]' end) step;

-- tenants/tenant-rows.ts deleterOf
-- takes $1 uuid, $2 integer
-- gives rows bigint, sources text[]
with gone as (
     delete from activity where ctid = any (array(select t.ctid from activity t where t.organization_id = $1 and ($2::int is null or t.team_id = $2) limit 2000)) returning null::jsonb as chain
   )
   select (select count(*) from gone) as rows, coalesce(array_agg(distinct step ->> 'source') filter (where step ? 'source'), '{}') as sources
     from gone cross join lateral jsonb_array_elements(case when jsonb_typeof(chain) = 'array' then chain else '[]' end) step;

-- tenants/tenant-rows.ts deleterOf
-- takes $1 uuid, $2 integer
-- gives rows bigint, sources text[]
with gone as (
     delete from activity where ctid = any (array(select t.ctid from activity t where t.subject_type = 'api_key' and t.subject_id in (select k.id::text from api_keys k where k.organization_id = $1 and ($2::int is null or k.project_ids <@ array[$2::int])) limit 2000)) returning null::jsonb as chain
   )
   select (select count(*) from gone) as rows, coalesce(array_agg(distinct step ->> 'source') filter (where step ? 'source'), '{}') as sources
     from gone cross join lateral jsonb_array_elements(case when jsonb_typeof(chain) = 'array' then chain else '[]' end) step;

-- tenants/tenant-rows.ts deleterOf
-- takes $1 uuid, $2 integer
-- gives rows bigint, sources text[]
with gone as (
     delete from idempotency_keys where ctid = any (array(select t.ctid from idempotency_keys t where t.key_id in (select k.id from api_keys k where k.organization_id = $1 and ($2::int is null or k.project_ids <@ array[$2::int]))
       or $2::int is not null and t.key_id in (select k.id from api_keys k where k.organization_id = $1)
          and t.response ~ ('"team_id": ?' || $2::int || '[,}]') limit 2000)) returning null::jsonb as chain
   )
   select (select count(*) from gone) as rows, coalesce(array_agg(distinct step ->> 'source') filter (where step ? 'source'), '{}') as sources
     from gone cross join lateral jsonb_array_elements(case when jsonb_typeof(chain) = 'array' then chain else '[]' end) step;

-- tenants/tenant-rows.ts deleterOf
-- takes $1 uuid, $2 integer
-- gives rows bigint, sources text[]
with gone as (
     delete from rate_limits where ctid = any (array(select t.ctid from rate_limits t where t.key_id in (select k.id from api_keys k where k.organization_id = $1 and ($2::int is null or k.project_ids <@ array[$2::int])) limit 2000)) returning null::jsonb as chain
   )
   select (select count(*) from gone) as rows, coalesce(array_agg(distinct step ->> 'source') filter (where step ? 'source'), '{}') as sources
     from gone cross join lateral jsonb_array_elements(case when jsonb_typeof(chain) = 'array' then chain else '[]' end) step;

-- tenants/tenant-rows.ts deleterOf
-- takes $1 uuid, $2 integer
-- gives rows bigint, sources text[]
with gone as (
     delete from api_keys where ctid = any (array(select t.ctid from api_keys t where t.organization_id = $1 and ($2::int is null or t.project_ids <@ array[$2::int]) limit 50)) returning null::jsonb as chain
   )
   select (select count(*) from gone) as rows, coalesce(array_agg(distinct step ->> 'source') filter (where step ? 'source'), '{}') as sources
     from gone cross join lateral jsonb_array_elements(case when jsonb_typeof(chain) = 'array' then chain else '[]' end) step;

-- tenants/tenant-rows.ts deleterOf
-- takes $1 uuid, $2 integer
-- gives rows bigint, sources text[]
with gone as (
     delete from projects where ctid = any (array(select t.ctid from projects t where t.id in (select id from projects where organization_id = $1 and ($2::int is null or id = $2)) limit 2000)) returning null::jsonb as chain
   )
   select (select count(*) from gone) as rows, coalesce(array_agg(distinct step ->> 'source') filter (where step ? 'source'), '{}') as sources
     from gone cross join lateral jsonb_array_elements(case when jsonb_typeof(chain) = 'array' then chain else '[]' end) step;

-- tenants/tenant-rows.ts deleterOf
-- takes $1 uuid, $2 integer
-- gives rows bigint, sources text[]
with gone as (
     delete from organizations where ctid = any (array(select t.ctid from organizations t where t.id = $1 and $2::int is null limit 2000)) returning null::jsonb as chain
   )
   select (select count(*) from gone) as rows, coalesce(array_agg(distinct step ->> 'source') filter (where step ? 'source'), '{}') as sources
     from gone cross join lateral jsonb_array_elements(case when jsonb_typeof(chain) = 'array' then chain else '[]' end) step;

-- tenants/tenant-rows.ts forgetActingKeys
-- takes $1 uuid, $2 integer
update activity set key_id = null where key_id in (select k.id from api_keys k where k.organization_id = $1 and ($2::int is null or k.project_ids <@ array[$2::int]))
        and not coalesce(organization_id = $1 and $2::int is null, false);

-- tenants/tenant-rows.ts listExportsUnderWay
-- takes $1 uuid, $2 integer, $3 bigint
-- gives id uuid
select e.id from batch_exports e where e.team_id in (select id from projects where organization_id = $1 and ($2::int is null or id = $2)) and (e.deleted_at is null
        or exists (select from runs r where r.export_id = e.id and r.status in ('Starting', 'Running') and r.committing_at is null)
        or exists (select from backfills b where b.export_id = e.id and b.status = 'Running'))
      limit $3;

-- tenants/tenant-rows.ts endSilentCommits
-- takes $1 uuid, $2 integer
-- gives id uuid
select r.id from runs r join batch_exports e on e.id = r.export_id
      where e.team_id in (select id from projects where organization_id = $1 and ($2::int is null or id = $2)) and r.status in ('Starting', 'Running') and r.status = 'Running' and r.committing_at is not null and r.lease_expires_at < now()
      order by r.id limit 2000 for no key update of r;

-- tenants/tenant-rows.ts endSilentCommits
-- takes $1 uuid[]
update runs set status = 'Cancelled', erases = null, fence = fence + 1, finished_at = now(), last_updated_at = now(), lease_holder = null
      where id = any ($1::uuid[]);

-- tenants/tenant-rows.ts endSilentCommits
-- takes $1 uuid, $2 integer
update upload_places p set look_at = now() from batch_exports e
      where e.id = p.export_id and e.team_id in (select id from projects where organization_id = $1 and ($2::int is null or id = $2)) and p.tries = 0 and p.look_at > now()
        and not exists (select from runs r where r.export_id = e.id and r.status in ('Starting', 'Running'));

-- tenants/tenant-rows.ts endSilentCommits
-- takes $1 uuid, $2 integer
select from runs r join batch_exports e on e.id = r.export_id
      where e.team_id in (select id from projects where organization_id = $1 and ($2::int is null or id = $2)) and r.status in ('Starting', 'Running') limit 1;

-- tenants/tenant-rows.ts hasOpenUploads
-- takes $1 uuid, $2 integer
select from upload_places p join batch_exports e on e.id = p.export_id where e.team_id in (select id from projects where organization_id = $1 and ($2::int is null or id = $2)) limit 1;

-- tenants/tenant-rows.ts findAnyExport
-- takes $1 uuid, $2 integer
-- gives id uuid, isUnderWay boolean
select e.id, e.deleted_at is null or exists (select from runs r where r.export_id = e.id and r.status in ('Starting', 'Running')) as "isUnderWay"
       from batch_exports e where e.team_id in (select id from projects where organization_id = $1 and ($2::int is null or id = $2)) limit 1;

-- tenants/tenant-rows.ts deleteUnusedSources
-- takes $1 uuid
select from plugin_sources s where s.sha256 = any ((select plugin_sources from offboardings where id = $1)::text[])
        and not exists (select from plugins p where p.source_sha256 = s.sha256) limit 1;

-- tenants/tenant-rows.ts deleteUnusedSources
-- takes $1 uuid
-- gives ?column? integer
with named as (
       select step ->> 'source' as sha256 from runs r, jsonb_array_elements(r.chain) step where r.chain is not null
       union select step ->> 'source' from receipts c, jsonb_array_elements(c.recipe -> 'chain') step
               where jsonb_typeof(c.recipe -> 'chain') = 'array'
     )
     delete from plugin_sources s where s.sha256 = any ((select plugin_sources from offboardings where id = $1)::text[])
        and not exists (select from plugins p where p.source_sha256 = s.sha256) and not exists (select from named n where n.sha256 = s.sha256)
     returning 1;

-- tenants/tenant-rows.ts deleteStragglers
-- takes $1 uuid
delete from log_entries where export_id in (select export_id from offboarding_places where offboarding_id = $1);

-- tenants/tenant-rows.ts deleteStragglers
-- takes $1 uuid
delete from log_counts where export_id in (select export_id from offboarding_places where offboarding_id = $1);

-- tenants/tenant-rows.ts deleteStragglers
delete from rate_limits l where not exists (select from api_keys k where k.id = l.key_id);

-- tenants/tenant-rows.ts deleteStragglers
delete from stored_bytes t where not exists (select from organizations o where o.id = t.organization_id);

-- tenants/tenant-rows.ts findGoneWork
-- takes $1 uuid[]
-- gives id uuid
select asked.id from unnest($1::uuid[]) as asked (id)
      where not exists (select from runs r where r.id = asked.id) and not exists (select from backfills b where b.id = asked.id);

-- tenants/tenants.ts insertOrganization
-- takes $1 text
-- gives id uuid, name text, createdAt timestamp with time zone, disabledAt timestamp with time zone
insert into organizations (name) values ($1) returning id, name, created_at as "createdAt", disabled_at as "disabledAt";

-- tenants/tenants.ts findOrganization
-- takes $1 uuid, $2 boolean
-- gives id uuid, name text, createdAt timestamp with time zone, disabledAt timestamp with time zone
select id, name, created_at as "createdAt", disabled_at as "disabledAt" from organizations where id = $1 and id <> '00000000-0000-0000-0000-000000000000' and ($2 or closed_at is null);

-- tenants/tenants.ts findTenantKey
-- takes $1 integer
-- gives tenantKey text
select coalesce(p.tenant_key, p.id::text) as "tenantKey" from projects p where p.id = $1;

-- tenants/tenants.ts listTenantKeys
-- takes $1 bigint
-- gives tenantKey text
select coalesce(p.tenant_key, p.id::text) as "tenantKey" from projects p where p.closed_at is null order by p.id limit $1;

-- tenants/tenants.ts insertProject
-- takes $1 uuid, $2 text, $3 text, $4 text
-- gives id integer, tenantKey text, organizationId uuid, name text, externalId uuid, createdAt timestamp with time zone, disabledAt timestamp with time zone
insert into projects (organization_id, name, tenant_key, tenant_identity) values ($1, $2, $3, $4)
     on conflict (coalesce(tenant_identity, id::text)) do nothing returning id, coalesce(projects.tenant_key, projects.id::text) as "tenantKey", organization_id as "organizationId", name, external_id as "externalId", created_at as "createdAt", disabled_at as "disabledAt";

-- tenants/tenants.ts findProject
-- takes $1 integer, $2 boolean
-- gives id integer, tenantKey text, organizationId uuid, name text, externalId uuid, createdAt timestamp with time zone, disabledAt timestamp with time zone
select id, coalesce(projects.tenant_key, projects.id::text) as "tenantKey", organization_id as "organizationId", name, external_id as "externalId", created_at as "createdAt", disabled_at as "disabledAt" from projects where id = $1 and ($2 or closed_at is null);

-- tenants/tenants.ts listProjects
-- takes $1 uuid
-- gives id integer, tenantKey text, organizationId uuid, name text, externalId uuid, createdAt timestamp with time zone, disabledAt timestamp with time zone
select id, coalesce(projects.tenant_key, projects.id::text) as "tenantKey", organization_id as "organizationId", name, external_id as "externalId", created_at as "createdAt", disabled_at as "disabledAt" from projects where organization_id = $1 and closed_at is null order by id;

-- tenants/tenants.ts byReach
-- takes $1 uuid, $2 integer
-- gives id uuid, teamId integer, name text, destinationType text, destinationConfig jsonb, destinationSecrets bytea, destinationSecretEnds jsonb, interval text, timezone text, offsetDay smallint, offsetHour smallint, model text, dslQuery text, querySchema jsonb, filters jsonb, transformations boolean, paused boolean, lastPausedAt timestamp with time zone, pausedReason text, pausedCode text, startAt timestamp with time zone, endAt timestamp with time zone, deadlineMinutes integer, deadlineAt text, warnMinutes integer, healForHours integer, statementShows text, lateSince timestamp with time zone, createdAt timestamp with time zone, lastUpdatedAt timestamp with time zone, schedule jsonb, highWaterMark bigint, failureStreak integer, lastSuccessAt timestamp with time zone
select e.id, e.team_id as "teamId", e.name, e.destination_type as "destinationType",
  e.destination_config as "destinationConfig", e.destination_secrets as "destinationSecrets",
  e.destination_secret_ends as "destinationSecretEnds",
  e."interval", e.timezone, e.offset_day as "offsetDay", e.offset_hour as "offsetHour", e.model,
  e.dsl_query as "dslQuery", e.query_schema as "querySchema", e.filters, e.transformations, e.paused,
  e.last_paused_at as "lastPausedAt", e.paused_reason as "pausedReason", e.paused_code as "pausedCode", e.start_at as "startAt",
  e.end_at as "endAt", e.deadline_minutes as "deadlineMinutes", e.deadline_at as "deadlineAt", e.warn_minutes as "warnMinutes", e.heal_for_hours as "healForHours", e.statement_shows as "statementShows", e.late_since as "lateSince",
  e.created_at as "createdAt", e.last_updated_at as "lastUpdatedAt",
  e.schedule, floor(extract(epoch from e.high_water_mark) * 1000)::bigint as "highWaterMark",
  e.failure_streak as "failureStreak", e.last_success_at as "lastSuccessAt" from batch_exports e
    where e.id = $1 and e.deleted_at is null and e.team_id = $2;

-- tenants/tenants.ts byReach
-- takes $1 integer, $2 bigint, $3 bigint
-- gives id uuid, teamId integer, name text, destinationType text, destinationConfig jsonb, destinationSecrets bytea, destinationSecretEnds jsonb, interval text, timezone text, offsetDay smallint, offsetHour smallint, model text, dslQuery text, querySchema jsonb, filters jsonb, transformations boolean, paused boolean, lastPausedAt timestamp with time zone, pausedReason text, pausedCode text, startAt timestamp with time zone, endAt timestamp with time zone, deadlineMinutes integer, deadlineAt text, warnMinutes integer, healForHours integer, statementShows text, lateSince timestamp with time zone, createdAt timestamp with time zone, lastUpdatedAt timestamp with time zone, schedule jsonb, highWaterMark bigint, failureStreak integer, lastSuccessAt timestamp with time zone, count bigint
select e.id, e.team_id as "teamId", e.name, e.destination_type as "destinationType",
  e.destination_config as "destinationConfig", e.destination_secrets as "destinationSecrets",
  e.destination_secret_ends as "destinationSecretEnds",
  e."interval", e.timezone, e.offset_day as "offsetDay", e.offset_hour as "offsetHour", e.model,
  e.dsl_query as "dslQuery", e.query_schema as "querySchema", e.filters, e.transformations, e.paused,
  e.last_paused_at as "lastPausedAt", e.paused_reason as "pausedReason", e.paused_code as "pausedCode", e.start_at as "startAt",
  e.end_at as "endAt", e.deadline_minutes as "deadlineMinutes", e.deadline_at as "deadlineAt", e.warn_minutes as "warnMinutes", e.heal_for_hours as "healForHours", e.statement_shows as "statementShows", e.late_since as "lateSince",
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

-- tenants/tenants.ts byReach
-- takes $1 uuid, $2 uuid
-- gives id uuid, teamId integer, name text, destinationType text, destinationConfig jsonb, destinationSecrets bytea, destinationSecretEnds jsonb, interval text, timezone text, offsetDay smallint, offsetHour smallint, model text, dslQuery text, querySchema jsonb, filters jsonb, transformations boolean, paused boolean, lastPausedAt timestamp with time zone, pausedReason text, pausedCode text, startAt timestamp with time zone, endAt timestamp with time zone, deadlineMinutes integer, deadlineAt text, warnMinutes integer, healForHours integer, statementShows text, lateSince timestamp with time zone, createdAt timestamp with time zone, lastUpdatedAt timestamp with time zone, schedule jsonb, highWaterMark bigint, failureStreak integer, lastSuccessAt timestamp with time zone
select e.id, e.team_id as "teamId", e.name, e.destination_type as "destinationType",
  e.destination_config as "destinationConfig", e.destination_secrets as "destinationSecrets",
  e.destination_secret_ends as "destinationSecretEnds",
  e."interval", e.timezone, e.offset_day as "offsetDay", e.offset_hour as "offsetHour", e.model,
  e.dsl_query as "dslQuery", e.query_schema as "querySchema", e.filters, e.transformations, e.paused,
  e.last_paused_at as "lastPausedAt", e.paused_reason as "pausedReason", e.paused_code as "pausedCode", e.start_at as "startAt",
  e.end_at as "endAt", e.deadline_minutes as "deadlineMinutes", e.deadline_at as "deadlineAt", e.warn_minutes as "warnMinutes", e.heal_for_hours as "healForHours", e.statement_shows as "statementShows", e.late_since as "lateSince",
  e.created_at as "createdAt", e.last_updated_at as "lastUpdatedAt",
  e.schedule, floor(extract(epoch from e.high_water_mark) * 1000)::bigint as "highWaterMark",
  e.failure_streak as "failureStreak", e.last_success_at as "lastSuccessAt" from batch_exports e
    where e.id = $1 and e.deleted_at is null and e.team_id in (select id from projects where organization_id = $2);

-- tenants/tenants.ts byReach
-- takes $1 uuid, $2 bigint, $3 bigint
-- gives id uuid, teamId integer, name text, destinationType text, destinationConfig jsonb, destinationSecrets bytea, destinationSecretEnds jsonb, interval text, timezone text, offsetDay smallint, offsetHour smallint, model text, dslQuery text, querySchema jsonb, filters jsonb, transformations boolean, paused boolean, lastPausedAt timestamp with time zone, pausedReason text, pausedCode text, startAt timestamp with time zone, endAt timestamp with time zone, deadlineMinutes integer, deadlineAt text, warnMinutes integer, healForHours integer, statementShows text, lateSince timestamp with time zone, createdAt timestamp with time zone, lastUpdatedAt timestamp with time zone, schedule jsonb, highWaterMark bigint, failureStreak integer, lastSuccessAt timestamp with time zone, count bigint
select e.id, e.team_id as "teamId", e.name, e.destination_type as "destinationType",
  e.destination_config as "destinationConfig", e.destination_secrets as "destinationSecrets",
  e.destination_secret_ends as "destinationSecretEnds",
  e."interval", e.timezone, e.offset_day as "offsetDay", e.offset_hour as "offsetHour", e.model,
  e.dsl_query as "dslQuery", e.query_schema as "querySchema", e.filters, e.transformations, e.paused,
  e.last_paused_at as "lastPausedAt", e.paused_reason as "pausedReason", e.paused_code as "pausedCode", e.start_at as "startAt",
  e.end_at as "endAt", e.deadline_minutes as "deadlineMinutes", e.deadline_at as "deadlineAt", e.warn_minutes as "warnMinutes", e.heal_for_hours as "healForHours", e.statement_shows as "statementShows", e.late_since as "lateSince",
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

-- tenants/tenants.ts setDisabled
-- takes $1 integer, $2 boolean
-- gives id integer
update projects set disabled_at = case when $2 then coalesce(disabled_at, now()) end
      where id = $1 and closed_at is null returning id;

-- tenants/tenants.ts setDisabled
-- takes $1 uuid, $2 boolean
-- gives id uuid
update organizations set disabled_at = case when $2 then coalesce(disabled_at, now()) end
      where id = $1 and closed_at is null returning id;

-- tenants/tenants.ts listOrganizationPage
-- takes $1 text, $2 bigint, $3 bigint
-- gives id uuid, name text, createdAt timestamp with time zone, disabledAt timestamp with time zone, count bigint
select id, name, created_at as "createdAt", disabled_at as "disabledAt", count(*) over () as count from organizations
      where closed_at is null and id <> '00000000-0000-0000-0000-000000000000' and ($1::text is null or name ilike '%' || $1 || '%' or id::text = lower($1))
      order by lower(name), id limit $2 offset $3;
