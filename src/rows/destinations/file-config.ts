import { type TSchema, Type } from 'typebox';
import { checkDecimalEntries } from '../../foundation/domain/decimal-columns.ts';
import { checkFileName, fileNameVariables } from '../../foundation/domain/file-name.ts';
import {
  type FileSettings,
  readFileSettings,
  rejectedChoices,
  usualRetentionDays,
} from '../../foundation/domain/file-settings.ts';
import {
  csvDelimiters,
  csvNulls,
  type FormatSettings,
  infinityChoices,
  tableFormats,
  timeForms,
} from '../../foundation/domain/format-settings.ts';
import {
  checkKeyTemplate,
  keyVariables,
  maxPrefixBytes,
} from '../../foundation/domain/key-template.ts';
import {
  checkPartitionEntries,
  maxFolderBytes,
  maxPartitionFields,
  maxPartitions,
} from '../../foundation/domain/partition.ts';
import { invalid, type Problem, problemsIn } from '../../foundation/domain/problem.ts';
import type { DestinationDefinition } from './destination.ts';

/** The file settings of every destination, and the rules over them. */

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

const flag = (preset: boolean, description: string) =>
  Type.Optional(Type.Boolean({ description, default: preset }));

const choice = <T extends string>(values: readonly T[], preset: T, description: string) =>
  Type.Optional(Type.Enum([...values], { description, default: preset }));

const eventNames = Type.Array(Type.String({ minLength: 1, maxLength: 200 }), { maxItems: 100 });

