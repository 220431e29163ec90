-- Up Migration

alter table runs
  -- whole: makes the interval from its source. supplement: adds late rows to its files. erase: removes a person's rows from
  -- its files.
  add column purpose text not null default 'whole' check (purpose in ('whole', 'supplement', 'erase')),
  -- Whether it may replace files by others that lack delivered rows: a person asked for it.
  add column drops_missing boolean not null default false;

alter table backfills
  -- Of its runs.
  add column drops_missing boolean not null default false;

alter table receipts
  -- The digest of the keys in the current files, rejected rows included; null if it is not known. `key_digest` is of the keys
  -- that the source had when it was last looked at.
  add column delivered_digest text,
  -- Why late rows of the interval cannot be added without a person; null if there are none, or if they can.
  add column late_rows_wait text;

-- Down Migration

alter table receipts drop column late_rows_wait, drop column delivered_digest;
alter table backfills drop column drops_missing;
alter table runs drop column drops_missing, drop column purpose;
