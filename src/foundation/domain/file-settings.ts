import { usualFileName } from './file-name.ts';
import { type FormatSettings, readFormatSettings } from './format-settings.ts';

/** The config of a destination, as in the API and in the database. */
export type DestinationConfig = Readonly<Record<string, unknown>>;

export interface EventFilters {
  readonly includeEvents: readonly string[] | null;
  readonly excludeEvents: readonly string[] | null;
}

/** Settings of files: the part of a config that all destinations share. */
export interface FileSettings extends EventFilters, FormatSettings {
  readonly format: string;
  readonly compression: string | null;
  readonly prefix: string;
  readonly fileName: string;
  /** A file ends once it has this many bytes; null: one file per interval. */
  readonly maxFileBytes: number | null;
  /** Columns, or date parts of columns, whose values are the folders of the files. */
  readonly partitionBy: readonly string[];
  readonly writesManifest: boolean;
  readonly onRejected: OnRejected;
  /** The time that a table keeps a snapshot that a later one has replaced. */
  readonly snapshotRetentionDays: number;
}

export const usualRetentionDays = 7;

/** The effect of rejected rows on a run: `warn` logs them, `fail` ends it before it commits. */
export const rejectedChoices = ['warn', 'fail'] as const;

export type OnRejected = (typeof rejectedChoices)[number];

/** Reads the file settings of a config. A property that is absent or of a wrong type gets its default. */
export function readFileSettings(config: DestinationConfig): FileSettings {
  const { file_format: format, compression, prefix, max_file_size_mb: mebibytes } = config;
  const { file_name: fileName } = config;
  return {
    format: typeof format === 'string' ? format : 'JSONLines',
    compression: typeof compression === 'string' ? compression : null,
    prefix: typeof prefix === 'string' ? prefix : '',
    fileName: typeof fileName === 'string' ? fileName : usualFileName,
    maxFileBytes: typeof mebibytes === 'number' && mebibytes > 0 ? mebibytes * 1024 ** 2 : null,
    partitionBy: listOf(config.partition_by) ?? [],
    writesManifest: config.manifest !== false,
    onRejected: config.on_rejected === 'fail' ? 'fail' : 'warn',
    snapshotRetentionDays: retentionDaysOf(config.snapshot_retention_days),
    ...readFormatSettings(config),
    includeEvents: listOf(config.include_events),
    excludeEvents: listOf(config.exclude_events),
  };
}

function retentionDaysOf(days: unknown): number {
  return typeof days === 'number' && days > 0 ? days : usualRetentionDays;
}

function listOf(value: unknown): readonly string[] | null {
  return Array.isArray(value) && value.length > 0 ? value.map(String) : null;
}
