/** What the API answers, as far as the page shows it. */

export type RunStatus =
  | 'Starting'
  | 'Running'
  | 'Completed'
  | 'Failed'
  | 'FailedRetryable'
  | 'Cancelled';

export const runStatuses: readonly RunStatus[] = [
  'Starting',
  'Running',
  'Completed',
  'Failed',
  'FailedRetryable',
  'Cancelled',
];

export interface Run {
  readonly id: string;
  readonly status: RunStatus;
  readonly records_completed: number | null;
  readonly records_total_count: number | null;
  readonly records_dropped: number;
  readonly records_rejected: number;
  readonly latest_error: string | null;
  readonly data_interval_start: string | null;
  readonly data_interval_end: string;
  readonly created_at: string;
  readonly finished_at: string | null;
  readonly last_updated_at: string;
  readonly batch_export: string;
  readonly attempt: number;
  readonly bytes_exported: number;
  readonly files: number;
  readonly backfill_id: string | null;
  readonly settled: boolean | null;
}

export type Config = Readonly<Record<string, unknown>>;

export interface BatchExport {
  readonly id: string;
  readonly team_id: number;
  readonly name: string;
  readonly destination: { readonly type: string; readonly config: Config };
  readonly interval: string;
  readonly paused: boolean;
  readonly paused_reason: string | null;
  readonly created_at: string;
  readonly last_updated_at: string;
  readonly last_paused_at: string | null;
  readonly start_at: string | null;
  readonly end_at: string | null;
  readonly latest_runs: readonly Run[];
  readonly dsl_query: string | null;
  readonly model: string;
  readonly timezone: string;
  readonly offset_day: number | null;
  readonly offset_hour: number | null;
  readonly transformations: boolean;
  readonly next_run_at: string | null;
  readonly high_water_mark: string | null;
  readonly unsettled_from: string | null;
  readonly failure_streak: number;
  readonly last_success_at: string | null;
}

export interface Backfill {
  readonly id: string;
  readonly status: 'Running' | 'Completed' | 'Cancelled';
  readonly start_at: string;
  readonly end_at: string;
  readonly order: 'oldest_first' | 'newest_first';
  readonly reprocess: 'all' | 'failed' | 'none';
  readonly concurrency: number;
  readonly total_runs: number;
  readonly finished_runs: number;
  readonly failed_runs: number;
  readonly progress: number;
  readonly eta: string | null;
  readonly created_at: string;
  readonly finished_at: string | null;
}

export interface Bounds {
  readonly start: string;
  readonly end: string;
}

export interface BackfillPreview {
  readonly dry_run: true;
  readonly start_at: string;
  readonly end_at: string;
  readonly total_runs: number;
  readonly intervals: readonly Bounds[];
  readonly already_completed: readonly Bounds[];
  readonly estimated_rows: number | null;
}

export const logLevels = ['DEBUG', 'LOG', 'INFO', 'WARNING', 'ERROR'] as const;
export type LogLevel = (typeof logLevels)[number];

export interface LogEntry {
  readonly run_id: string | null;
  readonly timestamp: string;
  readonly level: LogLevel;
  readonly message: string;
}

export interface OffsetPage<T> {
  readonly count: number;
  readonly next: string | null;
  readonly previous: string | null;
  readonly results: readonly T[];
}

export interface CursorPage<T> {
  readonly next: string | null;
  readonly previous: string | null;
  readonly results: readonly T[];
}

/** One fault that the API found; `attr` names the field, nested names joined by `__`. */
export interface Problem {
  readonly code: string;
  readonly detail: string;
  readonly attr: string | null;
}

/** A data interval that is to come; `hours` is 23 or 25 across a change of the clock. */
export interface PlannedInterval {
  readonly data_interval_start: string;
  readonly data_interval_end: string;
  readonly local_start: string;
  readonly timezone: string;
  readonly hours: number;
  readonly fate: 'ran' | 'paused' | 'outside_window';
}

/** Rows as they would be exported. */
export interface RowPreview {
  readonly columns: readonly { readonly name: string; readonly type: string }[];
  readonly rows: readonly (readonly unknown[])[];
}

/** Who changed what. */
export interface Activity {
  readonly id: number;
  readonly action: string;
  readonly key_name: string | null;
  readonly changes: readonly { readonly field: string }[];
  readonly happened_at: string;
}

/** One step of a destination's own test. */
export interface CheckStep {
  readonly step: string;
  readonly passed: boolean;
  readonly error: string | null;
  readonly warning: string | null;
}
