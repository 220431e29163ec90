-- Verifications by VERIFY_SCHEDULE, and one message for data that missed its deadline.

-- The newest verification of each export.
create table verifications (
  export_id uuid primary key references batch_exports (id) on delete cascade,
  -- Null: the first one has not ended.
  verified_at timestamptz,
  -- The newest one began then. `tries`: how often it began since the last one ended. A process that dies leaves it above 0.
  begun_at timestamptz not null default clock_timestamp(),
  tries integer not null default 0,
  result text check (result in ('proven', 'incomplete', 'broken', 'unread')),
  intervals bigint not null default 0,
  rows bigint not null default 0,
  breaches bigint not null default 0,
  -- What was found, and the remedy.
  detail text not null default '',
  -- Since when its result is `broken` or `unread`; null: it is not.
  failed_since timestamptz
);
create index verifications_failed on verifications (export_id) where failed_since is not null;

-- Which worker verifies: one at a time.
create table verify_turn (
  singleton boolean primary key default true check (singleton),
  lease uuid,
  leased_until timestamptz,
  -- When the first round began, and when the last one ended in which each export had its turn.
  began_at timestamptz,
  ended_at timestamptz
);
insert into verify_turn default values;

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

-- As in 0010, and: a target that gets the message about a deadline gets no second one about the same data.
create or replace function note_lateness() returns trigger language plpgsql as $$
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
