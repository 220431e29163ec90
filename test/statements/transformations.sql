-- transformations/chains.ts findChain
-- takes $1 integer
-- gives chain jsonb
select jsonb_agg(jsonb_strip_nulls(jsonb_build_object('config', c.id, 'version', c.version, 'source',
    (select p.source_sha256 from plugins p where p.id = c.plugin))) order by c."order", c.id) as chain from pipeline_transformation_configs c
      where c.team_id = $1 and c.enabled and not c.deleted;

-- transformations/chains.ts findStepVersions
-- takes $1 integer, $2 integer[], $3 integer[]
-- gives id integer, version integer, plugin integer, pluginName text, name text, config jsonb, secrets bytea
select v.config_id as id, v.version, v.plugin, (select p.name from plugins p where p.id = v.plugin) as "pluginName", v.name, v.config, v.config_secrets as secrets
       from unnest($2::int[], $3::int[]) with ordinality as step (config, version, place)
       join transformation_versions v on v.config_id = step.config and v.version = step.version and v.team_id = $1
      order by step.place;

-- transformations/chains.ts findPluginSources
-- takes $1 text[]
-- gives sha256 text, source text
select sha256, source from plugin_sources where sha256 = any ($1::text[]);

-- transformations/chains.ts recordSteps
-- takes $1 integer[], $2 bigint[], $3 bigint[], $4 text[]
with step as materialized (
       select s.* from unnest($1::int[], $2::bigint[], $3::bigint[], $4::text[]) as s (config, rows, errors, error)
         join pipeline_transformation_configs c on c.id = s.config order by c."order", c.id for no key update of c
     )
     update pipeline_transformation_configs c set error = step.error, handled = (
            select coalesce(jsonb_agg(h), '[]') from (
              select hour, sum(rows) as rows, sum(errors) as errors from (
                select * from (
  select * from jsonb_to_recordset(c.handled) as h (hour timestamptz, rows bigint, errors bigint)
   where h.hour > now() - interval '24 hours') as t
                union all select date_trunc('hour', now()), step.rows, step.errors where step.rows > 0) as all_hours
               group by hour) as h)
       from step where c.id = step.config;

-- transformations/chains.ts recordStepError
-- takes $1 integer, $2 integer, $3 text

     update pipeline_transformation_configs set error = $3
      where id = $2 and team_id = $1 and error is distinct from $3;

-- transformations/chains.ts findChainUpTo
-- takes $1 integer, $2 integer
-- gives chain jsonb
select jsonb_agg(jsonb_strip_nulls(jsonb_build_object('config', c.id, 'version', c.version, 'source',
    (select p.source_sha256 from plugins p where p.id = c.plugin))) order by c."order", c.id) as chain from pipeline_transformation_configs c
       join pipeline_transformation_configs last on last.id = $2 and last.team_id = $1
      where c.team_id = $1 and (c.id = last.id or c.enabled and not c.deleted and (c."order", c.id) < (last."order", last.id));

-- transformations/chains.ts findTransformedModel
-- takes $1 integer
-- gives model text

     select model from batch_exports where team_id = $1 and transformations and deleted_at is null
      order by created_at desc limit 1;

-- transformations/plugins.ts findOwnPlugins
-- takes $1 uuid, $2 integer[]
-- gives id integer, organizationId uuid, name text, description text, url text, configSchema jsonb, source text, createdAt timestamp with time zone, updatedAt timestamp with time zone, jobs jsonb
select p.id, p.organization_id as "organizationId", p.name, p.description, p.url,
  p.config_schema as "configSchema", p.source, p.created_at as "createdAt", p.updated_at as "updatedAt", '[]'::jsonb as jobs from plugins p where p.organization_id = $1 and p.id = any ($2::int[]);

-- transformations/plugins.ts findOwnPlugins
-- takes $1 uuid, $2 integer[]
-- gives id integer, organizationId uuid, name text, description text, url text, configSchema jsonb, source text, createdAt timestamp with time zone, updatedAt timestamp with time zone, jobs jsonb
select p.id, p.organization_id as "organizationId", p.name, p.description, p.url,
  p.config_schema as "configSchema", null as source, p.created_at as "createdAt", p.updated_at as "updatedAt", '[]'::jsonb as jobs from plugins p where p.organization_id = $1 and p.id = any ($2::int[]);

