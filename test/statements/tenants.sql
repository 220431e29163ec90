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

-- tenants/budgets.ts reserveFromBudget
-- takes $1 uuid, $2 text[], $3 bigint[], $4 bigint, $5 double precision
-- gives span text, granted double precision, left double precision, endsInMs double precision
with held as materialized (
    select * from used_budgets where owner = $1 and span = any ($2::text[]) order by span for update
  ), current as (
    select span, allowed, case when is_fresh then began_at else now() end as began_at,
           allowed - case when is_fresh then used else 0 end as left
      from unnest($2::text[], $3::bigint[]) as limits (span, allowed) join held using (span),
           lateral (select began_at > now() - ('1 ' || span)::interval as is_fresh) age
  ), taken as (
    select case when min("left") < $4::bigint then 0
                else greatest($4::bigint, ceil(min("left") * $5::float8)::bigint) end as granted from current
  )
  update used_budgets b set began_at = c.began_at, used = c.allowed - c.left + t.granted
    from current c, taken t where b.owner = $1 and b.span = c.span
  returning b.span, t.granted::float8 as granted, (c.left - t.granted)::float8 as left,
    ceil(extract(epoch from c.began_at + ('1 ' || b.span)::interval - now()) * 1000)::float8 as "endsInMs";

-- tenants/budgets.ts reserveFromBudget
-- takes $1 uuid, $2 text[]
insert into used_budgets (owner, span) select $1, unnest($2::text[]) on conflict do nothing;

-- tenants/budgets.ts countStoredBytes
-- takes $1 integer
-- gives organizationId uuid
select organization_id as "organizationId" from projects where id = $1;

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
-- gives id uuid, organizationId uuid, teamId integer, name text, requestedBy uuid, requestedAt timestamp with time zone, status text, lastError text, completedAt timestamp with time zone
select o.id, o.organization_id as "organizationId", o.team_id as "teamId", o.name, o.requested_by as "requestedBy",
  o.requested_at as "requestedAt", o.status, o.last_error as "lastError", o.completed_at as "completedAt" from offboardings o where o.id = $1;

-- tenants/offboardings.ts listOffboardings
-- takes $1 bigint
-- gives id uuid, organizationId uuid, teamId integer, name text, requestedBy uuid, requestedAt timestamp with time zone, status text, lastError text, completedAt timestamp with time zone
select o.id, o.organization_id as "organizationId", o.team_id as "teamId", o.name, o.requested_by as "requestedBy",
  o.requested_at as "requestedAt", o.status, o.last_error as "lastError", o.completed_at as "completedAt" from offboardings o order by o.requested_at desc, o.id limit $1;

-- tenants/offboardings.ts openOffboarding
-- takes $1 uuid, $2 integer, $3 uuid
-- gives id uuid, organizationId uuid, teamId integer, name text, requestedBy uuid, requestedAt timestamp with time zone, status text, lastError text, completedAt timestamp with time zone
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
  o.requested_at as "requestedAt", o.status, o.last_error as "lastError", o.completed_at as "completedAt" from opened o;

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
-- gives id uuid, organizationId uuid, teamId integer, name text, requestedBy uuid, requestedAt timestamp with time zone, status text, lastError text, completedAt timestamp with time zone
select o.id, o.organization_id as "organizationId", o.team_id as "teamId", o.name, o.requested_by as "requestedBy",
  o.requested_at as "requestedAt", o.status, o.last_error as "lastError", o.completed_at as "completedAt" from offboardings o
      where o.organization_id = $1 and o.team_id is not distinct from $2 and o.completed_at is null;

-- tenants/offboardings.ts listOpenOffboardings
-- gives id uuid
select id from offboardings where completed_at is null order by requested_at, id;

-- tenants/offboardings.ts lockOffboarding
set local statement_timeout = '15min';

