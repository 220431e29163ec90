-- Contracts: 0.1.0 stopped using the check on notification_deliveries.status without the status replaced; no build reads the check.
-- Up Migration

-- Whether many events of one type are sent to a target in one message.
alter table notification_targets add column digests boolean not null default true;

-- replaced: a later event of its export and type took its place, because too many waited for the target.
alter table notification_deliveries drop constraint notification_deliveries_status_check;
alter table notification_deliveries add constraint notification_deliveries_status_check
  check (status in ('waiting', 'delivered', 'given_up', 'cancelled', 'dropped', 'replaced')) not valid;

-- As before, but nothing is dropped. If 500 deliveries wait for a target, a new one waits for others of its type, and takes
-- the place of those of its export and type that wait.
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
      join notification_targets t on t.organization_id = p.organization_id and (t.team_id is null or t.team_id = e.team_id)
     where e.id = about and e.deleted_at is null and t.enabled and event_type = any (t.events)
       and (unless_type is null or unless_type <> all (t.events))
       for key share of t
  ), event as (
    insert into notification_events (organization_id, team_id, export_id, type, facts)
    select p.organization_id, e.team_id, e.id, event_type,
           jsonb_build_object('export', jsonb_build_object('id', e.id, 'name', e.name)) || event_facts
      from batch_exports e join projects p on p.id = e.team_id
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

-- Down Migration

create or replace function notify_targets(about uuid, event_type text, event_facts jsonb, unless_type text default null)
returns void language plpgsql as $$
declare
  waiting_max constant integer := 500;
  single_max constant integer := 20;
begin
  with wanted as materialized (
    -- Locked, so that a target that is being deleted cannot fail the transaction of the change.
    select t.id, t.kind, t.organization_id, (select count(*) from (
             select from notification_deliveries d where d.target_id = t.id and d.status = 'waiting' limit waiting_max
           ) as counted) >= waiting_max as is_full,
           (select count(*) from (
             select from notification_deliveries d where d.target_id = t.id and d.type = event_type
                and d.created_at > clock_timestamp() - interval '5 minutes' limit single_max
           ) as recent) >= single_max as is_storm
      from batch_exports e join projects p on p.id = e.team_id
      join notification_targets t on t.organization_id = p.organization_id and (t.team_id is null or t.team_id = e.team_id)
     where e.id = about and e.deleted_at is null and t.enabled and event_type = any (t.events)
       and (unless_type is null or unless_type <> all (t.events))
       for key share of t
  ), event as (
    insert into notification_events (organization_id, team_id, export_id, type, facts)
    select p.organization_id, e.team_id, e.id, event_type,
           jsonb_build_object('export', jsonb_build_object('id', e.id, 'name', e.name)) || event_facts
      from batch_exports e join projects p on p.id = e.team_id
     where e.id = about and exists (select from wanted)
    returning id, seq
  )
  insert into notification_deliveries (target_id, event_id, organization_id, export_id, seq, kind, type, status, finished_at, gathers_until)
  select w.id, event.id, w.organization_id, about, event.seq, w.kind, event_type,
         case when w.is_full then 'dropped' else 'waiting' end, case when w.is_full then now() end,
         case when w.is_storm and not w.is_full then clock_timestamp() + interval '1 minute' end
    from event, wanted w
   -- One entry per hour says that events are dropped.
   where not w.is_full or not exists (
     select from notification_deliveries d where d.target_id = w.id and d.status = 'dropped' and d.created_at > now() - interval '1 hour');
end $$;
update notification_deliveries set status = 'dropped' where status = 'replaced';
alter table notification_deliveries drop constraint notification_deliveries_status_check;
alter table notification_deliveries add constraint notification_deliveries_status_check
  check (status in ('waiting', 'delivered', 'given_up', 'cancelled', 'dropped')) not valid;
alter table notification_targets drop column digests;
