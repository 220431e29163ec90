-- Up Migration

-- Organizations and projects that are being deleted, and those that were: the record outlives what it deletes, so it refers
-- to nothing.
create table offboardings (
  id uuid primary key default gen_random_uuid(),
  organization_id uuid not null,
  -- Null: the whole organization.
  team_id integer,
  -- As it was called.
  name text not null,
  -- The admin key; null: the command line.
  requested_by uuid,
  requested_at timestamptz not null default clock_timestamp(),
  status text not null default 'cancelling' check (status in ('cancelling', 'deleting', 'settling', 'completed')),
  -- How many rows were deleted, by table.
  deleted_rows jsonb not null default '{}',
  -- Digests of sources of own plugins that may have no use any more.
  plugin_sources text[] not null default '{}',
  -- The transaction that deleted the last row, and when: what began before it may still write.
  deleted_by xid8,
  deleted_at timestamptz,
  -- Held by the process that works on it, until then.
  lease uuid,
  leased_until timestamptz,
  -- Why the last try made no progress; null if it did.
  last_error text,
  completed_at timestamptz
);
create unique index offboardings_under_way on offboardings (organization_id, team_id) nulls not distinct where completed_at is null;

-- What stays at the customer's destinations: an export and each place that it had.
create table offboarding_places (
  offboarding_id uuid not null references offboardings (id),
  export_id uuid not null,
  version integer not null,
  export_name text not null,
  destination_type text not null,
  -- Null: its destination keeps no files.
  address text,
  place text,
  -- Of the current manifests, which count too.
  files bigint not null,
  manifests bigint not null,
  rows bigint not null,
  bytes bigint not null,
  -- Objects that may exist beside them, and uploads that could not be aborted.
  leftover_files bigint not null,
  open_uploads bigint not null,
  primary key (offboarding_id, export_id, version)
);

-- Since when it is being deleted: its keys are refused, and nothing new begins.
alter table organizations add column closed_at timestamptz;
alter table projects add column closed_at timestamptz;

-- Down Migration

alter table projects drop column closed_at;
alter table organizations drop column closed_at;
drop table offboarding_places, offboardings;