-- tenants/offboardings.ts lockOffboarding
-- takes $1 uuid
-- gives id uuid, organizationId uuid, teamId integer, name text, requestedBy uuid, requestedAt timestamp with time zone, status text, lastError text, completedAt timestamp with time zone, ageMs double precision
select o.id, o.organization_id as "organizationId", o.team_id as "teamId", o.name, o.requested_by as "requestedBy",
  o.requested_at as "requestedAt", o.status, o.last_error as "lastError", o.completed_at as "completedAt", greatest(0, extract(epoch from now() - o.requested_at) * 1000)::float8 as "ageMs"
       from offboardings o where o.id = $1 and o.completed_at is null for update skip locked;

-- tenants/offboardings.ts recordStep
-- takes $1 uuid, $2 text, $3 text
update offboardings set status = $2, last_error = $3,
            deleted_by = case when $2 = 'settling' then coalesce(deleted_by, pg_current_xact_id()) end,
            deleted_at = case when $2 = 'settling' then coalesce(deleted_at, now()) else deleted_at end,
            completed_at = case when $2 = 'completed' then now() end
      where id = $1;

-- tenants/offboardings.ts recordFailure
-- takes $1 uuid, $2 text
update offboardings set last_error = $2 where id = $1;

-- tenants/offboardings.ts hasSettled
-- takes $1 uuid, $2 double precision

     select from offboardings where id = $1 and status = 'settling' and (pg_snapshot_xmin(pg_current_snapshot()) > deleted_by
        or deleted_at < now() - $2 * interval '1 ms');

-- tenants/offboardings.ts measurePlaces
-- takes $1 uuid[]
-- gives exportId uuid, teamId integer, type text, config jsonb, files bigint, manifests bigint, rows bigint, bytes bigint, leftoverFiles bigint, openUploads integer

     with places as (
       select id, destination_version as version, destination_config as config from batch_exports where id = any ($1::uuid[])
       union all select export_id, version, destination_config from former_destinations where export_id = any ($1::uuid[])
     ), current as (
       select export_id as id, destination_version as version, sum(jsonb_array_length(files) + jsonb_array_length(rejected_files)) as files,
              count(manifest_key) as manifests, sum(rows) as rows, sum(bytes) as bytes
         from receipts where export_id = any ($1::uuid[]) group by 1, 2
     ), leftovers as (
       select export_id as id, destination_version as version, count(*) as files from leftover_files l
        where export_id = any ($1::uuid[]) and l.deleted_at is null
          and not exists (select from receipts c where c.export_id = l.export_id and c.data_interval_start = l.data_interval_start
      and c.data_interval_end = l.data_interval_end and c.destination_version = l.destination_version
                             and l.key in (select f ->> 'key' from jsonb_array_elements(c.files || c.rejected_files) f))
        group by 1, 2
     ), uploaded as (
       select export_id as id, destination_version as version, 1 as uploads from upload_places where export_id = any ($1::uuid[])
     )
     select e.id as "exportId", e.team_id as "teamId", e.destination_type as type, p.config,
            coalesce(c.files, 0)::bigint as files, coalesce(c.manifests, 0) as manifests, coalesce(c.rows, 0)::bigint as rows,
            coalesce(c.bytes, 0)::bigint as bytes, coalesce(l.files, 0) as "leftoverFiles", coalesce(u.uploads, 0) as "openUploads"
       from places p join batch_exports e using (id) left join current c using (id, version)
            left join leftovers l using (id, version) left join uploaded u using (id, version);

-- tenants/offboardings.ts keepPlaces
-- takes $1 uuid, $2 jsonb
update offboardings o set places = o.places || (select coalesce(jsonb_agg(p), '[]') from jsonb_array_elements($2::jsonb) p
              where o.team_id is null or o.team_id = (p ->> 'teamId')::int)
      where o.organization_id = $1 and o.completed_at is null;

