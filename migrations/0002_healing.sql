-- Intervals without data heal by themselves: what keeps them from their data is a cause. A cause is probed now and then, and
-- when it is over, all that it held up runs.

-- How long an interval heals after its run ended without success. 0: it does not.
alter table batch_exports add column heal_for_hours integer not null default 168 check (heal_for_hours between 0 and 720);
-- Exports that Sluice paused. A run that heals and completes ends such a pause.
create index batch_exports_paused_by_sluice on batch_exports (id)
  where paused and paused_reason is not null and deleted_at is null;

-- A place that does not work (a destination with its credentials, or a source), or an export whose runs fail for a reason of
-- its own. It goes when a run there succeeds: what refers to it is free then.
create table causes (
  id uuid primary key default gen_random_uuid(),
  scope text not null check (scope in ('destination', 'source', 'export')),
  -- Null: a source, which all organizations share.
  organization_id uuid references organizations (id) on delete cascade,
  -- What two runs of one place have in common: a fingerprint, the name of a source, or the id of an export.
  place text not null,
  -- Of the newest failure.
  code text not null,
  latest_error text not null,
  began_at timestamptz not null default clock_timestamp(),
  failed_at timestamptz not null default clock_timestamp(),
  failures integer not null default 1,
  -- Null: suspected. Attempts at its place are made as ever, and only more failures without a success open it.
  opened_at timestamptz,
  next_probe_at timestamptz not null default clock_timestamp(),
  probes integer not null default 0,
  unique nulls not distinct (organization_id, scope, place)
);
create index causes_open on causes (next_probe_at) where opened_at is not null;
create index causes_of_sources on causes (place) where scope = 'source';

-- Intervals that heal: those of `holes` that no person has decided about. They go with their hole.
create table healing_intervals (
  export_id uuid not null,
  data_interval_start timestamptz not null,
  data_interval_end timestamptz not null,
  -- Null: nothing is known to hold it up, so it runs when there is room.
  cause_id uuid references causes (id) on delete set null,
  -- When a run of it ended without success for the first time.
  since timestamptz not null default clock_timestamp(),
  -- Runs that it got without a cause and that failed again. The next one waits for longer each time.
  tries integer not null default 0,
  not_before timestamptz not null default clock_timestamp(),
  primary key (export_id, data_interval_start, data_interval_end),
  foreign key (export_id, data_interval_start, data_interval_end)
    references holes (export_id, data_interval_start, data_interval_end) on delete cascade
);
create index healing_intervals_by_cause on healing_intervals (cause_id, data_interval_start) where cause_id is not null;
create index healing_intervals_free on healing_intervals (export_id, data_interval_start) where cause_id is null;

-- Whether Sluice made the run to heal its interval: it goes behind live runs, and its failure counts for no pause.
alter table runs add column heals boolean not null default false;
-- The cause that its next attempt probes. It is made although the cause is open.
alter table runs add column probes uuid;
create index runs_healing on runs (export_id) where heals and status in ('Starting', 'Running');

-- What a run waits for that had an attempt at an open cause.
alter table outbox add column cause_id uuid;
create index outbox_by_cause on outbox (cause_id) where cause_id is not null;
