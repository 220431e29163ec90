-- An operator who disables an organization or a project pauses its exports. That is the act of a person, so it is no event:
-- one alert per export would open, and none would ever be resolved.
create or replace function note_export_change() returns trigger language plpgsql as $$
declare
  missing bigint;
begin
  if old.failing_since is not null and new.failing_since is null then
    select count(*) into missing from (
      -- The receipt of this moment has not filled its hole yet.
      select from missing_intervals h where h.export_id = new.id and not exists (
        select from receipts c where c.export_id = h.export_id and c.data_interval_start = h.data_interval_start
           and c.data_interval_end = h.data_interval_end) limit 10000) as counted;
    perform notify_targets(new.id, 'export.recovered',
      jsonb_build_object('failing_since', api_time(old.failing_since), 'missing_intervals', missing));
  end if;
  if new.paused and not old.paused and new.paused_reason is not null
     and new.paused_reason not in ('An operator has disabled the organization.', 'An operator has disabled the project.') then
    perform notify_targets(new.id, 'export.paused',
      jsonb_build_object('reason', left(new.paused_reason, 2000), 'failure_streak', new.failure_streak));
  end if;
  return null;
end $$;
