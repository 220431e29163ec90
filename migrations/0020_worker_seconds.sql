-- Up Migration

-- Time that workers spent on the runs of each project, by the hour. Workers add to it every few seconds.
create table worker_seconds (
  team_id integer not null references projects (id) on delete cascade,
  hour timestamptz not null,
  seconds double precision not null,
  primary key (team_id, hour)
) with (fillfactor = 70);
create index worker_seconds_by_hour on worker_seconds (hour);

-- Down Migration

drop table worker_seconds;
