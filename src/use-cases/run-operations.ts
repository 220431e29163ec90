import type { BatchExport } from '../domain/batch-export.ts';
import type { DataInterval, Instant } from '../domain/time.ts';
import type { Sql } from '../store/database.ts';
import type { Run } from '../store/runs.ts';
import type { Context } from './context.ts';

export interface BackfillRequest {
  readonly startAt: Instant | null;
  readonly endAt: Instant | null;
  readonly order: 'oldest_first' | 'newest_first';
  readonly reprocess: 'all' | 'failed' | 'none';
  readonly concurrency: number | null;
}

export interface BackfillRefusal {
  readonly problem:
    | 'no_start'
    | 'no_end'
    | 'end_in_future'
    | 'empty_range'
    | 'already_running'
    | 'too_many';
  readonly detail: string;
}

export interface BackfillPreview {
  readonly intervals: readonly DataInterval[];
  readonly alreadyCompleted: readonly DataInterval[];
  readonly totalRuns: number;
}

/** The verbs on runs and backfills that changes of an export lean on. */
export interface RunOperations {
  startBackfill(
    context: Context,
    batchExport: BatchExport,
    request: BackfillRequest,
  ): Promise<{ readonly backfillId: string } | BackfillRefusal>;
  previewBackfill(
    context: Context,
    batchExport: BatchExport,
    request: BackfillRequest,
  ): Promise<BackfillPreview | BackfillRefusal>;
  cancelBackfill(context: Context, id: string, running: 'finish' | 'cancel'): Promise<void>;
  /** @returns false where the run is over, or past the point of no return */
  cancelRun(context: Context, run: Run): Promise<boolean>;
  retryRun(
    context: Context,
    run: Run,
  ): Promise<{ readonly runId: string } | { readonly problem: string; readonly detail: string }>;
  /** Cancels the live runs and backfills of an export that is being deleted. */
  cancelLiveWork(tx: Sql, exportId: string): Promise<void>;
}
