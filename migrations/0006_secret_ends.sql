-- Which secrets an export has, by the name of their property, and the last characters of those that may be shown: the id of an
-- access key, so that a person sees which key is in use. Null: not known, or no secrets.
alter table batch_exports add column destination_secret_ends jsonb;
