-- The rules of Sluice that the database keeps: what must be true after every statement, whichever statement it is. They are
-- triggers because several statements make each of these changes, and because an operator or a later statement must not be able
-- to forget one. A rule about a change that one statement makes is in that statement: the end of a failure is in
-- store/runs/completions.ts. The triggers of one event fire in the order of their names.

-- 1. A run that has ended waits for nothing, whether it completes, fails, is cancelled or goes with its tenant. The trigger sees what was committed while the statement that ends the run waited
--    for it: the sweep may have enqueued it meanwhile.
create function leave_outbox() returns trigger language plpgsql as $$
begin
  delete from outbox where run_id = new.id;
  return null;
end $$;
create trigger runs_leave_outbox after update of status on runs for each row
  when (old.finished_at is null and new.finished_at is not null) execute function leave_outbox();

-- 2. A run that ends without success leaves a hole if its interval has no receipt.
create function note_hole() returns trigger language plpgsql as $$
begin
  insert into holes (export_id, data_interval_start, data_interval_end)
  select new.export_id, new.data_interval_start, new.data_interval_end
   where not exists (select from receipts c where c.export_id = new.export_id
           and c.data_interval_start = new.data_interval_start and c.data_interval_end = new.data_interval_end)
  on conflict do nothing;
  return null;
end $$;
create trigger runs_leave_holes after insert or update of status on runs for each row
  when (new.status in ('Failed', 'FailedRetryable', 'Cancelled')) execute function note_hole();

-- 3. A receipt fills the hole, so that no receipt is ever beside one.
create function fill_hole() returns trigger language plpgsql as $$
begin
  delete from holes where export_id = new.export_id
     and data_interval_start = new.data_interval_start and data_interval_end = new.data_interval_end;
  return null;
end $$;
create trigger receipts_fill_holes after insert on receipts for each row execute function fill_hole();

-- 4. The current intervals of an export never overlap. An exclusion constraint over (export_id, range) needs btree_gist, which
--    not every server has. The lock makes insertions of an export wait for each other, so the neighbours are enough; whatever
--    completes a run has it already.
create function refuse_overlap() returns trigger language plpgsql as $$
begin
  perform from batch_exports where id = new.export_id for no key update;
  if exists (
       select from receipts c where c.export_id = new.export_id
          and c.data_interval_start >= new.data_interval_start and c.data_interval_start < new.data_interval_end
          and (c.data_interval_start, c.data_interval_end) <> (new.data_interval_start, new.data_interval_end))
     or (select c.data_interval_end from receipts c
          where c.export_id = new.export_id and c.data_interval_start < new.data_interval_start
          order by c.data_interval_start desc limit 1) > new.data_interval_start then
    raise exclusion_violation using message = 'the interval overlaps a current one of its export',
      detail = format('%s: %s to %s', new.export_id, new.data_interval_start, new.data_interval_end);
  end if;
  return new;
end $$;
create trigger receipts_do_not_overlap before insert on receipts for each row execute function refuse_overlap();

-- 5. The source of a plugin is kept by its content: a run that names a digest always finds it.
create function keep_plugin_source() returns trigger language plpgsql as $$
begin
  new.source_sha256 := encode(sha256(convert_to(new.source, 'UTF8')), 'hex');
  insert into plugin_sources (sha256, source) values (new.source_sha256, new.source) on conflict do nothing;
  if tg_op = 'UPDATE' and old.source_sha256 <> new.source_sha256 then
    update plugin_sources set replaced_at = now() where sha256 = old.source_sha256;
  end if;
  return new;
end $$;
create trigger keep_plugin_source before insert or update of source on plugins
  for each row execute function keep_plugin_source();

-- 6. Log entries are counted: they are written in four ways and deleted in three. A count that becomes zero goes at once, so that nothing has to look for it.
create function count_log_entries() returns trigger language plpgsql as $$
begin
  insert into log_counts as c (export_id, run_id, level, entries)
  select export_id, counted_id, level, count(*) * case tg_op when 'INSERT' then 1 else -1 end
    from changed_entries,
         lateral (values ('00000000-0000-0000-0000-000000000000'::uuid), (run_id)) as counted (counted_id)
   where counted_id is not null
   group by 1, 2, 3
   -- One order for all, so that two writers never wait for each other.
   order by 1, 2, 3
  on conflict (export_id, run_id, level) do update set entries = c.entries + excluded.entries;
  if tg_op = 'DELETE' then
    -- Its rows are locked by the statement above.
    delete from log_counts c using (
      select distinct export_id, counted_id, level from changed_entries,
             lateral (values ('00000000-0000-0000-0000-000000000000'::uuid), (run_id)) as counted (counted_id)
       where counted_id is not null) as changed
     where c.export_id = changed.export_id and c.run_id = changed.counted_id and c.level = changed.level and c.entries = 0;
  end if;
  return null;
