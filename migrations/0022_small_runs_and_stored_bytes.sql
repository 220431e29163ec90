-- Up Migration

-- A run is expected to be small if the runs of its neighbouring intervals were. Small runs have places of their own in a
-- worker, so they do not wait for large ones.
alter table outbox
  add column small boolean not null default false;
alter table runs
  -- Whether its attempt has a place for small runs.
  add column small boolean not null default false;
alter table batch_exports
  -- When a run that was expected to be small was not. Its runs count as large for a day.
  add column outgrew_at timestamptz;
alter table workers
  -- Places for small runs; a worker of an earlier build has none.
  add column small_capacity integer not null default 0;

-- The first waiting runs of each team and kind.
-- Contracts: 0.1.0 stopped using outbox_ready: the dispatcher of every build reads the new index too.
create index outbox_waiting on outbox (team_id, small, (backfill_id is not null), data_interval_start, run_id)
  where ready and dispatched_at is null;
drop index outbox_ready;

-- What the requests of each organization may store in a day. A crash of Postgres loses it, which does no harm.
create unlogged table stored_bytes (
  organization_id uuid primary key,
  day_started_at timestamptz not null default now(),
  used bigint not null default 0
) with (fillfactor = 50);

-- Down Migration

drop table stored_bytes;

create index outbox_ready on outbox (team_id, (backfill_id is not null), data_interval_start, run_id)
  where ready and dispatched_at is null;
drop index outbox_waiting;
alter table workers drop column small_capacity;
alter table batch_exports drop column outgrew_at;
alter table runs drop column small;
alter table outbox drop column small;
