-- Up Migration

-- A run whose interval has not settled is parked: it stays in the outbox, and the worker that watches its source puts
-- available_at off until the interval has settled. If that worker dies, the run becomes available by itself.
alter table outbox
  -- The worker that watches; null: none.
  add column parked_by text,
  -- When the run was parked for the first time since its last attempt.
  add column parked_since timestamptz,
  -- What the wait found, for the worker that claims the run next, and when.
  add column settlement jsonb,
  add column settled_at timestamptz;

-- Down Migration

alter table outbox
  drop column parked_by,
  drop column parked_since,
  drop column settlement,
  drop column settled_at;
