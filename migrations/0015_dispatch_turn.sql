-- Up Migration

-- The choice of a dispatcher is only right if no other one has dispatched since it was made. Each dispatch takes the
-- turn that its choice was made in: one row, so that no choice has to hold a lock while it is made.
create table dispatch_turn (
  only_row boolean primary key default true check (only_row),
  turn bigint not null default 0
) with (fillfactor = 10);
insert into dispatch_turn default values;

-- Down Migration

drop table dispatch_turn;