-- tenants/offboardings.ts listRemainingFiles
-- takes $1 uuid, $2 bigint
-- gives destinationType text, address text, place text, exports bigint, files bigint, manifests bigint, rows bigint, bytes bigint, leftoverFiles bigint, openUploads bigint

     select type as "destinationType", address, place, count(distinct "exportId") as exports,
            sum(files)::bigint as files, sum(manifests)::bigint as manifests, sum(rows)::bigint as rows, sum(bytes)::bigint as bytes,
            sum("leftoverFiles")::bigint as "leftoverFiles", sum("openUploads")::bigint as "openUploads"
       from offboardings o, jsonb_to_recordset(o.places) as p ("exportId" uuid, type text, address text, place text, files bigint,
              manifests bigint, rows bigint, bytes bigint, "leftoverFiles" bigint, "openUploads" bigint)
      where o.id = $1 and address is not null and files + manifests + "leftoverFiles" + "openUploads" > 0
      group by 1, 2, 3 order by 2, 3, 1 limit $2;

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
       update installation set encryption_keys = encryption_keys || $1::text where $1 <> all (encryption_keys)
     )
     select id from installation, unnest(encryption_keys) id where id <> all ($2::text[]);

-- tenants/sealed-secrets.ts forgetOtherEncryptionKeys
-- takes $1 text
-- gives id text

     with known as materialized (select encryption_keys from installation for update
     ), kept as (update installation set encryption_keys = array[$1::text])
     select id from known, unnest(encryption_keys) id where id <> $1;

-- tenants/tenant-rows.ts deleteRows
-- takes $1 uuid[]
delete from batch_exports t where t.id = any ($1::uuid[]);

-- tenants/tenant-rows.ts deleteRows
-- takes $1 text[]
delete from guarded_work t where t.id = any ($1::text[]);

-- tenants/tenant-rows.ts deleteRows
-- takes $1 uuid[]
delete from log_entries t where t.export_id = any ($1::uuid[]);

-- tenants/tenant-rows.ts deleteRows
-- takes $1 uuid, $2 integer
delete from idempotency_keys t where t.key_id in (select k.id from api_keys k where k.organization_id = $1 and ($2::int is null or k.project_ids <@ array[$2::int]))
       or $2::int is not null and t.key_id in (select k.id from api_keys k where k.organization_id = $1)
          and t.response ~ ('"team_id": ?' || $2::int || '[,}]');

-- tenants/tenant-rows.ts deleteRows
-- takes $1 uuid, $2 integer
delete from activity t where t.organization_id = $1 and ($2::int is null or t.team_id = $2) or t.subject_type = 'api_key' and t.subject_id in (select id::text from (select k.id from api_keys k where k.organization_id = $1 and ($2::int is null or k.project_ids <@ array[$2::int])) k);

-- tenants/tenant-rows.ts deleteRows
-- takes $1 uuid, $2 integer
delete from used_budgets t where t.owner in (select k.id from api_keys k where k.organization_id = $1 and ($2::int is null or k.project_ids <@ array[$2::int])) or t.owner = $1 and $2::int is null;

-- tenants/tenant-rows.ts deleteRows
-- takes $1 uuid, $2 integer
delete from api_keys t where t.id in (select k.id from api_keys k where k.organization_id = $1 and ($2::int is null or k.project_ids <@ array[$2::int]));

-- tenants/tenant-rows.ts deleteRows
-- takes $1 uuid, $2 integer
delete from projects t where t.id in (select id from projects where organization_id = $1 and ($2::int is null or id = $2));

-- tenants/tenant-rows.ts deleteRows
-- takes $1 uuid, $2 integer
delete from organizations t where t.id = $1 and $2::int is null;

-- tenants/tenant-rows.ts lockExportsOf
-- takes $1 uuid, $2 integer, $3 bigint
-- gives id uuid
select e.id from batch_exports e where e.team_id in (select id from projects where organization_id = $1 and ($2::int is null or id = $2)) order by e.id limit $3 for update;

-- tenants/tenant-rows.ts deleteExports
-- takes $1 uuid[], $2 uuid
update plugin_sources s set replaced_at = 'epoch' where sha256 in (select pinned ->> 'source' from runs r, jsonb_array_elements(r.chain) pinned where r.export_id = any ($1::uuid[])
       union select pinned ->> 'source' from receipts c, jsonb_array_elements(c.recipe -> 'chain') pinned
              where c.export_id = any ($1::uuid[]) and jsonb_typeof(c.recipe -> 'chain') = 'array')
      and not exists (select from plugins p where p.source_sha256 = s.sha256 and p.organization_id <> $2);

-- tenants/tenant-rows.ts lockTenant
-- takes $1 uuid, $2 integer
select from organizations where id = $1 and $2::int is null for update;