-- transformations/plugins.ts listOwnPlugins
-- takes $1 uuid
-- gives count bigint
select count(*) from plugins where organization_id = $1;

-- transformations/plugins.ts listOwnPlugins
-- takes $1 uuid, $2 bigint, $3 bigint
-- gives id integer, organizationId uuid, name text, description text, url text, configSchema jsonb, source text, createdAt timestamp with time zone, updatedAt timestamp with time zone, jobs jsonb
select p.id, p.organization_id as "organizationId", p.name, p.description, p.url,
  p.config_schema as "configSchema", p.source, p.created_at as "createdAt", p.updated_at as "updatedAt", '[]'::jsonb as jobs from (select * from (
      select page.*, sum(page.size) over (order by page.id) - page.size as before from (select p.*, coalesce(octet_length(to_json(p.source)::text), 0) + octet_length(p.config_schema::text) as size
      from plugins p where p.organization_id = $1 order by p.id limit $2 offset $3) as page
    ) as weighed where before < 1048576) p order by p.id;

-- transformations/plugins.ts insertPlugin
-- takes $1 text, $2 text, $3 text, $4 jsonb, $5 text, $6 uuid
-- gives id integer, organizationId uuid, name text, description text, url text, configSchema jsonb, source text, createdAt timestamp with time zone, updatedAt timestamp with time zone, jobs jsonb
insert into plugins as p (name, description, url, config_schema, source, organization_id)
     values ($1, $2, $3, $4, $5, $6) returning p.id, p.organization_id as "organizationId", p.name, p.description, p.url,
  p.config_schema as "configSchema", p.source, p.created_at as "createdAt", p.updated_at as "updatedAt", '[]'::jsonb as jobs;

-- transformations/plugins.ts updatePlugin
-- takes $1 text, $2 text, $3 text, $4 jsonb, $5 text, $6 integer
-- gives id integer, organizationId uuid, name text, description text, url text, configSchema jsonb, source text, createdAt timestamp with time zone, updatedAt timestamp with time zone, jobs jsonb
update plugins p set name = $1, description = $2, url = $3, config_schema = $4, source = $5, updated_at = now()
      where p.id = $6 returning p.id, p.organization_id as "organizationId", p.name, p.description, p.url,
  p.config_schema as "configSchema", p.source, p.created_at as "createdAt", p.updated_at as "updatedAt", '[]'::jsonb as jobs;

-- transformations/transformation-configs.ts nextTransformationConfigId
-- gives id bigint
select nextval(pg_get_serial_sequence('pipeline_transformation_configs', 'id')) as id;

-- transformations/transformation-configs.ts insertTransformationConfig
-- takes $1 integer, $2 integer, $3 integer, $4 boolean, $5 integer, $6 jsonb, $7 bytea, $8 text, $9 text, $10 integer, $11 boolean
-- gives id integer, teamId integer, plugin integer, version integer, enabled boolean, order integer, config jsonb, secrets bytea, name text, description text, matchAction integer, error text, deleted boolean, createdAt timestamp with time zone, updatedAt timestamp with time zone, deliveryRate text
with made as (
       insert into pipeline_transformation_configs
         (id, team_id, plugin, enabled, "order", config, config_secrets, name, description, match_action, deleted)
       overriding system value values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) returning *
     ), kept as (insert into transformation_versions
    (config_id, version, team_id, plugin, name, config, config_secrets)
  select id, version, team_id, plugin, name, config, config_secrets from made on conflict do nothing)
     select c.id, c.team_id as "teamId", c.plugin, c.version, c.enabled, c."order", c.config, c.config_secrets as secrets,
  c.name, c.description, c.match_action as "matchAction", c.error, c.deleted,
  c.created_at as "createdAt", c.updated_at as "updatedAt",
  (select trim_scale(round((sum(t.rows) - sum(t.errors)) / nullif(sum(t.rows), 0), 6))::text
     from (
  select * from jsonb_to_recordset(c.handled) as h (hour timestamptz, rows bigint, errors bigint)
   where h.hour > now() - interval '24 hours') as t) as "deliveryRate" from made c;

