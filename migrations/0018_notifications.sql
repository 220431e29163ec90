-- Contracts: 0.1.0 stopped using the list of subjects in the check on activity.subject_type; the code's types have it.
-- Up Migration

-- Who is notified of changes: a webhook or a list of e-mail addresses, of an organization or of one project.
create table notification_targets (
  id uuid primary key default gen_random_uuid(),
  organization_id uuid not null references organizations (id) on delete cascade,
  -- Null: all projects of the organization.
  team_id integer references projects (id) on delete cascade,
  kind text not null check (kind in ('webhook', 'email')),
  description text not null,
  -- What of a webhook's URL is shown: all of it is in `secrets`, because it can be a credential.
  url_preview text,
  format text not null check (format in ('json', 'slack')),
  recipients text[] not null default '{}',
  events text[] not null,
  enabled boolean not null default true,
  -- Why Sluice disabled it; null if a person did.
  disabled_reason text,
  -- {url, secret, previousSecret}; null for e-mail.
  secrets bytea,
  -- Until then the previous secret signs too.
  previous_secret_until timestamptz,
  -- Since when no delivery has succeeded; null: the newest attempt succeeded, or there was none.
  failing_since timestamptz,
  created_at timestamptz not null default clock_timestamp(),
  last_updated_at timestamptz not null default clock_timestamp()
);
create index notification_targets_by_organization on notification_targets (organization_id, created_at desc, id desc);
create index notification_targets_by_team on notification_targets (team_id) where team_id is not null;
comment on column notification_targets.secrets is 'sealed: notification-target:{id}';

-- Changes that targets ask for, written in the transaction of the change.
create table notification_events (
  id uuid primary key default gen_random_uuid(),
  -- The order of the events of an export.
  seq bigint generated always as identity,
  organization_id uuid not null references organizations (id) on delete cascade,
  team_id integer references projects (id) on delete cascade,
  -- Null: a test.
  export_id uuid references batch_exports (id) on delete cascade,
  type text not null,
  facts jsonb not null,
  happened_at timestamptz not null default clock_timestamp()
);
create index notification_events_in_order on notification_events (seq);
create index notification_events_by_organization on notification_events (organization_id);
create index notification_events_by_team on notification_events (team_id) where team_id is not null;
create index notification_events_by_export on notification_events (export_id) where export_id is not null;

-- One event for one target: what waits to be sent, and the log of what was.
create table notification_deliveries (
  id uuid primary key default gen_random_uuid(),
  target_id uuid not null references notification_targets (id) on delete cascade,
  event_id uuid not null references notification_events (id) on delete cascade,
  -- Of the event and the target, for the choice of what is sent next.
  organization_id uuid not null,
  export_id uuid,
  seq bigint not null,
  kind text not null,
  -- dropped: too many waited for the target. cancelled: the target was disabled.
  status text not null default 'waiting' check (status in ('waiting', 'delivered', 'given_up', 'cancelled', 'dropped')),
  -- Sent again on request: keeps no order.
  is_repeat boolean not null default false,
  -- Since it began to wait.
  attempts integer not null default 0,
  next_attempt_at timestamptz not null default now(),
  -- Held by the process that sends it, until then.
  lease uuid,
  leased_until timestamptz,
  -- [{at, answer, latency_ms}], the newest 20.
  attempt_log jsonb not null default '[]',
  created_at timestamptz not null default clock_timestamp(),
  finished_at timestamptz,
  unique (target_id, event_id)
);
create index notification_deliveries_by_event on notification_deliveries (event_id);
create index notification_deliveries_by_target on notification_deliveries (target_id, created_at desc, id desc);
create index notification_deliveries_waiting on notification_deliveries (kind, organization_id, next_attempt_at, seq)
  where status = 'waiting';
create index notification_deliveries_in_order on notification_deliveries (target_id, export_id, seq) where status = 'waiting';
create index notification_deliveries_under_way on notification_deliveries (organization_id, kind, target_id, leased_until)
  where status = 'waiting' and leased_until is not null;
create index notification_deliveries_mailed on notification_deliveries (organization_id, finished_at)
  where kind = 'email' and status = 'delivered';
create index notification_deliveries_dropped on notification_deliveries (target_id, created_at) where status = 'dropped';

-- The state of an export that its notifications are about. Null: its newest outcome is a success.
alter table batch_exports add column failing_since timestamptz;
alter table batch_exports add column exhausted_since timestamptz;
update batch_exports set failing_since = now() where failure_streak > 0 and deleted_at is null;

-- A time as the API shows it.
create function api_time(at timestamptz) returns text language sql stable as $$
  select to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
