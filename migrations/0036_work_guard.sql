-- Up Migration

-- Work besides runs that may end its process, such as removing files at a store. It is noted here before it begins. What is
-- still noted after its time, by another process, died.
create table guarded_work (
  -- Such as remove_files.
  kind text not null,
  -- The export, the step or the offboarding.
  id text not null,
  -- The process that does it; null: none.
  holder uuid,
  -- When the holder is dead if it has not ended by then.
  expires_at timestamptz not null,
  -- Processes that died at it, and when the last one was noticed. They are forgotten some hours after work that ended well.
  deaths integer not null default 0,
  died_at timestamptz,
  -- No process does it any more, until an operator allows it.
  set_aside_at timestamptz,
  primary key (kind, id)
);

-- Down Migration

drop table guarded_work;
