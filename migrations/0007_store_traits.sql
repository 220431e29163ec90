-- Up Migration

-- Conditions and checksums that the destination's store supports; null if it was not tried since
-- the destination moved to another place.
alter table batch_exports add column store_traits jsonb;
-- The version of the destination that was tried, and when.
alter table batch_exports add column store_traits_version integer;
alter table batch_exports add column store_traits_at timestamptz;

-- Down Migration

alter table batch_exports drop column store_traits_at;
alter table batch_exports drop column store_traits_version;
alter table batch_exports drop column store_traits;
