/** The config of a destination, as in the API and in the database. */
export type DestinationConfig = Readonly<Record<string, unknown>>;

/** Which events are exported; null means no filter. */
export interface EventFilters {
  readonly includeEvents: readonly string[] | null;
  readonly excludeEvents: readonly string[] | null;
}

/** How rows become files: the part of a config that all destinations share. */
export interface FileSettings extends EventFilters {
  readonly format: string;
  readonly compression: string | null;
  /** Template of the prefix of every key. */
  readonly prefix: string;
  /** A file ends once it has this many bytes; null: one file per interval. */
  readonly maxFileBytes: number | null;
  readonly writesManifest: boolean;
  /** Texts of a CSV that a spreadsheet takes for formulas get an apostrophe in front. */
  readonly csvFormulaGuard: boolean;
  /** Which types the columns of a Parquet file get. */
  readonly parquetSchema: ParquetSchema;
}

/** 1: few types, others as JSON text. 2: a native type for each type that Parquet has. */
export type ParquetSchema = 1 | 2;

/** Of an export whose config says none; it began before there was a choice. */
const oldestParquetSchema: ParquetSchema = 1;

/** Of a new export. */
const newestParquetSchema: ParquetSchema = 2;

/** The config of a new export, which keeps its Parquet types if later versions of Sluice have better ones. */
export function pinParquetSchema(config: DestinationConfig): DestinationConfig {
  return { ...config, parquet_schema: config.parquet_schema ?? newestParquetSchema };
}

/** The changed config of an export: without a new choice its Parquet types stay. */
export function keepParquetSchema(
  config: DestinationConfig,
  before: DestinationConfig,
): DestinationConfig {
  const { parquetSchema } = readFileSettings(before);
  return { ...config, parquet_schema: config.parquet_schema ?? parquetSchema };
}

/** Reads the file settings of a config. A property that is absent or of a wrong type gets its default. */
export function readFileSettings(config: DestinationConfig): FileSettings {
  const { file_format: format, compression, prefix, max_file_size_mb: mebibytes } = config;
  return {
    format: typeof format === 'string' ? format : 'JSONLines',
    compression: typeof compression === 'string' ? compression : null,
    prefix: typeof prefix === 'string' ? prefix : '',
    maxFileBytes: typeof mebibytes === 'number' && mebibytes > 0 ? mebibytes * 1024 ** 2 : null,
    writesManifest: config.manifest !== false,
    csvFormulaGuard: config.csv_formula_guard === true,
    parquetSchema: config.parquet_schema === 2 ? 2 : oldestParquetSchema,
    includeEvents: listOf(config.include_events),
    excludeEvents: listOf(config.exclude_events),
  };
}

function listOf(value: unknown): readonly string[] | null {
  return Array.isArray(value) && value.length > 0 ? value.map(String) : null;
}
