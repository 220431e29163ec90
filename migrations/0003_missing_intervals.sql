-- One view says which intervals are without data. What counts them, or names them to others, reads it.

-- What every answer, message and metric calls an interval without data. While a run of the interval is live, its data is on its way.
-- `is not true` instead of `not`: the planner looks each hole up among the live runs, which are few. A join would hash all holes.
create view missing_intervals as
  select h.* from holes h where (exists (
    select from runs r where r.export_id = h.export_id and r.data_interval_start = h.data_interval_start
       and r.data_interval_end = h.data_interval_end and r.status in ('Starting', 'Running'))) is not true;

-- Records an event of an export, and its delivery to each target of its organization or of the installation that asks for it;
-- nothing if no target does. The event says whose export it is, the code of the newest failure, and how many intervals are
-- without data. Targets that also ask for `unless_type` do not get it: they got that one at the same moment. From the 21st event
-- of a type within five minutes on, a delivery waits a minute for others of its type. If 500 deliveries wait for a target, a new
-- one waits too, and takes the place of those of its export and type that wait.
create or replace function notify_targets(about uuid, event_type text, event_facts jsonb, unless_type text default null)
returns void language plpgsql as $$
declare
  waiting_max constant integer := 500;
  single_max constant integer := 20;
begin
  with wanted as materialized (
    -- Locked, so that a target that is being deleted cannot fail the transaction of the change.
    select t.id, t.kind, t.organization_id, t.digests, (select count(*) from (
             select from notification_deliveries d where d.target_id = t.id and d.status = 'waiting' limit waiting_max
           ) as counted) >= waiting_max as is_full,
           (select count(*) from (
             select from notification_deliveries d where d.target_id = t.id and d.type = event_type
                and d.created_at > clock_timestamp() - interval '5 minutes' limit single_max
           ) as recent) >= single_max as is_storm
      from batch_exports e join projects p on p.id = e.team_id
      join notification_targets t on t.organization_id in (p.organization_id, '00000000-0000-0000-0000-000000000000')
       and (t.team_id is null or t.team_id = e.team_id)
     where e.id = about and e.deleted_at is null and t.enabled and event_type = any (t.events)
       and (unless_type is null or unless_type <> all (t.events))
       for key share of t
  ), event as (
    insert into notification_events (organization_id, team_id, export_id, type, facts)
    select p.organization_id, e.team_id, e.id, event_type,
           jsonb_build_object('organization', jsonb_build_object('id', o.id, 'name', o.name),
             'project', jsonb_build_object('id', p.id, 'name', p.name, 'tenant_key', coalesce(p.tenant_key, p.id::text)),
             'export', jsonb_build_object('id', e.id, 'name', e.name),
             'code', e.failing_code, 'since', api_time(coalesce(e.failing_since, e.late_since, e.incomplete_since)),
             'missing_intervals', (select count(*) from (select from missing_intervals h where h.export_id = e.id limit 10000) as counted))
             || event_facts
      from batch_exports e join projects p on p.id = e.team_id join organizations o on o.id = p.organization_id
     where e.id = about and exists (select from wanted)
    returning id, seq
  ), older as materialized (
    select d.id, d.target_id, d.gathers_until
      from wanted w join notification_deliveries d on d.target_id = w.id and d.export_id = about and d.type = event_type
     where w.is_full and d.status = 'waiting' and d.digest_id is null and not d.is_repeat
       and (d.leased_until is null or d.leased_until <= now())
       for update of d skip locked
  ), replaced as (
    update notification_deliveries d set status = 'replaced', gathers_until = null, lease = null, leased_until = null, finished_at = now()
      from older where d.id = older.id
  )
  insert into notification_deliveries (target_id, event_id, organization_id, export_id, seq, kind, type, gathers_until)
  select w.id, event.id, w.organization_id, about, event.seq, w.kind, event_type,
         case when w.digests and (w.is_full or w.is_storm) then coalesce(
           (select min(older.gathers_until) from older where older.target_id = w.id), clock_timestamp() + interval '1 minute') end
    from event, wanted w;
end $$;

-- 10. An export recovers, or Sluice pauses it.
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
  if new.paused and not old.paused and new.paused_reason is not null then
    perform notify_targets(new.id, 'export.paused',
      jsonb_build_object('reason', left(new.paused_reason, 2000), 'failure_streak', new.failure_streak));
  end if;
  return null;
end $$;
