-- Targets of the whole installation, what a message says, intervals without data, an objective by default, and workers that are gone.

-- The installation itself: its targets hear of all organizations. It has no projects and no keys.
insert into organizations (id, name) values ('00000000-0000-0000-0000-000000000000', 'Installation');

-- Of exports without an objective of their own; null: two intervals and some minutes.
alter table projects add column freshness_minutes integer check (freshness_minutes > 0);

-- When the interval began to be without data.
alter table holes add column noted_at timestamptz not null default now();
-- Since when an export that does not fail has intervals without data, for an hour at least. A check by a worker writes it.
alter table batch_exports add column incomplete_since timestamptz;
create index batch_exports_incomplete on batch_exports (id) where incomplete_since is not null;

-- What is wrong with the installation, so that it is said once.
create table installation_alarms (
  kind text primary key,
  since timestamptz not null default clock_timestamp()
);

-- As in 0001, and: targets of the installation get the events of all organizations, and each event says whose export it is, how
-- many intervals are without data, and the code of the newest failure.
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
             'missing_intervals', (select count(*) from (select from holes h where h.export_id = e.id limit 10000) as counted))
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

-- 10. The data of an export are late, or on time again. The check knows the objective, which may be that of the project or the
-- installation.
create or replace function note_lateness() returns trigger language plpgsql as $$
declare
  objective jsonb := jsonb_build_object('freshness_minutes', new.freshness_minutes,
    'high_water_mark', api_time(new.high_water_mark));
begin
  if new.late_since is not null then
    perform notify_targets(new.id, 'export.late', objective || jsonb_build_object('late_since', api_time(new.late_since)));
  elsif not new.paused then
    perform notify_targets(new.id, 'export.on_time', objective || jsonb_build_object('late_since', api_time(old.late_since)));
  end if;
  return null;
end $$;

-- 13. An export that does not fail has had intervals without data for an hour, or has them no more.
create function note_incompleteness() returns trigger language plpgsql as $$
begin
  if new.incomplete_since is not null then
    perform notify_targets(new.id, 'export.incomplete', '{}');
  -- A failure says more: its own event was sent.
  elsif new.failing_since is null then
    perform notify_targets(new.id, 'export.complete', jsonb_build_object('incomplete_since', api_time(old.incomplete_since)));
  end if;
  return null;
end $$;
create trigger batch_exports_notify_incompleteness after update of incomplete_since on batch_exports for each row
  when ((old.incomplete_since is null) <> (new.incomplete_since is null)) execute function note_incompleteness();

-- 14. Something is wrong with the installation, or over. Only its own targets hear of it.
create function note_alarm() returns trigger language plpgsql as $$
declare
  alarm installation_alarms := coalesce(new, old);
  event_type text := 'installation.' || alarm.kind || case tg_op when 'DELETE' then '_over' else '' end;
begin
  with wanted as materialized (
    select id, kind, organization_id from notification_targets t
     where t.organization_id = '00000000-0000-0000-0000-000000000000' and t.enabled and event_type = any (t.events)
       for key share of t
  ), event as (
    insert into notification_events (organization_id, type, facts)
    select '00000000-0000-0000-0000-000000000000', event_type, jsonb_build_object('since', api_time(alarm.since))
     where exists (select from wanted)
    returning id, seq
  )
  insert into notification_deliveries (target_id, event_id, organization_id, seq, kind, type)
  select w.id, event.id, w.organization_id, event.seq, w.kind, event_type from event, wanted w;
  return null;
end $$;
create trigger installation_alarms_notify after insert or delete on installation_alarms for each row execute function note_alarm();
