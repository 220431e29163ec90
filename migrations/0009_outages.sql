-- Whose turn a failing export is, and backfills that stop themselves.

alter table batch_exports
  -- Of the newest failure since the last success; null if it does not fail.
  add column failing_code text,
  add column failing_error text;

alter table backfills
  -- Why Sluice stopped it; null if it did not.
  add column stopped_reason text;

-- 7. An export begins to fail, and its retries run out. The transactions that end a run without success lock its export before.
create or replace function note_failing() returns trigger language plpgsql as $$
declare
  export batch_exports;
  is_exhausted boolean := new.status = 'FailedRetryable';
begin
  select * into export from batch_exports e where e.id = new.export_id;
  if export.deleted_at is not null then
    return null;
  end if;
  update batch_exports set failing_since = coalesce(failing_since, clock_timestamp()),
         exhausted_since = case when is_exhausted then coalesce(exhausted_since, clock_timestamp()) else exhausted_since end,
         failing_code = new.error_code, failing_error = left(new.latest_error, 2000)
   where id = new.export_id;
  if is_exhausted and export.exhausted_since is null then
    perform notify_targets(new.export_id, 'export.retries_exhausted', facts_of_run(new));
  end if;
  if export.failing_since is null then
    perform notify_targets(new.export_id, 'export.failing', facts_of_run(new),
      case when is_exhausted then 'export.retries_exhausted' end);
  end if;
  return null;
end $$;

-- 8. A success ends that.
create or replace function end_failing() returns trigger language plpgsql as $$
begin
  new.failing_since := null;
  new.exhausted_since := null;
  new.failing_code := null;
  new.failing_error := null;
  return new;
end $$;
