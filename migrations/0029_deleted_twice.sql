-- Up Migration

-- When its object was deleted, if a request that was sent before could still make it again. Then it is deleted once more,
-- after no store takes such a request any longer.
alter table leftover_files add column deleted_at timestamptz;

-- Down Migration

alter table leftover_files drop column deleted_at;
