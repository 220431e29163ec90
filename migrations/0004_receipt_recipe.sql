-- Up Migration

-- What the files were made by; null where they were made before it was kept.
alter table receipts add column recipe jsonb;

-- Down Migration

alter table receipts drop column recipe;
