-- Up Migration

-- The number of the lineage that a run writes its files under: an attempt and those that resume it.
-- A number is given out once per interval. Null before the first claim.
alter table runs add column file_generation integer;
-- The lineage whose commit was begun last: a worker may still be about to go on with it, so no other
-- attempt writes under its number.
alter table runs add column committing_generation integer;
-- The lineage that an upload belongs to; null if an older build began it.
alter table uploads add column file_generation integer;

-- The generation of the current files, and the era of the database that committed them.
alter table receipts add column generation integer not null default 1;
alter table receipts add column era uuid;

-- Objects that a commit may have made readable and that the current receipt does not name: of attempts
-- whose commit was never confirmed, and of generations that were replaced. They are removed once a
-- later generation is current.
create table leftover_files (
  export_id uuid not null references batch_exports (id) on delete cascade,
  data_interval_start timestamptz not null,
  data_interval_end timestamptz not null,
  destination_version integer not null,
  key text not null,
  generation integer not null,
  -- Of the commit that the file belongs to; null if it has none.
  manifest_key text,
  -- Whether a worker may still be about to commit it.
  uncommitted boolean not null,
  noted_at timestamptz not null default now(),
  -- When its removal was last tried.
  tried_at timestamptz,
  primary key (export_id, destination_version, key)
);
create index leftover_files_by_interval on leftover_files (export_id, data_interval_start, data_interval_end);

-- Down Migration

drop table leftover_files;
alter table receipts drop column era;
alter table receipts drop column generation;
alter table uploads drop column file_generation;
alter table runs drop column committing_generation;
alter table runs drop column file_generation;
