-- Up Migration

-- Each content of a step that a run may use: runs and receipts name config and version, and a version never
-- changes. Only rotating the encryption keys writes to it.
alter table pipeline_transformation_configs add column version integer not null default 1;
create table transformation_versions (
  config_id integer not null,
  version integer not null,
  team_id integer not null references projects (id),
  plugin integer not null,
  name text,
  -- Without secrets.
  config jsonb not null,
  config_secrets bytea,
  created_at timestamptz not null default now(),
  primary key (config_id, version)
);
comment on column transformation_versions.config_secrets is 'sealed: transformation-config:{config_id}';
insert into transformation_versions (config_id, version, team_id, plugin, name, config, config_secrets)
  select id, version, team_id, plugin, name, config, config_secrets from pipeline_transformation_configs;

-- The chain that a run uses, as [{"config", "version"}]: its first claim decides it. Null before that.
alter table runs add column chain jsonb;
-- What became of the rows in each step of the chain, in its order; null before the run is completed.
alter table runs add column steps jsonb;

-- Down Migration

alter table runs drop column steps, drop column chain;
drop table transformation_versions;
alter table pipeline_transformation_configs drop column version;