// biome-ignore lint/complexity/noExcessiveLinesPerFunction: a list of settings
const fileProperties = (formats: readonly FormatChoice[]) => ({
  prefix: Type.Optional(
    Type.String({
      description:
        'Prefix of every key. Sluice replaces these variables with values of the interval. Variables without start or end use the end of the interval: ' +
        `${keyVariables.map((name) => `{${name}}`).join(' ')}. Sluice removes leading, trailing and ` +
        'doubled slashes.',
      default: '',
      maxLength: 900,
      examples: ['exports/{table}/{year}/{month}/{day}'],
    }),
  ),
  file_name: Type.Optional(
    Type.String({
      description:
        'Name of each data file, without its extension. Sluice replaces these variables: ' +
        `${fileNameVariables.map((name) => `{${name}}`).join(' ')}. {start} and {end} are the bounds of the interval, such as 20240301T000000Z, and both are required. {data_interval_start} and {data_interval_end} write them with colons. {generation} is v2 after the first change of an interval, v3 after the second. {part} is 00001 and so on, and is required with max_file_size_mb. Sluice leaves out {generation} of the first files and {part} of a single file, with the character before them. The name of the manifest begins with the same bounds. A change affects only new files.`,
      default: defaults.fileName,
      maxLength: 200,
      examples: ['events_{start}_{end}_{generation}_{part}'],
    }),
  ),
  file_format: choice(
    formats.map(({ format }) => format),
    defaults.format,
    'Format of the files.',
  ),
  compression: optional(
    Type.Enum([...new Set(formats.flatMap(({ compressions }) => Object.keys(compressions)))]),
    `Compression of the files. ${describeChoices(formats)}`,
    { examples: ['gzip'] },
  ),
  max_file_size_mb: optional(
    Type.Integer({ minimum: 0, maximum: 5_000_000 }),
    'Maximum size of a file in MiB, after compression. Each file of an interval, except the last, has at least nine tenths of this size. A single row that is larger gets its own file. Null or 0: one file per interval.',
    { examples: [100] },
  ),
  partition_by: optional(
    Type.Array(Type.String({ minLength: 1, maxLength: 200 }), { maxItems: maxPartitionFields }),
    `Divide the files of an interval into folders by the values of the rows, as Hive does: event=signup/day=2026-11-25/. At most ${maxPartitionFields} entries, each a column of the rows, or year, month, day or hour of a date or timestamp (UTC). The columns stay in the files. The folders are between the prefix and the names of the files; the manifest is directly below the prefix. An interval can have ${maxPartitions.toLocaleString('en')} partitions. Not possible with table_format. A change affects only new files.`,
    { examples: [['event', 'day(inserted_at)']] },
  ),
  manifest: flag(
    true,
    'Write a manifest after the files of an interval. It lists each file with its rows and SHA-256.',
  ),
  infinity: choice(
    infinityChoices,
    defaults.infinity,
    'How to write infinity and -infinity in columns of type date, timestamp and timestamptz. reject: Parquet rejects the row (see on_rejected), and JSONLines and CSV write the word. null: write null. limit: write the first or last moment of the years 1 to 9999, such as 9999-12-31. For keys, elements of arrays and bounds of ranges, reject always applies.',
  ),
  csv_arrays: choice(
    ['json', 'postgres'],
    defaults.csvArrays,
    'How to write arrays and composites. Only for CSV, and not with transformations. json: as JSON. postgres: in the text format of PostgreSQL, such as {a,NULL} and (1,x), including lower bounds of arrays. COPY FROM can read this into columns of the same type. Key columns are always JSON.',
  ),
  csv_delimiter: choice(
    csvDelimiters,
    defaults.csvDelimiter,
    'What separates the cells. Only for CSV.',
  ),
  csv_null: choice(
    csvNulls,
    defaults.csvNull,
    'How to write a NULL. Only for CSV. empty: a cell without characters. An empty text is "" in quotes. \\N and NULL: this word without quotes. A text that equals the word is in quotes.',
  ),
  csv_bom: flag(
    defaults.csvBom,
    'Begin each file with a byte order mark, so that Excel reads UTF-8. Only for CSV. PostgreSQL and other readers take the mark for a part of the first column name.',
  ),
  csv_header: flag(
    defaults.csvHeader,
    'Begin each file with a line of the column names. Only for CSV. Without it, the manifest has the names in the order of the cells.',
  ),
  time_as: choice(
    timeForms,
    defaults.timeAs,
    'How to write columns of type time. Only for Parquet. micros: as TIME in microseconds, which Spark refuses. text: as text, such as 12:34:56.789. With table_format you cannot change it after creation.',
  ),
  json_null: choice(
    ['keep', 'null'],
    defaults.jsonNull,
    'How to write the JSON value null in columns of type json and jsonb. keep: CSV and Parquet have the text null, which differs from an SQL NULL. JSONLines has null for both. null: write it like an SQL NULL.',
  ),
  replace_invalid_unicode: flag(
    defaults.replaceInvalidUnicode,
    'Replace unpaired surrogates in json values, such as \\ud800, and \\u0000 with \\ufffd. PostgreSQL accepts both in json. DuckDB and other readers refuse a file with unpaired surrogates, and jsonb refuses both.',
  ),
  on_rejected: choice(
    rejectedChoices,
    defaults.onRejected,
    'What to do if rows are rejected. A row is rejected if the file format cannot represent a value, or if a transformation that protects data cannot handle the row. warn: the run completes, logs a warning for each reason, and writes the rejected rows to a file that ends in _rejected.jsonl. fail: the run fails before it commits anything.',
  ),
  csv_formula_guard: flag(
    false,
    'Only for CSV. Put an apostrophe before each text that begins with =, +, -, @, a tab or a carriage return, so that no spreadsheet runs it as a formula. This changes the values in the files. A text that already begins with apostrophes before such a character gets one more.',
  ),
  decimal_columns: optional(
    Type.Array(Type.String({ minLength: 1, maxLength: 200 }), { maxItems: 100 }),
    'Numeric columns to write as DECIMAL(p,s), whatever precision they have in PostgreSQL. Only for Parquet. Example: "amount decimal(18,4)" has 18 digits, 4 of them after the point. The maximum is 38 digits. Other numeric(p,s) columns are DECIMAL(p,s), and numeric columns without a precision are text. A row is rejected (see on_rejected) if the type cannot represent its value exactly, or if the value is NaN or infinite. A change does not affect existing files.',
    { examples: [['amount decimal(18,4)', 'rate decimal(38,20)']] },
  ),
  table_format: optional(
    Type.Enum([...tableFormats]),
    'iceberg: the files also form an Apache Iceberg table (version 2). Only for Parquet on S3. The metadata folder is below the folders of prefix that all intervals share. Each commit adds a snapshot. The store must support conditional writes. You cannot change this field after creation. With iceberg, you cannot change bucket, endpoint and prefix either.',
    { examples: ['iceberg'] },
  ),
  snapshot_retention_days: optional(
    Type.Integer({ minimum: 1, maximum: 365 }),
    `Only with table_format iceberg. Number of days to keep a snapshot and its files after a later snapshot replaced it. Null: ${usualRetentionDays}. The table keeps at most 2,000 snapshots.`,
    { examples: [usualRetentionDays] },
  ),
  include_events: optional(
    eventNames,
    'Export only events with these names. At most 100 names of 200 characters. Null or empty: export all events.',
    { examples: [['$pageview', 'signed_up']] },
  ),
  exclude_events: optional(
    eventNames,
    'Do not export events with these names. At most 100 names of 200 characters.',
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
    validate(config, context) {
      const settings = readFileSettings(config);
      const hasRetention = typeof config.snapshot_retention_days === 'number';
      return [
        ...definition.validate(config, context),
        ...checkFileSettings(settings, formats),
        ...checkTable(settings, definition, hasRetention),
        ...checkDecimals(settings, config.decimal_columns),
      ];
    },
  };
}

/** Settings that one format has: name, format, the value that each config may say, and the value of this one. */
function formatOwn(settings: FileSettings) {
  const of = (attr: string, only: string, name: keyof FormatSettings) =>
    [attr, only, defaults[name], settings[name]] as const;
  return [
    of('csv_formula_guard', 'CSV', 'csvFormulaGuard'),
    of('csv_arrays', 'CSV', 'csvArrays'),
    of('csv_delimiter', 'CSV', 'csvDelimiter'),
    of('csv_null', 'CSV', 'csvNull'),
    of('csv_bom', 'CSV', 'csvBom'),
    of('csv_header', 'CSV', 'csvHeader'),
    of('time_as', 'Parquet', 'timeAs'),
  ];
}

function checkFileSettings(
  settings: FileSettings,
  formats: readonly FormatChoice[],
): readonly Problem[] {
  const { format, compression, prefix, fileName, maxFileBytes } = settings;
  const { partitionBy, tableFormat } = settings;
  const choice = formats.find((each) => each.format === format);
  const problems: Problem[] = [];
  if (choice && compression !== null && choice.compressions[compression] === undefined) {
    const detail = `${format} supports ${listCompressions(choice)}.`;
    problems.push({ attr: 'compression', code: 'invalid_choice', detail });
  }
  // A key has 1,024 bytes at most, and each folder has one for its slash.
  const forFolders = partitionBy.length * (maxFolderBytes + 1);
  const of = (attr: string, details: readonly string[]) =>
    details.map((detail) => invalid(attr, detail));
  return [
    ...problems,
    ...formatOwn(settings)
      .filter(([, only, usual, value]) => value !== usual && format !== only)
      .map(([attr, only, usual]) =>
        invalid(attr, `Only for ${only}. Set file_format to ${only}, or set ${attr} to ${usual}.`),
      ),
    ...of('partition_by', checkPartitionEntries(partitionBy)),
    ...problemsIn([
      partitionBy.length > 0 && tableFormat !== null,
      'partition_by',
      `Not possible with table_format ${tableFormat}, whose tables have no partitions. Leave one of them empty.`,
    ]),
    ...of('prefix', checkKeyTemplate(prefix, maxPrefixBytes - forFolders)),
    ...of('file_name', checkFileName(fileName, maxFileBytes !== null)),
  ];
}

function checkDecimals({ format }: FileSettings, entries: unknown): readonly Problem[] {
  if (!Array.isArray(entries) || entries.length === 0) return [];
  const attr = 'decimal_columns';
  const detail = 'Only for Parquet. Set file_format to Parquet, or leave decimal_columns empty.';
  const problems = checkDecimalEntries(entries, attr);
  return format === 'Parquet' ? problems : [invalid(attr, detail), ...problems];
}

function checkTable(
  { tableFormat, format, writesManifest }: FileSettings,
  { type, holdsTables }: DestinationDefinition,
  hasRetention: boolean,
): readonly Problem[] {
  if (tableFormat === null) {
    if (!hasRetention) return [];
    const detail = 'Only with table_format iceberg. Leave it empty.';
    return [invalid('snapshot_retention_days', detail)];
  }
  const needs = (attr: string, detail: string): Problem =>
    invalid(attr, `${detail}, or leave table_format empty.`);
  if (!holdsTables) return [needs('table_format', `Not possible with ${type}. Use S3`)];
  return [
    ...(format === 'Parquet' ? [] : [needs('table_format', 'Only for Parquet. Set file_format')]),
    ...(writesManifest ? [] : [needs('manifest', 'table_format needs a manifest. Set true')]),
  ];
}
