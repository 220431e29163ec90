-- Up Migration

-- Intervals whose runs ended without success and that have no receipt. A row goes when a receipt comes, or when
-- an operator accepts the interval; it stays when retention deletes the runs. While a run of the interval is
-- live, that run is its state.
create table holes (
  export_id uuid not null references batch_exports (id) on delete cascade,
  data_interval_start timestamptz not null,
  data_interval_end timestamptz not null,
  primary key (export_id, data_interval_start, data_interval_end)
);

-- Intervals that an operator accepted as they are: the high-water mark passes them.
create table accepted_intervals (
  export_id uuid not null references batch_exports (id) on delete cascade,
  data_interval_start timestamptz not null,
  data_interval_end timestamptz not null,
  accepted_at timestamptz not null default now(),
  primary key (export_id, data_interval_start, data_interval_end)
);

-- Triggers, so that the rows are true beside a build that does not know them.
create function note_hole() returns trigger language plpgsql as $$
begin
  insert into holes (export_id, data_interval_start, data_interval_end)
  select new.export_id, new.data_interval_start, new.data_interval_end
   where not exists (select from receipts c where c.export_id = new.export_id
           and c.data_interval_start = new.data_interval_start and c.data_interval_end = new.data_interval_end)
  on conflict do nothing;
  return null;
end $$;
create trigger runs_leave_holes after insert or update of status on runs for each row
  when (new.status in ('Failed', 'FailedRetryable', 'Cancelled')) execute function note_hole();

create function fill_hole() returns trigger language plpgsql as $$
begin
  delete from holes where export_id = new.export_id
     and data_interval_start = new.data_interval_start and data_interval_end = new.data_interval_end;
  return null;
end $$;
create trigger receipts_fill_holes after insert on receipts for each row execute function fill_hole();

-- What earlier builds left: runs that ended without success, and ticks whose run retention has deleted.
insert into holes (export_id, data_interval_start, data_interval_end)
select asked.export_id, asked.data_interval_start, asked.data_interval_end from (
    select export_id, data_interval_start, data_interval_end from runs where status in ('Failed', 'FailedRetryable', 'Cancelled')
    union
    select t.export_id, t.data_interval_start, t.data_interval_end from ticks t
     where t.fate = 'ran' and not exists (select from runs r where r.export_id = t.export_id
             and r.data_interval_start = t.data_interval_start and r.data_interval_end = t.data_interval_end)
  ) as asked join batch_exports e on e.id = asked.export_id and e.deleted_at is null
 where not exists (select from receipts c where c.export_id = asked.export_id
         and c.data_interval_start = asked.data_interval_start and c.data_interval_end = asked.data_interval_end);

-- Down Migration

drop trigger receipts_fill_holes on receipts;
drop trigger runs_leave_holes on runs;
drop function fill_hole;
drop function note_hole;
drop table accepted_intervals, holes;
