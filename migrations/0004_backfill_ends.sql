-- The end of a backfill costs little if no target asks for it.

create or replace function note_backfill_end() returns trigger language plpgsql as $$
declare
  failed bigint;
begin
  -- To plan what `notify_targets` does takes a new connection several milliseconds, for each of its first ends.
  if not exists (
    select from batch_exports e join projects p on p.id = e.team_id
      join notification_targets t on t.organization_id in (p.organization_id, '00000000-0000-0000-0000-000000000000')
     where e.id = new.export_id and t.enabled and 'backfill.completed' = any (t.events)
  ) then
    return null;
  end if;
  select count(*) into failed from runs r where r.backfill_id = new.id and r.status in ('Failed', 'FailedRetryable');
  perform notify_targets(new.export_id, 'backfill.completed', jsonb_build_object('backfill', jsonb_build_object(
    'id', new.id, 'start_at', api_time(new.start_at), 'end_at', api_time(new.end_at),
    'total_runs', new.total_runs, 'failed_runs', failed)));
  return null;
end $$;
