import { type TSchema, Type } from 'typebox';
import { checkDecimalEntries } from '../domain/decimal-columns.ts';
import {
  type FileSettings,
  readFileSettings,
  rejectedChoices,
  usualRetentionDays,
} from '../domain/file-settings.ts';
import { infinityChoices, parquetSchemas, tableFormats } from '../domain/format-settings.ts';
import { checkKeyTemplate, keyVariables } from '../domain/key-template.ts';
import type { Problem } from '../domain/problem.ts';
import type { DestinationDefinition } from './destination.ts';

/** The file settings of every destination, and the rules over them. */

/** A format of files, as its encoder describes it. */
export interface FormatChoice {
  readonly format: string;
  /** By name, besides none. */
  readonly compressions: Readonly<Record<string, unknown>>;
}

const defaults = readFileSettings({});

/** `null, gzip, zstd` */
const listCompressions = ({ compressions }: FormatChoice) =>
  ['null', ...Object.keys(compressions)].join(', ');

/** `JSONLines and CSV: null, gzip. Parquet: null, snappy.` */
function describeChoices(formats: readonly FormatChoice[]): string {
  const lists = new Set(formats.map(listCompressions));
  const names = (list: string) =>
    formats.filter((choice) => listCompressions(choice) === list).map(({ format }) => format);
  return [...lists].map((list) => `${names(list).join(' and ')}: ${list}.`).join(' ');
}

/** A property that may be missing or null, which is its default; null clears it. */
export function optional<T extends TSchema>(
  schema: T,
  description: string,
  options: Record<string, unknown> = {},
) {
  return Type.Optional(
    Type.Union([schema, Type.Null()], { description, default: null, ...options }),
  );
}

const eventNames = Type.Array(Type.String({ minLength: 1, maxLength: 200 }), { maxItems: 100 });

