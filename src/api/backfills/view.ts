import { type DataInterval, floorInstant, type Timestamp, toTimestamp } from '../../domain/time.ts';
import type { BackfillWithProgress } from '../../store/backfills.ts';
import type { BackfillPreview as Preview } from '../../use-cases/backfills/start-backfill.ts';
import type { Backfill, BackfillPreview } from './schema.ts';

export function backfillView(backfill: BackfillWithProgress): Backfill {
  return {
    id: backfill.id,
    batch_export: backfill.exportId,
    team_id: backfill.teamId,
    status: backfill.status,
    start_at: toTimestamp(backfill.range.start),
    end_at: toTimestamp(backfill.range.end),
    order: backfill.order,
    reprocess: backfill.reprocess,
    concurrency: backfill.concurrency,
    total_runs: backfill.totalRuns,
    finished_runs: backfill.finishedRuns,
    failed_runs: backfill.failedRuns,
    progress: progressOf(backfill),
    eta: etaOf(backfill),
    created_at: backfill.createdAt,
    finished_at: backfill.finishedAt,
    last_updated_at: backfill.lastUpdatedAt,
  };
}

function progressOf({ status, finishedRuns, totalRuns }: BackfillWithProgress): number {
  if (status === 'Completed' || totalRuns === 0) return status === 'Completed' ? 1 : 0;
  return Math.min(1, finishedRuns / totalRuns);
}

/** Estimates the end from the progress so far. */
function etaOf(backfill: BackfillWithProgress): Timestamp | null {
  const progress = progressOf(backfill);
  if (backfill.status !== 'Running' || progress === 0) return null;
  const totalMs = backfill.elapsedMs / progress;
  return toTimestamp(floorInstant(backfill.createdAt) + Math.round(totalMs));
}

export function backfillPreviewView(
  preview: Preview,
  rowsPerInterval: number | null,
): BackfillPreview {
  return {
    dry_run: true,
    start_at: toTimestamp(preview.range.start),
    end_at: toTimestamp(preview.range.end),
    total_runs: preview.totalRuns,
    skipped: preview.skipped,
    intervals: preview.intervals.map(boundsView),
    already_completed: preview.alreadyCompleted.map(boundsView),
    estimated_rows:
      rowsPerInterval === null ? null : Math.round(rowsPerInterval * preview.totalRuns),
  };
}

function boundsView({ start, end }: DataInterval) {
  return { start: toTimestamp(start), end: toTimestamp(end) };
}
