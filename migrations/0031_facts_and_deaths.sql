-- Contracts: 0.1.0 stopped using runs.reading_since
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

-- A death counts from the claim on, so it need not be known whether the attempt had begun to read.
alter table runs
  drop column reading_since,
  -- The fence of the last attempt whose own process died: it counts once, however often that is recorded.
  add column died_at_fence bigint,
  -- The most that one lineage of the run has sent: only an attempt that sends more makes progress.
  add column furthest_bytes bigint not null default 0;

-- The current intervals of an export never overlap. An exclusion constraint over (export_id, range) needs btree_gist, which
-- not every server has. The lock makes insertions of an export wait for each other, so the neighbours are enough; whatever
-- completes a run has it already.
create function refuse_overlap() returns trigger language plpgsql as $$
begin
  perform from batch_exports where id = new.export_id for no key update;
  if exists (
       select from receipts c where c.export_id = new.export_id
          and c.data_interval_start >= new.data_interval_start and c.data_interval_start < new.data_interval_end
          and (c.data_interval_start, c.data_interval_end) <> (new.data_interval_start, new.data_interval_end))
     or (select c.data_interval_end from receipts c
          where c.export_id = new.export_id and c.data_interval_start < new.data_interval_start
          order by c.data_interval_start desc limit 1) > new.data_interval_start then
    raise exclusion_violation using message = 'the interval overlaps a current one of its export',
      detail = format('%s: %s to %s', new.export_id, new.data_interval_start, new.data_interval_end);
  end if;
  return new;
end $$;
create trigger receipts_do_not_overlap before insert on receipts for each row execute function refuse_overlap();

-- Where the high-water mark began: the gap check needs it after the first ticks were deleted.
alter table batch_exports add column mark_began_at timestamptz;
-- When retention first found that nothing uses a version.
alter table transformation_versions add column unused_since timestamptz;

-- Down Migration

alter table transformation_versions drop column unused_since;
alter table batch_exports drop column mark_began_at;
drop trigger receipts_do_not_overlap on receipts;
drop function refuse_overlap;
alter table runs
  drop column furthest_bytes,
  drop column died_at_fence,
  add column reading_since timestamptz;

alter table dispatch_turn drop column taken_at;
drop trigger runs_leave_outbox on runs;
drop function leave_outbox;
