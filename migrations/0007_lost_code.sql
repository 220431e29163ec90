-- An export that works again may have lost intervals. Whose turn that is depends on why they were lost.

-- The error code of the newest run that failed for the newest interval of an export without data. Null: none has failed, or it is
-- no longer known.
create function lost_code(of_export uuid) returns text language sql stable as $$
  select (select r.error_code from runs r
           where r.export_id = h.export_id and r.data_interval_start = h.data_interval_start
             and r.data_interval_end = h.data_interval_end and r.status in ('Failed', 'FailedRetryable')
           order by r.id desc limit 1)
    from missing_intervals h where h.export_id = of_export order by h.data_interval_start desc, h.data_interval_end desc limit 1
$$;

create or replace function note_incompleteness() returns trigger language plpgsql as $$
begin
  if new.incomplete_since is not null then
    perform notify_targets(new.id, 'export.incomplete', jsonb_build_object('code', lost_code(new.id)));
  -- A failure says more: its own event was sent.
  elsif new.failing_since is null then
    perform notify_targets(new.id, 'export.complete', jsonb_build_object('incomplete_since', api_time(old.incomplete_since)));
  end if;
  return null;
end $$;
