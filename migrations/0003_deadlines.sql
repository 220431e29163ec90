-- Deadlines: by when each interval is due at the destination, what became of that, and the messages that say it once per
-- cause.

alter table batch_exports
  add column deadline_minutes integer check (deadline_minutes between 1 and 43200),
  -- HH:MM in the zone of the export; for day and week.
  add column deadline_at text check (deadline_at ~ '^([01][0-9]|2[0-3]):[0-5][0-9]$'),
  add column warn_minutes integer check (warn_minutes between 1 and 43200),
  add constraint batch_exports_one_deadline check (deadline_minutes is null or deadline_at is null);

-- When the interval was delivered for the first time. A later commit of it changes nothing here.
alter table receipts add column delivered_at timestamptz;
update receipts set delivered_at = committed_at;
alter table receipts alter column delivered_at set default clock_timestamp();

-- How far the deadlines of an export are judged. A row beside the export, so that a check never locks what runs need.
create table deadline_checks (
  export_id uuid primary key references batch_exports (id) on delete cascade,
  -- Ticks up to here are judged.
  judged_to timestamptz not null,
  next_check_at timestamptz not null
);
create index deadline_checks_due on deadline_checks (next_check_at);

-- Intervals that are at risk of missing their deadline, or have missed it. All others were delivered in time.
create table late_intervals (
  export_id uuid not null references batch_exports (id) on delete cascade,
  data_interval_start timestamptz not null,
  data_interval_end timestamptz not null,
  due_by timestamptz not null,
  at_risk_at timestamptz not null default clock_timestamp(),
  missed_at timestamptz,
  delivered_at timestamptz,
  -- Of the newest failure when that was noted; null: none failed.
  code text,
  turn text not null check (turn in ('ours', 'source', 'customer')),
  primary key (export_id, data_interval_start, data_interval_end)
);
create index late_intervals_open on late_intervals (export_id) where delivered_at is null;

-- Pauses that Sluice made. What is due in them is still owed.
create table automatic_pauses (
  export_id uuid not null references batch_exports (id) on delete cascade,
  began_at timestamptz not null default clock_timestamp(),
  ended_at timestamptz,
  primary key (export_id, began_at)
);

create function note_automatic_pause() returns trigger language plpgsql as $$
begin
  update automatic_pauses set ended_at = clock_timestamp() where export_id = new.id and ended_at is null;
  if new.paused and new.paused_reason is not null then
    insert into automatic_pauses (export_id) values (new.id);
  end if;
  return null;
end $$;
create trigger batch_exports_automatic_pause after update of paused, paused_reason on batch_exports for each row
  when (old.paused is distinct from new.paused or old.paused_reason is distinct from new.paused_reason)
  execute function note_automatic_pause();

-- A deadline counts from the moment at which it was set.
create function begin_deadline() returns trigger language plpgsql as $$
begin
  if new.deadline_minutes is null and new.deadline_at is null then
    delete from deadline_checks where export_id = new.id;
    delete from late_intervals where export_id = new.id and missed_at is null;
  else
    insert into deadline_checks (export_id, judged_to, next_check_at) values (new.id, clock_timestamp(), clock_timestamp())
    on conflict (export_id) do update set next_check_at = excluded.next_check_at;
  end if;
  return null;
end $$;
create trigger batch_exports_new_deadline after insert on batch_exports for each row
  when (new.deadline_minutes is not null or new.deadline_at is not null) execute function begin_deadline();
create trigger batch_exports_deadline after update of deadline_minutes, deadline_at, warn_minutes, schedule on batch_exports for each row
  when (old.deadline_minutes is distinct from new.deadline_minutes or old.deadline_at is distinct from new.deadline_at
     or old.warn_minutes is distinct from new.warn_minutes or (old."interval", old.timezone) is distinct from (new."interval", new.timezone))
  execute function begin_deadline();

-- A cause is announced once it has lasted a minute.
alter table causes add column announced_at timestamptz;

-- Records one event for all that has one cause: for the targets of an organization (`project` is null) or of one of its
-- projects. Nothing if no target asks for it.
create function notify_group(organization uuid, project integer, event_type text, event_facts jsonb)
returns void language plpgsql as $$
begin
  with wanted as materialized (
    select t.id, t.kind from notification_targets t
     where t.organization_id = organization and t.team_id is not distinct from project and t.enabled and event_type = any (t.events)
       for key share of t
  ), event as (
    insert into notification_events (organization_id, team_id, type, facts)
    select organization, project, event_type, event_facts where exists (select from wanted)
    returning id, seq
  )
  insert into notification_deliveries (target_id, event_id, organization_id, seq, kind, type)
  select w.id, event.id, organization, event.seq, w.kind, event_type from event, wanted w;
end $$;
