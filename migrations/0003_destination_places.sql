-- Up Migration

-- Where an export's files went before its destination moved: uploads that were begun there are aborted
-- there. Version n is the place before the n-th move.
create table former_destinations (
  export_id uuid not null references batch_exports (id) on delete cascade,
  version integer not null,
  destination_config jsonb not null,
  destination_secrets bytea,
  replaced_at timestamptz not null default now(),
  primary key (export_id, version)
);

-- How often the export's destination has moved to another place.
alter table batch_exports add column destination_version integer not null default 0;
-- The version that the upload was begun at, and the one of the current manifest.
alter table uploads add column destination_version integer not null default 0;
alter table receipts add column destination_version integer not null default 0;

-- Down Migration

alter table receipts drop column destination_version;
alter table uploads drop column destination_version;
alter table batch_exports drop column destination_version;
drop table former_destinations;
