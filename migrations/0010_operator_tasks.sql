-- What an operator does to many exports at once: retry or pause all that a cause holds up. Sweeps do it bit by bit, by backfills
-- and pauses like any other, so it goes behind live runs and takes turns among customers.

create table operator_tasks (
  id uuid primary key default gen_random_uuid(),
  action text not null check (action in ('probe', 'retry', 'pause')),
  -- The cause, as it was named when the task was asked for.
  cause text not null,
  code text not null,
  status text not null default 'Running' check (status in ('Running', 'Completed', 'Cancelled')),
  -- The operator's key.
  requested_by uuid references api_keys (id),
  created_at timestamptz not null default clock_timestamp(),
  finished_at timestamptz
);
create index operator_tasks_running on operator_tasks (id) where status = 'Running';
create index operator_tasks_by_time on operator_tasks (created_at desc, id desc);

create table operator_task_exports (
  task_id uuid not null references operator_tasks (id) on delete cascade,
  export_id uuid not null references batch_exports (id) on delete cascade,
  team_id integer not null,
  status text not null default 'waiting' check (status in ('waiting', 'done', 'skipped')),
  -- Why nothing was done; null if something was.
  detail text,
  -- What it has started.
  backfill_ids uuid[] not null default '{}',
  primary key (task_id, export_id)
);
create index operator_task_exports_waiting on operator_task_exports (task_id, team_id) where status = 'waiting';
create index operator_task_exports_by_export on operator_task_exports (export_id);
