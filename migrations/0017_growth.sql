-- Up Migration

-- What the statements of the service read, and what autovacuum leaves behind, must not grow with history.

-- Retention deletes runs, and the foreign key looks for each in receipts. Writes to receipts wait while this is built, about a
-- second for a million rows.
create index receipts_by_run on receipts (run_id);

-- Runs in progress, without the end of their lease: each heartbeat and each commit moves it, and an index on it would let no such
-- update stay on its page.
-- Contracts: 0.1.0 stopped using runs_leased: the sweep of every build finds its runs by the new index too.
create index runs_running on runs (id) where status = 'Running';
drop index runs_leased;

-- A count that becomes zero goes at once, so that nothing has to look for it.
create or replace function count_log_entries() returns trigger language plpgsql as $$
begin
  insert into log_counts as c (export_id, run_id, level, entries)
  select export_id, counted_id, level, count(*) * case tg_op when 'INSERT' then 1 else -1 end
    from changed_entries,
         lateral (values ('00000000-0000-0000-0000-000000000000'::uuid), (run_id)) as counted (counted_id)
   where counted_id is not null
   group by 1, 2, 3
   -- One order for all, so that two writers never wait for each other.
   order by 1, 2, 3
  on conflict (export_id, run_id, level) do update set entries = c.entries + excluded.entries;
  if tg_op = 'DELETE' then
    -- Its rows are locked by the statement above.
    delete from log_counts c using (
      select distinct export_id, counted_id, level from changed_entries,
             lateral (values ('00000000-0000-0000-0000-000000000000'::uuid), (run_id)) as counted (counted_id)
       where counted_id is not null) as changed
     where c.export_id = changed.export_id and c.run_id = changed.counted_id and c.level = changed.level and c.entries = 0;
  end if;
  return null;
end $$;
delete from log_counts where entries = 0;

-- Room on each page for the next version of its rows.
alter table runs set (fillfactor = 70);
alter table batch_exports set (fillfactor = 60);
alter table backfills set (fillfactor = 70);
alter table receipts set (fillfactor = 90);
alter table uploads set (fillfactor = 60);
alter table workers set (fillfactor = 50);

-- Autovacuum by a share of 20 % comes too late for tables of millions of rows. Those that are always small and always written
-- are vacuumed by number alone.
alter table outbox set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0,
  autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 2000);
alter table uploads set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
alter table workers set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);
alter table batch_exports set (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500, autovacuum_analyze_scale_factor = 0.05);
alter table backfills set (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500);
alter table runs set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
alter table receipts set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
alter table ticks set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
alter table log_entries set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);
alter table log_counts set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);

-- Down Migration

alter table log_counts reset (autovacuum_vacuum_scale_factor, autovacuum_analyze_scale_factor);
alter table log_entries reset (autovacuum_vacuum_scale_factor, autovacuum_vacuum_insert_scale_factor, autovacuum_analyze_scale_factor);
alter table ticks reset (autovacuum_vacuum_scale_factor, autovacuum_vacuum_insert_scale_factor, autovacuum_analyze_scale_factor);
alter table receipts reset (fillfactor, autovacuum_vacuum_scale_factor, autovacuum_vacuum_insert_scale_factor, autovacuum_analyze_scale_factor);
alter table runs reset (fillfactor, autovacuum_vacuum_scale_factor, autovacuum_vacuum_insert_scale_factor, autovacuum_analyze_scale_factor);
alter table backfills reset (fillfactor, autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold);
alter table batch_exports reset (fillfactor, autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold, autovacuum_analyze_scale_factor);
alter table workers reset (fillfactor, autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold, autovacuum_vacuum_cost_delay);
alter table uploads reset (fillfactor, autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold, autovacuum_vacuum_cost_delay);
alter table outbox reset (autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold, autovacuum_vacuum_cost_delay,
  autovacuum_analyze_scale_factor, autovacuum_analyze_threshold);
create index runs_leased on runs (lease_expires_at) where status = 'Running' and lease_expires_at is not null;
drop index runs_running;
drop index receipts_by_run;
