import type { Capabilities } from '../api-types.ts';
import type { Field, FieldValues } from './fields.ts';

/**
 * The file settings that all destinations have: in which part of the form they are, when they apply, and what
 * their choices are called. Every other field of a config belongs to its destination.
 */

export type Group = 'destination' | 'files' | 'values' | 'rows';

type Condition = (values: FieldValues) => boolean;

const isFormat =
  (name: string): Condition =>
  ({ file_format: format }) =>
    format === name;
const isCsv = isFormat('CSV');
const isParquet = isFormat('Parquet');

/** The part of the form that a setting is in, and when it has an effect; without a condition: always. */
const settings: Readonly<Record<string, readonly [Group, Condition?]>> = {
  prefix: ['files'],
  file_name: ['files'],
  file_format: ['files'],
  compression: ['files'],
  max_file_size_mb: ['files'],
  partition_by: ['files', ({ table_format: table }) => !table],
  manifest: ['files'],
  decimal_columns: ['values', isParquet],
  infinity: ['values'],
  json_null: ['values', ({ file_format: format }) => format !== 'JSONLines'],
  csv_arrays: ['values', isCsv],
  csv_delimiter: ['values', isCsv],
  csv_null: ['values', isCsv],
  csv_bom: ['values', isCsv],
  csv_header: ['values', isCsv],
  time_as: ['values', isParquet],
  csv_formula_guard: ['values', isCsv],
  replace_invalid_unicode: ['values'],
  on_rejected: ['values'],
  include_events: ['rows'],
  exclude_events: ['rows'],
  kms_key_id: ['destination', ({ encryption }) => encryption === 'aws:kms'],
};

export function groupOf({ name }: Pick<Field, 'name'>): Group {
  return settings[name]?.[0] ?? 'destination';
}

export function applies({ name }: Pick<Field, 'name'>, values: FieldValues): boolean {
  return settings[name]?.[1]?.(values) ?? true;
}

/** One without an effect is set back to its default, or the API refuses it: only `json_null` may stay. */
export function isSent(field: Pick<Field, 'name'>, values: FieldValues): boolean {
  return applies(field, values) || field.name !== 'json_null';
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
  return { ...values, file_format: format, ...(isKept ? {} : { compression: '' }) };
}

const choiceTexts: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  infinity: {
    reject: 'Reject the row in Parquet, else write the word',
    null: 'Write an empty value',
    limit: 'Write the first or last moment of the years 1 to 9999',
  },
  json_null: { keep: 'Keep it apart from a missing value', null: 'As a missing value' },
  csv_arrays: { json: 'As JSON', postgres: 'As PostgreSQL prints them' },
  csv_delimiter: { comma: ',', semicolon: ';', tab: 'Tab', pipe: '|' },
  csv_null: { empty: 'An empty cell' },
  time_as: { micros: 'As TIME, which Spark refuses', text: 'As text' },
  on_rejected: {
    warn: 'Complete the run, warn, and keep the rows in a file of their own',
    fail: 'Fail the run before it commits anything',
  },
  encryption: { '': 'Default of the bucket' },
  statement_shows: { digests: 'Its digests', definition: 'Its text too, without secrets' },
};

export function choiceText({ name, default: preset }: Field, choice: string): string {
  const text = choiceTexts[name]?.[choice] ?? (choice === '' ? 'None' : choice);
  return choice !== '' && choice === String(preset ?? '') ? `${text} (default)` : text;
}
