-- Up Migration

-- Set when an attempt begins to read rows, cleared by the next claim. `crashes` counts only attempts that
-- died after it: an attempt that died while it waited says nothing about the run.
alter table runs add column reading_since timestamptz;
-- Processes of its own that were killed from outside, or stopped answering, with this run in them.
alter table runs add column deaths_alone integer not null default 0;

-- Down Migration

alter table runs drop column deaths_alone;
alter table runs drop column reading_since;
