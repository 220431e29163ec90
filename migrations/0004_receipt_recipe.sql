-- Up Migration

-- What the files were made by; null if they were made before this was kept.
alter table receipts add column recipe jsonb;

-- Down Migration

alter table receipts drop column recipe;
