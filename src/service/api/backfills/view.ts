import { inSnakeCase } from '../../../foundation/domain/snake-case.ts';
import {
  type DataInterval,
  floorInstant,
  type Timestamp,
  toTimestamp,
} from '../../../foundation/domain/time.ts';
import type { BackfillWithProgress } from '../../../state/store/exports/backfills.ts';
import type { ComparedInterval, Comparison } from '../../use-cases/backfills/compare-rows.ts';
import type { BackfillPreview as Preview } from '../../use-cases/backfills/start-backfill.ts';
import type { Backfill, BackfillPreview } from './schema.ts';

export function backfillView(backfill: BackfillWithProgress): Backfill {
  const {
    exportId,
    range,
    dropsMissing,
    rows,
    bytes,
    plannedTo: _,
    elapsedMs: __,
    ...shown
  } = backfill;
  return {
    ...inSnakeCase(shown),
    batch_export: exportId,
    start_at: toTimestamp(range.start),
    end_at: toTimestamp(range.end),
    missing_rows: dropsMissing ? 'drop' : 'keep',
    records_completed: rows,
    bytes_exported: bytes,
    progress: progressOf(backfill),
    eta: etaOf(backfill),
  };
}

function progressOf({ status, finishedRuns, totalRuns }: BackfillWithProgress): number {
  if (status === 'Completed' || totalRuns === 0) return status === 'Completed' ? 1 : 0;
  return Math.min(1, finishedRuns / totalRuns);
}

/** An estimate from less than this share of the runs is often wrong by hours. */
const leastProgress = 0.05;

/** Estimates the end from the progress so far. */
function etaOf(backfill: BackfillWithProgress): Timestamp | null {
  const progress = progressOf(backfill);
  if (backfill.status !== 'Running' || progress < leastProgress) return null;
  const totalMs = backfill.elapsedMs / progress;
  return toTimestamp(floorInstant(backfill.createdAt) + Math.round(totalMs));
}

export function backfillPreviewView(
  preview: Preview,
  { intervals, leftOut }: Comparison,
  average: { readonly rows: number | null; readonly bytes: number | null },
): BackfillPreview {
  const estimate = (each: number | null) =>
    each === null ? null : Math.round(each * preview.totalRuns);
  return {
    dry_run: true,
    start_at: toTimestamp(preview.range.start),
    end_at: toTimestamp(preview.range.end),
    total_runs: preview.totalRuns,
    skipped: preview.skipped,
    intervals: intervals.map(comparedView),
    totals: totalsView(preview, intervals, leftOut),
    already_completed: preview.alreadyCompleted.map(boundsView),
    estimated_rows: estimate(average.rows),
    estimated_bytes: estimate(average.bytes),
  };
}

function comparedView({ start, end, deliveredRows, rowsNow, wouldGo }: ComparedInterval) {
  return {
    ...boundsView({ start, end }),
    delivered_rows: deliveredRows,
    rows_now: rowsNow,
    ...wouldGoView(wouldGo),
  };
}

function wouldGoView(wouldGo: ComparedInterval['wouldGo']) {
  const is = wouldGo && (wouldGo.isExact ? ('exact' as const) : ('at_least' as const));
  return { would_go: wouldGo?.rows ?? null, would_go_is: is };
}

/** A sum of what is known is a lower bound of the whole. */
function totalsView(
  { totalRuns, deliveredRows }: Preview,
  intervals: readonly ComparedInterval[],
  leftOut: string | null,
): BackfillPreview['totals'] {
  const sum = (numbers: readonly number[]) => numbers.reduce((all, one) => all + one, 0);
  const seen = intervals.flatMap(({ rowsNow }) => rowsNow ?? []);
  const going = intervals.flatMap(({ wouldGo }) => wouldGo ?? []);
  // Intervals that are not listed may have delivered rows too.
  const isListed = sum(intervals.map((one) => one.deliveredRows)) === deliveredRows;
  const isWhole = isListed && leftOut === null;
  const isExact = isWhole && going.every((one) => one.isExact);
  const wouldGo =
    isWhole || seen.length > 0 ? { rows: sum(going.map(({ rows }) => rows)), isExact } : null;
  const more = `${totalRuns - intervals.length} intervals are not in this list; those with delivered rows were not compared.`;
  const reasons = [leftOut, isListed ? null : more].flatMap((reason) => reason ?? []);
  return {
    delivered_rows: deliveredRows,
    rows_now: isWhole ? sum(seen) : null,
    ...wouldGoView(wouldGo),
    compared_intervals: seen.length,
    left_out: reasons.length === 0 ? null : reasons.join(' '),
  };
}

function boundsView({ start, end }: DataInterval) {
  return { start: toTimestamp(start), end: toTimestamp(end) };
}