const fileProperties = (formats: readonly FormatChoice[]) => ({
  prefix: Type.Optional(
    Type.String({
      description:
        'Prefix of every key. Variables are filled from the interval; names without start or end use its end: ' +
        `${keyVariables.map((name) => `{${name}}`).join(' ')}. Leading, trailing and doubled ` +
        'slashes are dropped.',
      default: '',
      maxLength: 900,
      examples: ['exports/{table}/{year}/{month}/{day}'],
    }),
  ),
  file_format: Type.Optional(
    Type.Enum(
      formats.map(({ format }) => format),
      {
        description: 'Format of the files.',
        default: defaults.format,
      },
    ),
  ),
  compression: optional(
    Type.Enum([...new Set(formats.flatMap(({ compressions }) => Object.keys(compressions)))]),
    `Compression of the files. ${describeChoices(formats)}`,
    { examples: ['gzip'] },
  ),
  max_file_size_mb: optional(
    Type.Integer({ minimum: 0, maximum: 5_000_000 }),
    'Maximum size of a file as it lands, compressed, in MiB. Each file but the last of an interval has at least nine tenths of it; a single row that is larger gets a file of its own. Null or 0: one file per interval. Exports that were made earlier: see file_size_rule.',
    { examples: [100] },
  ),
  manifest: Type.Optional(
    Type.Boolean({
      description: 'Whether a manifest is written last, with each file, its rows and SHA-256.',
      default: true,
    }),
  ),
  file_size_rule: optional(
    Type.Integer({ minimum: 1, maximum: 2 }),
    'How max_file_size_mb is counted. 1: by the bytes before compression, after each batch of rows, so files may be much smaller or a little larger. 2: by the bytes that land. A new export gets 2. An export that had a limit before there was the setting has 1 and keeps it until it is changed.',
    { examples: [2] },
  ),
  infinity: Type.Optional(
    Type.Enum([...infinityChoices], {
      description:
        'What is written for infinity and -infinity in columns of type date, timestamp and timestamptz. reject: Parquet rejects the row (see on_rejected); JSONLines and CSV write the word. null: null. limit: the first or last moment of the years 1 to 9999, such as 9999-12-31. Keys, elements of arrays and bounds of ranges stay as with reject.',
      default: defaults.infinity,
    }),
  ),
  csv_arrays: Type.Optional(
    Type.Enum(['json', 'postgres'], {
      description:
        'Only for CSV, and not with transformations. How arrays and composites are written. json: as JSON. postgres: as PostgreSQL prints them, such as {a,NULL} and (1,x), also with lower bounds of arrays, so that COPY FROM reads them into columns of the same type. Key columns stay JSON.',
      default: defaults.csvArrays,
    }),
  ),
  json_null: Type.Optional(
    Type.Enum(['keep', 'null'], {
      description:
        'What is written for the JSON value null in columns of type json and jsonb. keep: CSV and Parquet have the text null, which differs from a null of the column; JSONLines has null for both. null: a null of the column.',
      default: defaults.jsonNull,
    }),
  ),
  replace_invalid_unicode: Type.Optional(
    Type.Boolean({
      description:
        'Whether half of a surrogate pair in a json value, such as \\ud800, becomes \\ufffd. PostgreSQL accepts such a value; DuckDB and others refuse the whole file because of it.',
      default: defaults.replaceInvalidUnicode,
    }),
  ),
  on_rejected: Type.Optional(
    Type.Enum([...rejectedChoices], {
      description:
        'What happens if rows of an interval are rejected: the file format cannot represent a value, or a transformation that protects data cannot handle the row. warn: the run completes, logs a warning for each reason, and keeps the rows in a file that ends in _rejected.jsonl. fail: the run fails before it commits anything.',
      default: defaults.onRejected,
    }),
  ),
  csv_formula_guard: Type.Optional(
    Type.Boolean({
      description:
        'Only for CSV. A text that begins with =, +, -, @, a tab or a carriage return gets an apostrophe in front, so that no spreadsheet runs it as a formula. This changes the values in the files; a text that already begins with apostrophes before such a character gets one more.',
      default: false,
    }),
  ),
  parquet_schema: optional(
    Type.Integer({ minimum: 1, maximum: parquetSchemas.length }),
    'Types of the columns of Parquet files; without effect on other formats. 1: numeric, time, arrays and other types without a type of their own are JSON text, with its quotes. 2: numeric(p,s) is DECIMAL, time is TIME, arrays are LIST, others are plain text. 3: the types of 2, with data pages of version 2, Bloom filters of key and uuid columns, and the export and interval in the metadata of the file. A new export gets 3. An older export keeps what it has until it is changed; one from before the setting has 1.',
    { examples: [3] },
  ),
  decimal_columns: optional(
    Type.Array(Type.String({ minLength: 1, maxLength: 200 }), { maxItems: 100 }),
    'Only for Parquet with parquet_schema 3: columns of type numeric that become DECIMAL(p,s) in the files, whatever limits PostgreSQL has for them, such as "amount decimal(18,4)": at most 38 digits, so many of them after the point. Without it numeric(p,s) is DECIMAL(p,s), and numeric without limits is text. A row with a value that the type cannot hold exactly, or with NaN or an infinity, is rejected (see on_rejected). Files that were made before a change keep their type.',
    { examples: [['amount decimal(18,4)', 'rate decimal(38,20)']] },
  ),
  table_format: optional(
    Type.Enum([...tableFormats]),
    'Only for Parquet at S3. The files are also an Apache Iceberg table (version 2); its metadata folder is below those folders of prefix that all intervals share. Each commit adds a snapshot. The store must support conditional writes. Cannot change after creation, and then neither can bucket, endpoint and prefix.',
    { examples: ['iceberg'] },
  ),
  snapshot_retention_days: optional(
    Type.Integer({ minimum: 1, maximum: 365 }),
    `Only with table_format iceberg. How many days a snapshot can still be read, with its files, after a later one replaced it. Null: ${usualRetentionDays}. The table keeps at most 2,000 snapshots.`,
    { examples: [usualRetentionDays] },
  ),
  include_events: optional(
    eventNames,
    'Only events with these names are exported: at most 100, of 200 characters. Null or empty: all.',
    { examples: [['$pageview', 'signed_up']] },
  ),
  exclude_events: optional(
    eventNames,
    'Events with these names are not exported: at most 100, of 200 characters.',
    { examples: [['$feature_flag_called']] },
  ),
});

