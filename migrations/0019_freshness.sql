-- Up Migration

-- The maximum age of an export's data, and since when it is older. A check by a worker writes late_since.
alter table batch_exports add column freshness_minutes integer check (freshness_minutes > 0);
alter table batch_exports add column late_since timestamptz;
create index batch_exports_with_freshness on batch_exports (id)
  where deleted_at is null and (freshness_minutes is not null or late_since is not null);

create function note_lateness() returns trigger language plpgsql as $$
declare
  objective jsonb := jsonb_build_object('freshness_minutes', new.freshness_minutes,
    'high_water_mark', api_time(new.high_water_mark));
begin
  if new.late_since is not null then
    perform notify_targets(new.id, 'export.late', objective || jsonb_build_object('late_since', api_time(new.late_since)));
  -- Without an objective, or in a pause, it is not on time either.
  elsif new.freshness_minutes is not null and not new.paused then
    perform notify_targets(new.id, 'export.on_time', objective || jsonb_build_object('late_since', api_time(old.late_since)));
  end if;
  return null;
end $$;
create trigger batch_exports_notify_lateness after update of late_since on batch_exports for each row
  when ((old.late_since is null) <> (new.late_since is null)) execute function note_lateness();

-- Down Migration

drop trigger batch_exports_notify_lateness on batch_exports;
drop function note_lateness;
alter table batch_exports drop column late_since;
alter table batch_exports drop column freshness_minutes;
