-- Up Migration

-- Many changes of one type within minutes are sent to a target in one message, a digest.
alter table notification_deliveries add column type text;
-- It waits for others of its type until then; null: it does not.
alter table notification_deliveries add column gathers_until timestamptz;
-- The delivery that carries it together with others. Its attempts are there, and its end is the end of all.
alter table notification_deliveries add column digest_id uuid references notification_deliveries (id) on delete set null;
create index notification_deliveries_of_type on notification_deliveries (target_id, type, created_at);
create index notification_deliveries_gathering on notification_deliveries (gathers_until)
  where status = 'waiting' and gathers_until is not null;
create index notification_deliveries_by_digest on notification_deliveries (digest_id) where digest_id is not null;

-- As before. From the 21st event of a type within five minutes on, a delivery waits a minute for others of its type.
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

-- How a digest ends, all that it carries ends: also if a worker of the build before this one sent it.
create function end_carried() returns trigger language plpgsql as $$
begin
  update notification_deliveries m set status = new.status, finished_at = new.finished_at
   where m.digest_id = new.id and m.status = 'waiting' and not m.is_repeat;
  return null;
end $$;
create trigger notification_deliveries_end_carried after update of status on notification_deliveries for each row
  when (new.type = 'digest' and old.status = 'waiting' and new.status <> 'waiting') execute function end_carried();

-- Down Migration

create or replace function notify_targets(about uuid, event_type text, event_facts jsonb, unless_type text default null)
returns void language plpgsql as $$
declare
  waiting_max constant integer := 500;
begin
  with wanted as materialized (
    -- Locked, so that a target that is being deleted cannot fail the transaction of the change.
    select t.id, t.kind, t.organization_id, (select count(*) from (
             select from notification_deliveries d where d.target_id = t.id and d.status = 'waiting' limit waiting_max
           ) as counted) >= waiting_max as is_full
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
  insert into notification_deliveries (target_id, event_id, organization_id, export_id, seq, kind, status, finished_at)
  select w.id, event.id, w.organization_id, about, event.seq, w.kind,
         case when w.is_full then 'dropped' else 'waiting' end, case when w.is_full then now() end
    from event, wanted w
   -- One entry per hour says that events are dropped.
   where not w.is_full or not exists (
     select from notification_deliveries d where d.target_id = w.id and d.status = 'dropped' and d.created_at > now() - interval '1 hour');
end $$;
drop trigger notification_deliveries_end_carried on notification_deliveries;
drop function end_carried;
drop index notification_deliveries_by_digest;
drop index notification_deliveries_gathering;
drop index notification_deliveries_of_type;
alter table notification_deliveries drop column digest_id, drop column gathers_until, drop column type;
delete from notification_events where type = 'digest';