-- transformations/transformation-configs.ts updateTransformationConfig
-- takes $1 integer, $2 boolean, $3 integer, $4 jsonb, $5 bytea, $6 text, $7 text, $8 integer, $9 boolean
-- gives id integer, teamId integer, plugin integer, version integer, enabled boolean, order integer, config jsonb, secrets bytea, name text, description text, matchAction integer, error text, deleted boolean, createdAt timestamp with time zone, updatedAt timestamp with time zone, deliveryRate text
with changed as (
       update pipeline_transformation_configs c
          set enabled = $2, "order" = $3, config = $4, config_secrets = $5, name = $6, description = $7,
              match_action = $8, deleted = $9, updated_at = clock_timestamp(),
              version = version + ((config, config_secrets, name) is distinct from ($4::jsonb, $5::bytea, $6::text))::int
        where c.id = $1 returning *
     ), kept as (insert into transformation_versions
    (config_id, version, team_id, plugin, name, config, config_secrets)
  select id, version, team_id, plugin, name, config, config_secrets from changed on conflict do nothing)
     select c.id, c.team_id as "teamId", c.plugin, c.version, c.enabled, c."order", c.config, c.config_secrets as secrets,
  c.name, c.description, c.match_action as "matchAction", c.error, c.deleted,
  c.created_at as "createdAt", c.updated_at as "updatedAt",
  (select trim_scale(round((sum(t.rows) - sum(t.errors)) / nullif(sum(t.rows), 0), 6))::text
     from (
  select * from jsonb_to_recordset(c.handled) as h (hour timestamptz, rows bigint, errors bigint)
   where h.hour > now() - interval '24 hours') as t) as "deliveryRate" from changed c;

-- transformations/transformation-configs.ts findTransformationConfig
-- takes $1 integer, $2 integer
-- gives id integer, teamId integer, plugin integer, version integer, enabled boolean, order integer, config jsonb, secrets bytea, name text, description text, matchAction integer, error text, deleted boolean, createdAt timestamp with time zone, updatedAt timestamp with time zone, deliveryRate text
select c.id, c.team_id as "teamId", c.plugin, c.version, c.enabled, c."order", c.config, c.config_secrets as secrets,
  c.name, c.description, c.match_action as "matchAction", c.error, c.deleted,
  c.created_at as "createdAt", c.updated_at as "updatedAt",
  (select trim_scale(round((sum(t.rows) - sum(t.errors)) / nullif(sum(t.rows), 0), 6))::text
     from (
  select * from jsonb_to_recordset(c.handled) as h (hour timestamptz, rows bigint, errors bigint)
   where h.hour > now() - interval '24 hours') as t) as "deliveryRate" from pipeline_transformation_configs c where c.id = $1 and c.team_id = $2 for update;

-- transformations/transformation-configs.ts findTransformationConfig
-- takes $1 integer, $2 integer
-- gives id integer, teamId integer, plugin integer, version integer, enabled boolean, order integer, config jsonb, secrets bytea, name text, description text, matchAction integer, error text, deleted boolean, createdAt timestamp with time zone, updatedAt timestamp with time zone, deliveryRate text
select c.id, c.team_id as "teamId", c.plugin, c.version, c.enabled, c."order", c.config, c.config_secrets as secrets,
  c.name, c.description, c.match_action as "matchAction", c.error, c.deleted,
  c.created_at as "createdAt", c.updated_at as "updatedAt",
  (select trim_scale(round((sum(t.rows) - sum(t.errors)) / nullif(sum(t.rows), 0), 6))::text
     from (
  select * from jsonb_to_recordset(c.handled) as h (hour timestamptz, rows bigint, errors bigint)
   where h.hour > now() - interval '24 hours') as t) as "deliveryRate" from pipeline_transformation_configs c where c.id = $1 and c.team_id = $2;

-- transformations/transformation-configs.ts lockChain
-- takes $1 integer
-- gives id integer, teamId integer, plugin integer, order integer

     select c.id, c.team_id as "teamId", c.plugin, c."order" from pipeline_transformation_configs c
      where c.team_id = $1 and not c.deleted order by c."order", c.id for update of c;

-- transformations/transformation-configs.ts countEnabledSteps
-- takes $1 integer
select from projects where id = $1 for no key update;

-- transformations/transformation-configs.ts countEnabledSteps
-- takes $1 integer, $2 integer
-- gives count bigint
select count(*) from pipeline_transformation_configs
      where team_id = $1 and enabled and not deleted and id <> $2;

-- transformations/transformation-configs.ts listTransformationConfigs
-- takes $1 integer
-- gives count bigint
select count(*) from pipeline_transformation_configs where team_id = $1 and not deleted;

