-- Up Migration

-- What the run that last read the interval saw, and whether it saw all of it. It stays with the receipt while
-- runs come and go: a run with the same rows renews it and leaves the manifest.
alter table receipts
  -- pg_current_snapshot() of it.
  add column snapshot text,
  -- Whether no transaction can add rows any more; null: an older build wrote it, and its run says.
  add column settled boolean,
  -- What may still add rows, by the source's own names.
  add column pending_transactions text[] not null default '{}',
  -- Of the keys of all rows read, as a set; null if it was not computed.
  add column key_digest text,
  add column key_count bigint,
  -- When the pending transactions were last looked for.
  add column pending_checked_at timestamptz,
  -- When the interval was last compared with its source.
  add column looked_back_at timestamptz;

create index receipts_unsettled on receipts (export_id, data_interval_start) where settled = false;
create index receipts_by_end on receipts (data_interval_end);

-- Down Migration

drop index receipts_by_end, receipts_unsettled;
alter table receipts drop column looked_back_at, drop column pending_checked_at, drop column key_count,
  drop column key_digest, drop column pending_transactions, drop column settled, drop column snapshot;
