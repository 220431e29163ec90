-- Up Migration

-- Filters as the request gave them. Their conditions are in the WHERE of dsl_query; this says which ones a change replaces.
alter table batch_exports add column filters jsonb;

-- Down Migration

alter table batch_exports drop column filters;
