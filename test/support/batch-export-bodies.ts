/** The least body that creates an export. */
export function exportBody(changes: Readonly<Record<string, unknown>> = {}) {
  return { name: 'Events to S3', interval: 'hour', destination: s3(), ...changes };
}

export function s3(config: Readonly<Record<string, unknown>> = {}) {
  return {
    type: 'S3',
    config: {
      bucket_name: 'my-events',
      region: 'us-east-1',
      aws_access_key_id: 'AKIAIOSFODNN7EXAMPLE',
      aws_secret_access_key: 'canary-wJalrXUtnFEMI-K7MDENG',
      ...config,
    },
  };
}

/** What the API shows of an S3 config that sets nothing else. */
export const s3Defaults = {
  prefix: '',
  file_name: '{start}-{end}.{generation}-{part}',
  role_arn: null,
  endpoint_url: null,
  use_virtual_style_addressing: false,
  file_format: 'JSONLines',
  compression: null,
  encryption: null,
  kms_key_id: null,
  acl: null,
  expected_bucket_owner: null,
  storage_class: null,
  object_tags: null,
  max_file_size_mb: null,
  partition_by: null,
  include_events: null,
  exclude_events: null,
  manifest: true,
  csv_formula_guard: false,
  decimal_columns: null,
  infinity: 'reject',
  csv_arrays: 'json',
  csv_delimiter: 'comma',
  csv_null: 'empty',
  csv_bom: false,
  csv_header: true,
  time_as: 'micros',
  json_null: 'keep',
  replace_invalid_unicode: false,
  on_rejected: 'warn',
  table_format: null,
  snapshot_retention_days: null,
};
