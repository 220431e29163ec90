/** The config of a destination as the API takes it and the database keeps it. */
export type DestinationConfig = Readonly<Record<string, unknown>>;

/** Which events are exported; null is no bound. */
export interface EventFilters {
  readonly includeEvents: readonly string[] | null;
  readonly excludeEvents: readonly string[] | null;
}

/** How rows become files, at every destination: the part of a config that no destination owns. */
export interface FileSettings extends EventFilters {
  readonly format: string;
  readonly compression: string | null;
  /** Template of what is put before every key. */
  readonly prefix: string;
  /** A file is ended once it holds so many bytes; null: one file. */
  readonly maxFileBytes: number | null;
  readonly writesManifest: boolean;
}

/** Reads the file settings of a config. A property that is absent, or not of its type, has its default. */
export function readFileSettings(config: DestinationConfig): FileSettings {
  const { file_format: format, compression, prefix, max_file_size_mb: mebibytes } = config;
  return {
    format: typeof format === 'string' ? format : 'JSONLines',
    compression: typeof compression === 'string' ? compression : null,
    prefix: typeof prefix === 'string' ? prefix : '',
    maxFileBytes: typeof mebibytes === 'number' && mebibytes > 0 ? mebibytes * 1024 ** 2 : null,
    writesManifest: config.manifest !== false,
    includeEvents: listOf(config.include_events),
    excludeEvents: listOf(config.exclude_events),
  };
}

function listOf(value: unknown): readonly string[] | null {
  return Array.isArray(value) && value.length > 0 ? value.map(String) : null;
}
