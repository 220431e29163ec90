-- Up Migration

-- A run that has ended waits for nothing. A trigger, because it is true for every statement that ends a run, and because
-- it sees what was committed while that statement waited for the run: the sweep may have enqueued it meanwhile.
create function leave_outbox() returns trigger language plpgsql as $$
begin
  delete from outbox where run_id = new.id;
  return null;
end $$;
create trigger runs_leave_outbox after update of status on runs for each row
  when (old.finished_at is null and new.finished_at is not null) execute function leave_outbox();

-- When runs were last enqueued: the readiness of the service shows a dispatcher that makes no progress.
alter table dispatch_turn add column taken_at timestamptz not null default now();

-- Down Migration

alter table dispatch_turn drop column taken_at;
drop trigger runs_leave_outbox on runs;
drop function leave_outbox;