-- tenants/tenant-rows.ts lockTenant
-- takes $1 uuid, $2 integer
select from projects t where t.id in (select id from projects where organization_id = $1 and ($2::int is null or id = $2)) for update;

-- tenants/tenant-rows.ts deleteTenant
-- takes $1 uuid, $2 integer
update plugin_sources s set replaced_at = 'epoch' where sha256 in (select t.source_sha256 from plugins t where t.organization_id = $1 and $2::int is null)
      and not exists (select from plugins p where p.source_sha256 = s.sha256 and p.organization_id <> $1);

-- tenants/tenant-rows.ts listExportsUnderWay
-- takes $1 uuid, $2 integer, $3 bigint, $4 uuid[]
-- gives id uuid
select e.id from batch_exports e where e.team_id in (select id from projects where organization_id = $1 and ($2::int is null or id = $2)) and ($4::uuid[] is null or e.id = any ($4)) and (e.deleted_at is null
        or exists (select from runs r where r.export_id = e.id and r.status in ('Starting', 'Running') and r.committing_at is null)
        or exists (select from backfills b where b.export_id = e.id and b.status = 'Running'))
      order by e.id limit $3;

-- tenants/tenant-rows.ts endSilentCommits
-- takes $1 uuid, $2 integer
-- gives id uuid
select r.id from runs r join batch_exports e on e.id = r.export_id
      where e.team_id in (select id from projects where organization_id = $1 and ($2::int is null or id = $2)) and r.status in ('Starting', 'Running') and r.status = 'Running' and r.committing_at is not null and r.lease_expires_at < now()
      order by r.id limit 2000 for no key update of r;

-- tenants/tenant-rows.ts endSilentCommits
-- takes $1 uuid[]
update runs set status = 'Cancelled', erases = null, commit_intent = commit_intent - '{files,rejectedFiles}'::text[], fence = fence + 1, finished_at = now(), last_updated_at = now(), lease_holder = null
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

-- tenants/tenant-rows.ts deleteStragglers
-- takes $1 uuid
delete from log_entries where export_id in (select (p ->> 'exportId')::uuid from offboardings o, jsonb_array_elements(o.places) p where o.id = $1);

-- tenants/tenant-rows.ts deleteStragglers
delete from used_budgets b where not exists (select from api_keys k where k.id = b.owner)
        and not exists (select from organizations o where o.id = b.owner);

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

-- tenants/tenants.ts byReach
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

-- tenants/tenants.ts byReach
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

-- tenants/tenants.ts byReach, tenants/usage.ts listExportUsage
-- takes $1 integer, $2 timestamp without time zone, $3 bigint, $4 bigint
-- gives month text, projectId integer, id uuid, name text, deletedAt text, count bigint, intervals bigint, rows bigint, bytes bigint
select to_char(e.first, 'YYYY-MM') as month, e.team_id as "projectId", e.id, e.name,
            api_time(e.deleted_at) as "deletedAt", e.count, u.intervals, u.rows, u.bytes
       from (select e.id, e.name, e.team_id, e.deleted_at, first, count(*) over () as count
               from (select coalesce($2::timestamp, date_trunc('month', now() at time zone 'UTC')) as first) m
               join batch_exports e on e.team_id = $1
              where e.deleted_at is null or exists (select from receipts r where r.export_id = e.id and r.data_interval_start >= first at time zone 'UTC'
              and r.data_interval_start < (first + interval '1 month') at time zone 'UTC')
              order by e.team_id, lower(e.name), e.id limit $3 offset $4) e
       cross join lateral (
         select count(*) as intervals, coalesce(sum(r.rows), 0)::bigint as rows, coalesce(sum(r.bytes), 0)::bigint as bytes
           from receipts r where r.export_id = e.id and r.data_interval_start >= first at time zone 'UTC'
              and r.data_interval_start < (first + interval '1 month') at time zone 'UTC') u
      order by e.team_id, lower(e.name), e.id;

-- tenants/tenants.ts byReach
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

-- tenants/tenants.ts byReach
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

-- tenants/tenants.ts byReach
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

