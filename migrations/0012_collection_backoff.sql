-- Up Migration

-- How often the sweep has tried to end these uploads, and when it tries again. A store that hinders it is
-- left alone for longer and longer, also after a restart.
alter table uploads add column collect_tries integer not null default 0;
alter table uploads add column collect_after timestamptz;

-- How often the removal of a file has failed in a row.
alter table leftover_files add column tries integer not null default 0;

-- Down Migration

alter table leftover_files drop column tries;
alter table uploads drop column collect_after;
alter table uploads drop column collect_tries;