end $$;
create trigger log_entries_inserted after insert on log_entries
  referencing new table as changed_entries for each statement execute function count_log_entries();
create trigger log_entries_deleted after delete on log_entries
  referencing old table as changed_entries for each statement execute function count_log_entries();

-- 7. A pause that Sluice made begins and ends with the columns that say so, whichever statement pauses or unpauses. What is due
--    in it is still owed.
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

-- 8. A deadline counts from the moment at which it was set.
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

-- 9. to 16. A change that people ask to be notified of is recorded in its own transaction, by these functions. Statements of the
--    service do not know who is notified.

-- A time as the API shows it.
create function api_time(at timestamptz) returns text language sql stable as $$
  select to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
$$;

create function facts_of_run(run runs) returns jsonb language sql stable as $$
  select jsonb_build_object(
    'run', jsonb_build_object('id', run.id, 'data_interval_start', api_time(run.data_interval_start),
      'data_interval_end', api_time(run.data_interval_end), 'attempt', run.attempt, 'backfill_id', run.backfill_id),
    'error', jsonb_build_object('code', run.error_code, 'detail', left(run.latest_error, 2000)))
$$;

-- Records an event of an export, and its delivery to each target of its organization or of the installation that asks for it;
-- nothing if no target does. The event says whose export it is, the code of the newest failure, and how many intervals are
-- without data. Targets that also ask for `unless_type` do not get it: they got that one at the same moment. From the 21st event
-- of a type within five minutes on, a delivery waits a minute for others of its type. If 500 deliveries wait for a target, a new
-- one waits too, and takes the place of those of its export and type that wait.
create function notify_targets(about uuid, event_type text, event_facts jsonb, unless_type text default null)
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

-- 9. An export begins to fail, and its retries run out. The transactions that end a run without success lock its export before.
create function note_failing() returns trigger language plpgsql as $$
declare
  export batch_exports;
  is_exhausted boolean := new.status = 'FailedRetryable';
begin
  select * into export from batch_exports e where e.id = new.export_id;
  if export.deleted_at is not null then
    return null;
  end if;
  update batch_exports set failing_since = coalesce(failing_since, clock_timestamp()),
         exhausted_since = case when is_exhausted then coalesce(exhausted_since, clock_timestamp()) else exhausted_since end,
         failing_code = new.error_code, failing_error = left(new.latest_error, 2000)
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

-- 10. An export recovers, or Sluice pauses it.
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

-- 11. The data of an export are late, or on time again. The check knows the objective, which may be that of the project or the
--     installation. A target that gets the message about a deadline gets no second one about the same data.
create function note_lateness() returns trigger language plpgsql as $$
declare
  objective jsonb := jsonb_build_object('freshness_minutes', new.freshness_minutes,
    'high_water_mark', api_time(new.high_water_mark));
  by_deadline boolean := new.freshness_minutes is null and (new.deadline_minutes is not null or new.deadline_at is not null);
begin
  if new.late_since is not null then
    perform notify_targets(new.id, 'export.late', objective || jsonb_build_object('late_since', api_time(new.late_since)),
      case when by_deadline then 'interval.missed' end);
  elsif not new.paused then
    perform notify_targets(new.id, 'export.on_time', objective || jsonb_build_object('late_since', api_time(old.late_since)),
      case when by_deadline then 'interval.delivered_late' end);
  end if;
  return null;
end $$;
create trigger batch_exports_notify_lateness after update of late_since on batch_exports for each row
  when ((old.late_since is null) <> (new.late_since is null)) execute function note_lateness();

-- 12. A backfill completes.
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

-- 15. The newest verification of an export has not proven its files, or has again.
create function note_verification() returns trigger language plpgsql as $$
begin
  perform notify_targets(new.export_id,
    case when new.failed_since is null then 'verify.passed' else 'verify.failed' end,
    jsonb_build_object('result', new.result, 'breaches', new.breaches, 'detail', new.detail,
      'failed_since', api_time(coalesce(new.failed_since, old.failed_since))));
  return null;
end $$;
create trigger verifications_notify after update of failed_since on verifications for each row
  when ((old.failed_since is null) <> (new.failed_since is null)) execute function note_verification();

-- 16. How a digest ends, all that it carries ends.
create function end_carried() returns trigger language plpgsql as $$
begin
  update notification_deliveries m set status = new.status, finished_at = new.finished_at
   where m.digest_id = new.id and m.status = 'waiting' and not m.is_repeat;
  return null;
end $$;
create trigger notification_deliveries_end_carried after update of status on notification_deliveries for each row
  when (new.type = 'digest' and old.status = 'waiting' and new.status <> 'waiting') execute function end_carried();