-- tenants/tenants.ts byReach, tenants/usage.ts listExportUsage
-- takes $1 uuid, $2 timestamp without time zone, $3 bigint, $4 bigint
-- gives month text, projectId integer, id uuid, name text, deletedAt text, count bigint, intervals bigint, rows bigint, bytes bigint
select to_char(e.first, 'YYYY-MM') as month, e.team_id as "projectId", e.id, e.name,
            api_time(e.deleted_at) as "deletedAt", e.count, u.intervals, u.rows, u.bytes
       from (select e.id, e.name, e.team_id, e.deleted_at, first, count(*) over () as count
               from (select coalesce($2::timestamp, date_trunc('month', now() at time zone 'UTC')) as first) m
               join batch_exports e on e.team_id in (select id from projects where organization_id = $1)
              where e.deleted_at is null or exists (select from receipts r where r.export_id = e.id and r.data_interval_start >= first at time zone 'UTC'
              and r.data_interval_start < (first + interval '1 month') at time zone 'UTC')
              order by e.team_id, lower(e.name), e.id limit $3 offset $4) e
       cross join lateral (
         select count(*) as intervals, coalesce(sum(r.rows), 0)::bigint as rows, coalesce(sum(r.bytes), 0)::bigint as bytes
           from receipts r where r.export_id = e.id and r.data_interval_start >= first at time zone 'UTC'
              and r.data_interval_start < (first + interval '1 month') at time zone 'UTC') u
      order by e.team_id, lower(e.name), e.id;

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

-- tenants/tenants.ts setName
-- takes $1 integer, $2 text
-- gives before text
update projects t set name = $2
       from (select id, name from projects where id = $1 and closed_at is null for update) o
      where t.id = o.id returning o.name as before;

-- tenants/tenants.ts setName
-- takes $1 uuid, $2 text
-- gives before text
update organizations t set name = $2
       from (select id, name from organizations where id = $1 and closed_at is null for update) o
      where t.id = o.id returning o.name as before;

-- tenants/tenants.ts listOrganizationPage
-- takes $1 text, $2 bigint, $3 bigint
-- gives id uuid, name text, createdAt timestamp with time zone, disabledAt timestamp with time zone, count bigint
select id, name, created_at as "createdAt", disabled_at as "disabledAt", count(*) over () as count from organizations
      where closed_at is null and id <> '00000000-0000-0000-0000-000000000000' and ($1::text is null or name ilike '%' || $1 || '%' or id::text = lower($1))
      order by lower(name), id limit $2 offset $3;

-- tenants/usage.ts listUsage
-- takes $1 timestamp without time zone, $2 text, $3 bigint, $4 bigint
-- gives month text, id uuid, name text, disabledAt timestamp with time zone, count bigint, projects bigint, exports bigint, rows bigint, bytes bigint
select to_char(m.first, 'YYYY-MM') as month, o.id, o.name, o.disabled_at as "disabledAt", o.count,
            (select count(*) from projects p where p.organization_id = o.id and p.closed_at is null) as projects,
            (select count(*) from batch_exports e join projects p on p.id = e.team_id
              where p.organization_id = o.id and e.deleted_at is null) as exports,
            u.rows, u.bytes
       from (select id, name, disabled_at, count(*) over () as count from organizations
              where closed_at is null and id <> '00000000-0000-0000-0000-000000000000' and ($2::text is null or name ilike '%' || $2 || '%' or id::text = lower($2))
              order by lower(name), id limit $3 offset $4) o
       cross join (select coalesce($1::timestamp, date_trunc('month', now() at time zone 'UTC')) as first) m
       cross join lateral (
         select coalesce(sum(r.rows), 0)::bigint as rows, coalesce(sum(r.bytes), 0)::bigint as bytes
           from projects p join batch_exports e on e.team_id = p.id
           cross join lateral (
             select sum(rows) as rows, sum(bytes) as bytes from receipts
              where export_id = e.id and data_interval_start >= m.first at time zone 'UTC'
                and data_interval_start < (m.first + interval '1 month') at time zone 'UTC') r
          where p.organization_id = o.id) u
      order by lower(o.name), o.id;
