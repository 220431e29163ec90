import type { Capabilities } from '../api-types.ts';
import type { Field, FieldValues } from './fields.ts';

/**
 * The file settings that all destinations have: in which part of the form they are, when they apply, and what
 * their choices are called. Every other field of a config belongs to its destination.
 */

export type Group = 'destination' | 'files' | 'values' | 'rows';

const groups: Readonly<Record<string, Group>> = {
  prefix: 'files',
  file_name: 'files',
  file_format: 'files',
  compression: 'files',
  max_file_size_mb: 'files',
  partition_by: 'files',
  manifest: 'files',
  checksum_files: 'files',
  success_file: 'files',
  latest_manifest: 'files',
  decimal_columns: 'values',
  infinity: 'values',
  json_null: 'values',
  csv_arrays: 'values',
  csv_delimiter: 'values',
  csv_null: 'values',
  csv_bom: 'values',
  csv_header: 'values',
  parquet_encodings: 'values',
  time_as: 'values',
  csv_formula_guard: 'values',
  replace_invalid_unicode: 'values',
  on_rejected: 'values',
  include_events: 'rows',
  exclude_events: 'rows',
};

export function groupOf({ name }: Pick<Field, 'name'>): Group {
  return groups[name] ?? 'destination';
}

const conditions: Readonly<Record<string, (values: FieldValues) => boolean>> = {
  partition_by: ({ table_format: table }) => !table,
  decimal_columns: ({ file_format: format }) => format === 'Parquet',
  json_null: ({ file_format: format }) => format !== 'JSONLines',
  csv_arrays: ({ file_format: format }) => format === 'CSV',
  csv_delimiter: ({ file_format: format }) => format === 'CSV',
  csv_null: ({ file_format: format }) => format === 'CSV',
  csv_bom: ({ file_format: format }) => format === 'CSV',
  csv_header: ({ file_format: format }) => format === 'CSV',
  parquet_encodings: ({ file_format: format }) => format === 'Parquet',
  time_as: ({ file_format: format }) => format === 'Parquet',
  csv_formula_guard: ({ file_format: format }) => format === 'CSV',
  checksum_files: ({ manifest }) => manifest !== false,
  success_file: ({ manifest }) => manifest !== false,
  latest_manifest: ({ manifest }) => manifest !== false,
  kms_key_id: ({ encryption }) => encryption === 'aws:kms',
};

/** Settings that the API refuses if they do not apply; others are without effect then. */
const refused = new Set([
  ...['csv_arrays', 'csv_formula_guard', 'csv_delimiter', 'csv_null', 'csv_bom', 'csv_header'],
  ...['checksum_files', 'success_file', 'latest_manifest', 'partition_by'],
  ...['parquet_encodings', 'time_as', 'decimal_columns', 'kms_key_id'],
]);

export function applies({ name }: Pick<Field, 'name'>, values: FieldValues): boolean {
  return conditions[name]?.(values) ?? true;
}

/** Whether a setting is sent: of those without an effect, only what must be set back to its default. */
export function isSent(field: Pick<Field, 'name'>, values: FieldValues): boolean {
  return applies(field, values) || refused.has(field.name);
}

type Formats = Capabilities['file_formats'];

export function choicesOf(
  field: Pick<Field, 'name' | 'choices'>,
  values: FieldValues,
  formats: Formats,
): readonly string[] {
  if (field.name !== 'compression') return field.choices;
  const own = formats.find(({ format }) => format === values.file_format);
  return own ? field.choices.filter((choice) => own.compressions.includes(choice)) : field.choices;
}

/** The values after a change of the format: a compression that it lacks is removed. */
export function withFormat(values: FieldValues, format: string, formats: Formats): FieldValues {
  const own = formats.find((known) => known.format === format);
  const isKept = own?.compressions.includes(String(values.compression)) ?? true;
  return {
    ...values,
    file_format: format,
    ...(isKept ? {} : { compression: '' }),
  };
}

const choiceTexts: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  infinity: {
    reject: 'Reject the row in Parquet, else write the word',
    null: 'Write null',
    limit: 'Write the first or last moment of the years 1 to 9999',
  },
  json_null: { keep: 'Keep it apart from a null of the column', null: 'Write a null' },
  csv_arrays: { json: 'As JSON', postgres: 'As PostgreSQL prints them' },
  csv_delimiter: { comma: ',', semicolon: ';', tab: 'Tab', pipe: '|' },
  csv_null: { empty: 'An empty cell' },
  parquet_encodings: {
    modern: 'All of today: smaller files',
    compatible: 'Those that every reader knows',
  },
  time_as: { micros: 'As TIME, which Spark refuses', text: 'As text' },
  on_rejected: {
    warn: 'Complete the run, warn, and keep the rows in a file of their own',
    fail: 'Fail the run before it commits anything',
  },
  encryption: { '': 'Default of the bucket' },
};

/** What a choice is called. @param choice empty: none */
export function choiceText({ name, default: preset }: Field, choice: string): string {
  const text = choiceTexts[name]?.[choice] ?? (choice === '' ? 'None' : choice);
  return choice !== '' && choice === String(preset ?? '') ? `${text} (default)` : text;
}
