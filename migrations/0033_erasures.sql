-- Up Migration

alter table runs
  -- The column and the value of the rows that a run erases, sealed. A run that has ended has none: it forgets them with its last
  -- change of status.
  add column erases bytea,
  add constraint runs_erases_while_live check (erases is null or status in ('Starting', 'Running'));

comment on column runs.erases is 'sealed: erasure:{id}';

-- Rotation of the encryption keys looks for them among all runs.
create index runs_erasing on runs (id) where erases is not null;

-- Down Migration

drop index runs_erasing;
alter table runs drop constraint runs_erases_while_live, drop column erases;