$$;

-- Records an event of an export, and its delivery to each target that asks for it; nothing if no target does.
-- Targets that also ask for `unless_type` do not get it: they got that one at the same moment.
create function notify_targets(about uuid, event_type text, event_facts jsonb, unless_type text default null)
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

create function facts_of_run(run runs) returns jsonb language sql stable as $$
  select jsonb_build_object(
    'run', jsonb_build_object('id', run.id, 'data_interval_start', api_time(run.data_interval_start),
      'data_interval_end', api_time(run.data_interval_end), 'attempt', run.attempt, 'backfill_id', run.backfill_id),
    'error', jsonb_build_object('code', run.error_code, 'detail', left(run.latest_error, 2000)))
$$;

-- The transactions that end a run without success lock its export before.
create function note_failing() returns trigger language plpgsql as $$
declare
  export batch_exports;
  is_exhausted boolean := new.status = 'FailedRetryable';
begin
  select * into export from batch_exports e where e.id = new.export_id;
  if export.deleted_at is not null or (export.failing_since is not null and (not is_exhausted or export.exhausted_since is not null)) then
    return null;
  end if;
  update batch_exports set failing_since = coalesce(failing_since, clock_timestamp()),
         exhausted_since = case when is_exhausted then coalesce(exhausted_since, clock_timestamp()) else exhausted_since end
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
create trigger runs_notify_failing after update of status on runs for each row
  when (new.status in ('Failed', 'FailedRetryable') and old.status is distinct from new.status) execute function note_failing();

create function end_failing() returns trigger language plpgsql as $$
begin
  new.failing_since := null;
  new.exhausted_since := null;
  return new;
end $$;
create trigger batch_exports_end_failing before update of last_success_at on batch_exports for each row
  when (old.failing_since is not null and old.last_success_at is distinct from new.last_success_at) execute function end_failing();

create function note_export_change() returns trigger language plpgsql as $$
declare
  missing bigint;
begin
  if old.failing_since is not null and new.failing_since is null then
    select count(*) into missing from (
      select from holes h where h.export_id = new.id and not exists (
        select from receipts c where c.export_id = h.export_id and c.data_interval_start = h.data_interval_start
           and c.data_interval_end = h.data_interval_end) limit 1000) as counted;
    perform notify_targets(new.id, 'export.recovered',
      jsonb_build_object('failing_since', api_time(old.failing_since), 'missing_intervals', missing));
  end if;
  if new.paused and not old.paused and new.paused_reason is not null then
    perform notify_targets(new.id, 'export.paused',
      jsonb_build_object('reason', left(new.paused_reason, 2000), 'failure_streak', new.failure_streak));
  end if;
  return null;
end $$;
create trigger batch_exports_notify after update on batch_exports for each row
  when ((old.failing_since is not null and new.failing_since is null)
     or (new.paused and not old.paused and new.paused_reason is not null)) execute function note_export_change();

create function note_backfill_end() returns trigger language plpgsql as $$
declare
  failed bigint;
begin
  select count(*) into failed from runs r where r.backfill_id = new.id and r.status in ('Failed', 'FailedRetryable');
  perform notify_targets(new.export_id, 'backfill.completed', jsonb_build_object('backfill', jsonb_build_object(
    'id', new.id, 'start_at', api_time(new.start_at), 'end_at', api_time(new.end_at),
    'total_runs', new.total_runs, 'failed_runs', failed)));
  return null;
end $$;
create trigger backfills_notify after update of status on backfills for each row
  when (old.status = 'Running' and new.status = 'Completed') execute function note_backfill_end();

alter table activity drop constraint activity_subject_type_check;
alter table activity add constraint activity_subject_type_check check (subject_type ~ '^[a-z_]+$') not valid;

-- Down Migration

drop trigger backfills_notify on backfills;
drop trigger batch_exports_notify on batch_exports;
drop trigger batch_exports_end_failing on batch_exports;
drop trigger runs_notify_failing on runs;
drop function note_backfill_end;
drop function note_export_change;
drop function end_failing;
drop function note_failing;
drop function facts_of_run;
drop function notify_targets;
drop function api_time;
alter table batch_exports drop column exhausted_since;
alter table batch_exports drop column failing_since;
drop table notification_deliveries, notification_events, notification_targets;
delete from activity where subject_type = 'notification_target';
alter table activity drop constraint activity_subject_type_check;
alter table activity add constraint activity_subject_type_check
  check (subject_type in ('batch_export', 'transformation_config', 'plugin', 'api_key', 'era'));
