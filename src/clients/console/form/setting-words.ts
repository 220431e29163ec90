import type { Field } from './fields.ts';

/** One line of help for each setting, in the words of a person who exports rows for the first time. */
const helps: Readonly<Record<string, string>> = {
  bucket_name: 'It must exist. For a store other than AWS, set “Endpoint URL” under More.',
  region: 'If the store has no regions, enter auto.',
  aws_access_key_id: 'Of a user or role that may write to the bucket.',
  aws_secret_access_key: 'Never shown again.',
  file_format: 'JSONLines suits most readers, Parquet suits warehouses.',
  endpoint_url: 'Address of a store other than AWS, such as MinIO, R2 or Ceph.',
  role_arn: 'A role that Sluice takes on to write. Its trust policy must ask for your external ID.',
  use_virtual_style_addressing: 'Some stores want the name of the bucket in front of the host.',
  encryption: 'How the store encrypts the files.',
  kms_key_id: 'The key of KMS to encrypt with.',
  acl: 'Who owns the files, if the bucket is in another account.',
  expected_bucket_owner: 'Nothing is written if the bucket belongs to another account.',
  storage_class: 'A cheaper class for files that are rarely read.',
  object_tags: 'Tags on each file, such as team=data.',
  prefix: 'Folder of the files. {year}, {month} and {day} become those of the interval.',
  file_name: '{start} and {end} become the bounds of the interval.',
  compression: 'Smaller files.',
  max_file_size_mb: 'Longer intervals get several files of this size.',
  partition_by: 'Divides the files into folders by these columns, for engines such as Athena.',
  manifest: 'A list of the files of each interval, so that readers never see half of one.',
  table_format: 'The files also form a table that Spark, Trino and others read.',
  snapshot_retention_days: 'Days for which readers can go back to an earlier state of the table.',
  decimal_columns: 'Columns with exact decimal digits, such as amount decimal(18,4).',
  infinity: 'For dates without an end, which PostgreSQL has and most readers refuse.',
  json_null: 'For a JSON value that is empty.',
  csv_arrays: 'PostgreSQL reads its own form back into arrays.',
  csv_delimiter: 'The sign between two cells.',
  csv_null: 'The text for a missing value.',
  csv_bom: 'Excel needs it to read accents. Other readers take it for a part of the first column.',
  csv_header: 'The first line has the names of the columns.',
  csv_formula_guard: 'An apostrophe before texts that a spreadsheet would run as a formula.',
  time_as: 'For columns with a time of day.',
  replace_invalid_unicode: 'Replaces broken characters, which DuckDB and others refuse.',
  on_rejected: 'For rows that cannot be written as they are.',
  include_events: 'Only events with these names are exported.',
  exclude_events: 'Events with these names are left out.',
  deadline_minutes: 'You are notified if the rows of an interval are not there by then.',
  deadline_at: 'The same as a time of day, in the time zone above.',
  warn_minutes: 'You are warned so long before rows are due.',
  mode: 'Only new rows, all rows each time, or all rows once and then each change.',
  new_base: 'A higher number delivers all rows again, as a new base.',
  keep_snapshots:
    'How many snapshots stay. If you lower it, Sluice removes the files of the older ones.',
  statement_shows: 'Digests prove the definition; its text is for readers who may see it.',
  look_back_hours: 'Hours after an interval in which Sluice looks for rows that came late.',
  heal_for_hours: 'Hours for which Sluice tries again by itself after a failure.',
};

/** The meaning of an empty field. */
const empties: Readonly<Record<string, string>> = {
  endpoint_url: 'AWS',
  role_arn: 'no role, the access key itself',
  kms_key_id: 'the key of the bucket',
  expected_bucket_owner: 'any account',
  storage_class: 'the standard class of the bucket',
  object_tags: 'no tags',
  prefix: 'no folder, at the top of the bucket',
  file_name: 'the bounds of the interval',
  max_file_size_mb: 'one file for each interval',
  partition_by: 'no folders',
  snapshot_retention_days: '7 days',
  decimal_columns: 'as the columns are declared',
  include_events: 'all events',
  exclude_events: 'none is left out',
  deadline_minutes: 'no deadline',
  deadline_at: 'no deadline',
  warn_minutes: 'no warning',
  keep_snapshots: 'all stay',
  look_back_hours: 'as the model or this installation says',
};

/** The field in plain words; one that this page does not know keeps the first sentence of its description. */
export function inPlainWords<F extends Field>(field: F): F {
  const [first = ''] = field.description.split(/(?<=\.) /, 1);
  return { ...field, description: helps[field.name] ?? first };
}

/** The value of an optional field, if its input does not show it; null: it does. */
export function describeNow({ name, kind }: Field, value: string | boolean): string | null {
  if (kind === 'flag') return value === true ? 'yes' : 'no';
  return value === '' ? (empties[name] ?? null) : null;
}
