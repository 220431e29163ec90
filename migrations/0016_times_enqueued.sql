-- Up Migration

-- How often the run was enqueued since it waits. The build before keeps this count in `told`.
alter table outbox add column times_enqueued integer not null default 0;

-- While both builds run, each reads the count that the other has written.
create function keep_times_enqueued() returns trigger language plpgsql as $$
begin
  if new.told <> old.told then
    new.times_enqueued := new.told;
  else
    new.told := new.times_enqueued;
  end if;
  return new;
end $$;
update outbox set times_enqueued = told where told > 0;
create trigger outbox_keeps_times_enqueued before update of told, times_enqueued on outbox
  for each row execute function keep_times_enqueued();

-- Down Migration

drop trigger outbox_keeps_times_enqueued on outbox;
drop function keep_times_enqueued;
alter table outbox drop column times_enqueued;
