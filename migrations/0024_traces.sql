-- Up Migration

-- The span that a run or a backfill was created in, as a W3C traceparent; null unless traces are on.
alter table runs add column traceparent text;
alter table backfills add column traceparent text;

-- Down Migration

alter table backfills drop column traceparent;
alter table runs drop column traceparent;
