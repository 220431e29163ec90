/** Five attempts have failed; the next is in an hour. */
export const insertRetrying = `with run as (
    insert into runs (export_id, team_id, status, attempt, faults, data_interval_start, data_interval_end, started_at, error_code, latest_error)
    select e.id, e.team_id, 'Running', 5, 5, at, at + interval '1 hour', now(), 'destination.unavailable',
           'destination.unavailable: The destination is unavailable. No action needed: Sluice retries automatically.'
      from batch_exports e, date_trunc('hour', now() - interval '1 hour') at where e.id = $1
    returning *)
  insert into outbox (run_id, team_id, export_id, data_interval_start, available_at)
  select id, team_id, export_id, data_interval_start, now() + interval '1 hour' from run`;

/** The hours from five to three hours before this one were due, and their runs failed. */
export const failFirstTicks = `with due as (
    insert into ticks (export_id, tick_at, data_interval_start, data_interval_end, fate)
    select $1::uuid, at + interval '1 hour', at, at + interval '1 hour', 'ran'
      from generate_series(4, 5) n, lateral (select date_trunc('hour', now(), 'UTC') - n * interval '1 hour' as at) h
    returning *)
  insert into runs (export_id, team_id, status, data_interval_start, data_interval_end, finished_at)
  select d.export_id, e.team_id, 'Failed', d.data_interval_start, d.data_interval_end, now()
    from due d join batch_exports e on e.id = d.export_id`;

/** The same of the hour after them. */
export const failNextTick = failFirstTicks.replace(
  'generate_series(4, 5)',
  'generate_series(3, 3)',
);

/** The hours from five to three hours before this one were due and have no data: their destination is unreachable, and they heal. */
export const insertHealing = `with due as (
    insert into ticks (export_id, tick_at, data_interval_start, data_interval_end, fate)
    select $1::uuid, at + interval '1 hour', at, at + interval '1 hour', 'ran'
      from generate_series(4, 5) n, lateral (select date_trunc('hour', now(), 'UTC') - n * interval '1 hour' as at) h
    returning *),
  made as (
    insert into runs (export_id, team_id, status, data_interval_start, data_interval_end, finished_at, error_code, latest_error)
    select d.export_id, e.team_id, 'FailedRetryable', d.data_interval_start, d.data_interval_end, now(), 'destination.unavailable',
           'destination.unavailable: The destination is unavailable.'
      from due d join batch_exports e on e.id = d.export_id),
  failing as (
    update batch_exports set failing_since = now() - interval '3 hours', failing_code = 'destination.unavailable',
           failing_error = 'destination.unavailable: It is unreachable.', heal_failures = 9, heal_after = now() + interval '9 minutes' where id = $1)
  insert into late_intervals (export_id, data_interval_start, data_interval_end, due_by, missed_at, code, turn)
    select export_id, data_interval_start, data_interval_end, tick_at + interval '10 minutes', tick_at + interval '10 minutes',
           'destination.unavailable', 'customer' from due`;

/** A completed run of long ago, with one file. */
export const insertFile = `with run as (
    insert into runs (export_id, team_id, status, data_interval_start, data_interval_end, finished_at, files)
    select e.id, e.team_id, 'Completed', '2024-03-01T00:00:00Z', '2024-03-01T01:00:00Z', now(), 1
      from batch_exports e where e.id = $1
    returning *)
  insert into receipts (export_id, data_interval_start, data_interval_end, run_id, era, destination_version, generation, recipe, rejected_files,
         snapshot, settled, pending_transactions, key_count, pending_checked_at, looked_back_at, rows, bytes, files)
  select export_id, data_interval_start, data_interval_end, id, gen_random_uuid(), 0, 1, '{}', '[]', '1:1:', true, '{}', 5, now(), now(), 5, 50,
         json_build_array(json_build_object('key', 'events/2024.jsonl.gz', 'generation', 1, 'rows', 5, 'bytes', 50, 'sha256', repeat('ab', 32)))
    from run`;

/** A run of an hour that no schedule asked for has begun. */
export const beginRun = `insert into runs (export_id, team_id, status, data_interval_start, data_interval_end, started_at)
  select id, team_id, 'Running', '2024-03-02T00:00:00Z', '2024-03-02T01:00:00Z', now() from batch_exports where id = $1`;

/** As a worker does: makes the runs of a backfill of the failed intervals. */
export const planBackfill = `insert into runs (export_id, team_id, status, backfill_id, data_interval_start, data_interval_end, generation)
  select r.export_id, r.team_id, 'Starting', b.id, r.data_interval_start, r.data_interval_end, r.generation + 1
    from runs r join backfills b on b.export_id = r.export_id and b.status = 'Running' where r.export_id = $1 and r.status = 'Failed'`;

/** A base of five hours ago, an element that took the place of two intervals, and a failed run of the newest hour. */
export const insertElements = `with hour as (
    select n, date_trunc('hour', now(), 'UTC') - n * interval '1 hour' as at from generate_series(1, 5) n),
  made as (
    insert into runs (export_id, team_id, status, data_interval_start, data_interval_end, finished_at)
    select e.id, e.team_id, case n when 1 then 'Failed' else 'Completed' end, at, at + interval '1 hour', now()
      from batch_exports e, hour where e.id = $1 and n in (1, 2, 5)
    returning *),
  delivered as (
    insert into receipts (export_id, data_interval_start, data_interval_end, run_id, era, destination_version, generation, files, rejected_files,
                          rows, bytes, recipe, snapshot_at, element, snapshot, settled, pending_transactions, key_count, pending_checked_at, looked_back_at)
    select export_id, data_interval_start, data_interval_end, id, gen_random_uuid(), 1, 1, '[]', '[]', 1200, 9000, '{}', data_interval_end,
           json_build_object('number', n, 'follows', case n when 7 then 4 end, 'base', case n when 4 then 'first' end,
             'from', case n when 7 then '120931' end, 'next', '120977', 'deletes', n - 4, 'at', extract(epoch from data_interval_end) * 1000),
           '1:1:', true, '{}', 1200, now(), now()
      from (select made.*, case row_number() over (order by data_interval_start) when 1 then 4 else 7 end as n from made where status = 'Completed') m),
  passed as (
    insert into accepted_intervals (export_id, data_interval_start, data_interval_end, superseded_by)
    select $1, at, at + interval '1 hour', now() from hour where n in (3, 4)),
  changing as (update batch_exports set mode = 'changes' where id = $1)
  select 1`;
