-- Contracts: 0.1.0 stopped using the narrow check on activity.subject_type; a wider one takes its place.
-- Up Migration

-- The database's history, in stretches that no restore or failover interrupts. The newest row is the current
-- era; the first process that starts writes the first one.
create table eras (
  number integer primary key check (number > 0),
  id uuid not null unique default gen_random_uuid(),
  began_at timestamptz not null default clock_timestamp(),
  -- For people: what differs from the era before.
  reason text not null,
  -- Where these tables were when the era began; null if the server does not say.
  system_identifier text,
  timeline integer,
  database_oid bigint,
  eras_oid bigint,
  -- No work is done until an operator accepts the era.
  needs_acceptance boolean not null default false,
  accepted_at timestamptz
);

-- Where these tables are now. What this role may not ask, or this server does not know, is null.
create function read_place(out system_identifier text, out timeline integer, out database_oid bigint, out eras_oid bigint)
language plpgsql as $$
begin
  begin
    system_identifier := (select c.system_identifier::text from pg_control_system() c);
  exception when others then null;
  end;
  begin
    timeline := ('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))::bit(32)::integer;
  exception when others then null;
  end;
  database_oid := (select d.oid::bigint from pg_database d where d.datname = current_database());
  eras_oid := 'eras'::regclass::oid::bigint;
end
$$;

-- What an operator does to the installation belongs to no organization.
alter table activity alter column organization_id drop not null;
alter table activity drop constraint activity_subject_type_check;
alter table activity add constraint activity_subject_type_check
  check (subject_type in ('batch_export', 'transformation_config', 'plugin', 'api_key', 'era')) not valid;

-- Down Migration

delete from activity where subject_type = 'era';
alter table activity drop constraint activity_subject_type_check;
alter table activity add constraint activity_subject_type_check
  check (subject_type in ('batch_export', 'transformation_config', 'plugin', 'api_key'));
alter table activity alter column organization_id set not null;
drop function read_place;
drop table eras;
