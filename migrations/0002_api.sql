-- Up Migration

-- Who changed what, and when. `changes` holds before and after, without secrets.
create table activity (
  id bigint generated always as identity primary key,
  organization_id uuid not null references organizations (id),
  team_id integer,
  subject_type text not null check (subject_type in ('batch_export', 'transformation_config', 'plugin', 'api_key')),
  subject_id text not null,
  action text not null,
  -- Null: the command line, or the service itself.
  key_id uuid references api_keys (id),
  changes jsonb not null default '[]',
  happened_at timestamptz not null default clock_timestamp()
);
create index activity_by_subject on activity (subject_type, subject_id, id desc);

create table idempotency_keys (
  key_id uuid not null references api_keys (id),
  idempotency_key text not null,
  -- SHA-256 of method, path and body.
  fingerprint bytea not null,
  -- What was answered, stored by the same transaction as the change.
  status smallint,
  response text,
  created_at timestamptz not null default now(),
  primary key (key_id, idempotency_key)
);
create index idempotency_keys_by_time on idempotency_keys (created_at);

-- Requests taken from the budget of each key. A crash of Postgres loses them, which does no harm.
create unlogged table rate_limits (
  key_id uuid primary key,
  minute_started_at timestamptz not null default now(),
  minute_used bigint not null default 0,
  hour_started_at timestamptz not null default now(),
  hour_used bigint not null default 0
) with (fillfactor = 50);

-- How many log entries there are, so that a list's count never walks them.
create table log_counts (
  export_id uuid not null,
  -- The nil id counts the whole export.
  run_id uuid not null,
  level text not null,
  entries bigint not null,
  primary key (export_id, run_id, level)
) with (fillfactor = 50);

create function count_log_entries() returns trigger language plpgsql as $$
begin
  insert into log_counts as c (export_id, run_id, level, entries)
  select export_id, counted_id, level, count(*) * case tg_op when 'INSERT' then 1 else -1 end
    from changed_entries,
         lateral (values ('00000000-0000-0000-0000-000000000000'::uuid), (run_id)) as counted (counted_id)
   where counted_id is not null
   group by 1, 2, 3
   -- One order for all, so that two writers never wait for each other.
   order by 1, 2, 3
  on conflict (export_id, run_id, level) do update set entries = c.entries + excluded.entries;
  return null;
end $$;

create trigger log_entries_inserted after insert on log_entries
  referencing new table as changed_entries for each statement execute function count_log_entries();
create trigger log_entries_deleted after delete on log_entries
  referencing old table as changed_entries for each statement execute function count_log_entries();

create index log_entries_by_level on log_entries (export_id, level, id desc);

-- An organization's own plugins. Built-in ones live in the code, with ids below 1000.
create table plugins (
  id integer generated always as identity (start with 1000) primary key,
  organization_id uuid not null references organizations (id),
  name text not null,
  description text,
  url text,
  config_schema jsonb not null default '[]',
  source text not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
create index plugins_by_organization on plugins (organization_id, id);

create table pipeline_transformation_configs (
  id integer generated always as identity primary key,
  team_id integer not null references projects (id),
  plugin integer not null,
  enabled boolean not null default false,
  "order" integer not null,
  -- Without secrets.
  config jsonb not null default '{}',
  config_secrets bytea,
  name text,
  description text,
  match_action integer,
  -- The last error of the step; null once it works.
  error text,
  deleted boolean not null default false,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
create index transformation_configs_by_team on pipeline_transformation_configs (team_id, "order", id);

-- Rows that each step was given, by the hour; the source of delivery_rate_24h.
create table transformation_rates (
  config_id integer not null references pipeline_transformation_configs (id) on delete cascade,
  hour timestamptz not null,
  rows bigint not null default 0,
  errors bigint not null default 0,
  primary key (config_id, hour)
);

-- Jobs asked for and not yet taken.
create table transformation_jobs (
  id bigint generated always as identity primary key,
  config_id integer not null references pipeline_transformation_configs (id) on delete cascade,
  type text not null,
  payload jsonb not null default '{}',
  created_at timestamptz not null default now(),
  taken_at timestamptz
);
create index transformation_jobs_waiting on transformation_jobs (id) where taken_at is null;

-- Down Migration

drop table transformation_jobs, transformation_rates, pipeline_transformation_configs, plugins, log_counts, rate_limits, idempotency_keys, activity;
drop trigger log_entries_inserted on log_entries;
drop trigger log_entries_deleted on log_entries;
drop function count_log_entries;
drop index log_entries_by_level;