-- transformations/transformation-configs.ts listTransformationConfigs
-- takes $1 integer, $2 bigint, $3 bigint
-- gives id integer, teamId integer, plugin integer, version integer, enabled boolean, order integer, config jsonb, secrets bytea, name text, description text, matchAction integer, error text, deleted boolean, createdAt timestamp with time zone, updatedAt timestamp with time zone, deliveryRate text
select c.id, c.team_id as "teamId", c.plugin, c.version, c.enabled, c."order", c.config, c.config_secrets as secrets,
  c.name, c.description, c.match_action as "matchAction", c.error, c.deleted,
  c.created_at as "createdAt", c.updated_at as "updatedAt",
  (select trim_scale(round((sum(t.rows) - sum(t.errors)) / nullif(sum(t.rows), 0), 6))::text
     from (
  select * from jsonb_to_recordset(c.handled) as h (hour timestamptz, rows bigint, errors bigint)
   where h.hour > now() - interval '24 hours') as t) as "deliveryRate" from (select * from (
      select page.*, sum(page.size) over (order by page."order", page.id) - page.size as before from (select c.*, octet_length(c.config::text) + coalesce(octet_length(to_json(c.config::text)::text), 0) + coalesce(octet_length(to_json(c.error)::text), 0)
        + case when row_number() over (partition by c.plugin order by c."order", c.id) = 1
          then coalesce((select octet_length(p.config_schema::text) from plugins p where p.id = c.plugin), 0) else 0 end as size
      from (select * from pipeline_transformation_configs
             where team_id = $1 and not deleted order by "order", id limit $2 offset $3) c order by c."order", c.id) as page
    ) as weighed where before < 1048576) c order by c."order", c.id;

-- transformations/transformation-configs.ts moveSteps
-- takes $1 integer, $2 integer[], $3 integer[]
update pipeline_transformation_configs c set "order" = moved.place, updated_at = clock_timestamp()
       from unnest($2::int[], $3::int[]) as moved (id, place)
      where c.id = moved.id and c.team_id = $1;

-- transformations/transformation-configs.ts deleteTransformationConfig
-- takes $1 integer, $2 integer
-- gives id integer
delete from pipeline_transformation_configs where id = $1 and team_id = $2 returning id;

-- transformations/transformation-configs.ts askForSample
-- takes $1 integer

     update pipeline_transformation_configs set sample_asked_at = clock_timestamp(), sample_taken_at = null
      where id = $1;

-- transformations/transformation-configs.ts takeSample
-- takes $1 uuid[], $2 uuid[]
-- gives configId integer, teamId integer, askedAt timestamp with time zone, organizationId uuid

     update pipeline_transformation_configs c set sample_taken_at = now()
      where c.id = (
        select s.id from pipeline_transformation_configs s join projects p on p.id = s.team_id
         where (s.sample_taken_at is null or s.sample_taken_at < now() - interval '5 minutes')
           and s.sample_asked_at > now() - interval '1 day' and p.organization_id <> all ($2::uuid[])
         order by coalesce(array_position($1::uuid[], p.organization_id), 0), s.sample_asked_at, s.id
         limit 1 for update of s skip locked)
      returning c.id as "configId", c.team_id as "teamId", c.sample_asked_at as "askedAt",
                (select organization_id from projects where id = c.team_id) as "organizationId";

-- transformations/transformation-configs.ts endSample
-- takes $1 integer, $2 timestamp with time zone
update pipeline_transformation_configs set sample_asked_at = null, sample_taken_at = null
      where id = $1 and sample_asked_at = $2;

-- transformations/transformation-configs.ts findChainExports
-- takes $1 integer
-- gives total integer, applying integer, named json
select count(*)::int as total, (count(*) filter (where e.transformations))::int as applying,
            (select coalesce(json_agg(json_build_object('id', n.id, 'name', n.name)), '[]')
               from (select x.id, x.name from batch_exports x
                      where x.team_id = $1 and x.deleted_at is null and x.transformations
                      order by x.name, x.id limit 10) n) as named
       from batch_exports e where e.team_id = $1 and e.deleted_at is null;

-- transformations/transformation-configs.ts countChainSteps
-- takes $1 integer
-- gives count bigint
select count(*) from pipeline_transformation_configs where team_id = $1 and enabled and not deleted;