/** Adds the file settings of all destinations to a destination's definition. */
export function withFileSettings(
  definition: DestinationDefinition,
  formats: readonly FormatChoice[],
): DestinationDefinition {
  const { properties: own, required: _, ...options } = definition.configSchema;
  return {
    ...definition,
    configSchema: Type.Object({ ...own, ...fileProperties(formats) }, options),
    validate: (config, context) => [
      ...definition.validate(config, context),
      ...checkFileSettings(readFileSettings(config), formats),
      ...checkTable(
        readFileSettings(config),
        definition,
        typeof config.snapshot_retention_days === 'number',
      ),
      ...checkDecimals(readFileSettings(config), config.decimal_columns),
    ],
  };
}

function checkFileSettings(
  { format, compression, prefix, csvFormulaGuard, csvArrays }: FileSettings,
  formats: readonly FormatChoice[],
): readonly Problem[] {
  const problems: Problem[] = [];
  const choice = formats.find((each) => each.format === format);
  if (choice && compression !== null && choice.compressions[compression] === undefined) {
    const detail = `${format} takes ${listCompressions(choice)}.`;
    problems.push({ attr: 'compression', code: 'invalid_choice', detail });
  }
  if (csvFormulaGuard && format !== 'CSV') {
    const detail = 'Only for CSV. Set file_format to CSV, or set csv_formula_guard to false.';
    problems.push({ attr: 'csv_formula_guard', code: 'invalid_input', detail });
  }
  if (csvArrays !== 'json' && format !== 'CSV') {
    const detail = 'Only for CSV. Set file_format to CSV, or set csv_arrays to json.';
    problems.push({ attr: 'csv_arrays', code: 'invalid_input', detail });
  }
  for (const detail of checkKeyTemplate(prefix)) {
    problems.push({ attr: 'prefix', code: 'invalid_input', detail });
  }
  return problems;
}

function checkDecimals(
  { format, parquetSchema }: FileSettings,
  entries: unknown,
): readonly Problem[] {
  if (!Array.isArray(entries) || entries.length === 0) return [];
  const remedies = [
    ...(format === 'Parquet'
      ? []
      : ['Only for Parquet. Set file_format to Parquet, or leave decimal_columns empty.']),
    ...(parquetSchema >= 3
      ? []
      : ['Needs parquet_schema 3. Set it, or leave decimal_columns empty.']),
  ];
  const attr = 'decimal_columns';
  return [
    ...remedies.map((detail): Problem => ({ attr, code: 'invalid_input', detail })),
    ...checkDecimalEntries(entries, attr),
  ];
}

function checkTable(
  { tableFormat, format, parquetSchema, writesManifest }: FileSettings,
  { type, holdsTables }: DestinationDefinition,
  hasRetention: boolean,
): readonly Problem[] {
  if (tableFormat === null) {
    if (!hasRetention) return [];
    const detail = 'Only with table_format iceberg. Leave it empty.';
    return [{ attr: 'snapshot_retention_days', code: 'invalid_input', detail }];
  }
  const needs = (attr: string, detail: string): Problem => ({
    attr,
    code: 'invalid_input',
    detail: `${detail}, or leave table_format empty.`,
  });
  if (!holdsTables) return [needs('table_format', `Not possible with ${type}. Use S3`)];
  return [
    ...(format === 'Parquet' ? [] : [needs('table_format', 'Only for Parquet. Set file_format')]),
    ...(parquetSchema === 1
      ? [needs('parquet_schema', 'table_format needs 2 or 3. Set one of them')]
      : []),
    ...(writesManifest ? [] : [needs('manifest', 'table_format needs a manifest. Set true')]),
  ];
}
