import { type DecimalColumn, readDecimalColumns } from './decimal-columns.ts';

type Config = Readonly<Record<string, unknown>>;

/**
 * Settings of a config that change how values are written: equal ones and equal rows give equal files.
 * A format ignores those of others.
 */
export interface FormatSettings {
  /** Texts of a CSV that a spreadsheet takes for formulas get an apostrophe in front. */
  readonly csvFormulaGuard: boolean;
  /** Which types the columns of a Parquet file get. */
  readonly parquetSchema: ParquetSchema;
  /** Columns of numeric that Parquet writes as DECIMAL by choice; null: none. */
  readonly decimalColumns: readonly DecimalColumn[] | null;
  readonly infinity: InfinityChoice;
  /** How CSV has arrays and composites: as JSON, or as PostgreSQL prints them, so that COPY reads them. */
  readonly csvArrays: 'json' | 'postgres';
  /** What the JSON value null of a json column becomes: the text `null`, or a null of the column. */
  readonly jsonNull: 'keep' | 'null';
  /** Whether halves of surrogate pairs in json values become U+FFFD. */
  readonly replaceInvalidUnicode: boolean;
  /** How max_file_size_mb is counted. */
  readonly fileSizeRule: FileSizeRule;
  /** Of the table that the files make; its columns have ids in the files. Null: none. */
  readonly tableFormat: TableFormat | null;
}

/**
 * 1: few types, others as JSON text. 2: a native type for each type that Parquet has. 3: those types, with
 * data pages of version 2, Bloom filters, and the export and interval in the metadata.
 */
export type ParquetSchema = (typeof parquetSchemas)[number];

export const parquetSchemas = [1, 2, 3] as const;

export const tableFormats = ['iceberg'] as const;

export type TableFormat = (typeof tableFormats)[number];

/**
 * 1: bytes before compression, looked at after each block of rows. 2: no file has more bytes than the limit,
 * compressed, and each but the last has nine tenths of them.
 */
export type FileSizeRule = 1 | 2;

/**
 * What becomes of the infinite dates and timestamps of PostgreSQL. `reject`: as the format can, so Parquet
 * rejects the row and text formats write the word. `null`: null. `limit`: the first or last moment of the
 * years 1 to 9999, which every reader can hold.
 */
export const infinityChoices = ['reject', 'null', 'limit'] as const;

export type InfinityChoice = (typeof infinityChoices)[number];

/** Of a config that says nothing; and of recipes, which say only what differs. */
const oldest: FormatSettings = {
  csvFormulaGuard: false,
  parquetSchema: 1,
  decimalColumns: null,
  infinity: 'reject',
  csvArrays: 'json',
  jsonNull: 'keep',
  replaceInvalidUnicode: false,
  fileSizeRule: 1,
  tableFormat: null,
};

/** Of a new export. */
const newestParquetSchema: ParquetSchema = 3;
const newestFileSizeRule: FileSizeRule = 2;

/** Reads the settings of a config. A property that is absent or of a wrong type gets its oldest value. */
export function readFormatSettings(config: Config): FormatSettings {
  return {
    csvFormulaGuard: config.csv_formula_guard === true,
    parquetSchema:
      parquetSchemas.find((schema) => schema === config.parquet_schema) ?? oldest.parquetSchema,
    decimalColumns: readDecimalColumns(config.decimal_columns),
    infinity: infinityChoices.find((choice) => choice === config.infinity) ?? oldest.infinity,
    csvArrays: config.csv_arrays === 'postgres' ? 'postgres' : oldest.csvArrays,
    jsonNull: config.json_null === 'null' ? 'null' : oldest.jsonNull,
    replaceInvalidUnicode: config.replace_invalid_unicode === true,
    fileSizeRule: config.file_size_rule === 2 ? 2 : oldest.fileSizeRule,
    tableFormat: config.table_format === 'iceberg' ? 'iceberg' : oldest.tableFormat,
  };
}

/** The settings that a recipe keeps: those that were not always so. */
export function settingsForRecipe(settings: FormatSettings): Partial<FormatSettings> {
  const names = Object.keys(oldest) as (keyof FormatSettings)[];
  const changed = names.filter((name) => settings[name] !== oldest[name]);
  return Object.fromEntries(changed.map((name) => [name, settings[name]]));
}

/** All settings of a recipe. */
export function settingsOfRecipe(recipe: Partial<FormatSettings>): FormatSettings {
  const names = Object.keys(oldest) as (keyof FormatSettings)[];
  const said = names.filter((name) => recipe[name] !== undefined);
  return { ...oldest, ...Object.fromEntries(said.map((name) => [name, recipe[name]])) };
}

/** The config of a new export, whose files stay as they are if later versions of Sluice have better ones. */
export function pinVersions(config: Config): Config {
  return {
    ...config,
    parquet_schema: config.parquet_schema ?? newestParquetSchema,
    file_size_rule: config.file_size_rule ?? newestFileSizeRule,
  };
}

/**
 * The changed config of an export: without a new choice its Parquet types stay, and how the size of its files
 * is counted, if it has had a limit.
 */
export function keepVersions(config: Config, before: Config): Config {
  const { parquetSchema, fileSizeRule } = readFormatSettings(before);
  const hadLimit = typeof before.max_file_size_mb === 'number' && before.max_file_size_mb > 0;
  return {
    ...config,
    parquet_schema: config.parquet_schema ?? parquetSchema,
    file_size_rule: config.file_size_rule ?? (hadLimit ? fileSizeRule : newestFileSizeRule),
  };
}
