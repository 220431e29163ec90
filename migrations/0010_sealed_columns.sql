-- Up Migration

-- Says which columns hold sealed values, and for which identity: `{id}` is the row's own column. Rotating
-- the encryption keys reads it from here, so that it cannot pass over a column. Every bytea column says
-- what it is; a test holds the schema to that.
comment on column batch_exports.destination_secrets is 'sealed: {id}';
comment on column former_destinations.destination_secrets is 'sealed: {export_id}';
comment on column pipeline_transformation_configs.config_secrets is 'sealed: transformation-config:{id}';
comment on column api_keys.hash is 'open: a hash of the key';
comment on column idempotency_keys.fingerprint is 'open: a hash of the request';

-- Down Migration

comment on column idempotency_keys.fingerprint is null;
comment on column api_keys.hash is null;
comment on column pipeline_transformation_configs.config_secrets is null;
comment on column former_destinations.destination_secrets is null;
comment on column batch_exports.destination_secrets is null;
