import type { BatchExport } from '../../domain/batch-export.ts';
import type { DataInterval, Instant } from '../../domain/time.ts';
import { ceilInstant, describeInterval, floorInstant } from '../../domain/time.ts';
import { countIntervals, intervalsIn, widenRange } from '../../scheduling/backfill-range.ts';
import {
  type BackfillOrder,
  countRunningBackfills,
  findRunningRanges,
  insertBackfill,
  type Reprocess,
} from '../../store/backfills.ts';
import type { Sql } from '../../store/database.ts';
import { lockExport } from '../../store/exports.ts';
import { appendLogEntries } from '../../store/log-entries.ts';
import { listCompletedIntervals } from '../../store/receipts.ts';
import { readNow } from '../../store/ticks.ts';
import type { Context } from '../context.ts';

export interface BackfillRequest {
  /** A bound that is null takes the export's own start_at or end_at. */
  readonly startAt: Instant | null;
  readonly endAt: Instant | null;
  readonly order: BackfillOrder;
  readonly reprocess: Reprocess;
  /** Null: the installation's default. */
  readonly concurrency: number | null;
}

export type BackfillProblem =
  | 'no_start'
  | 'no_end'
  | 'end_in_future'
  | 'empty_range'
  | 'already_running'
  | 'too_many';

export type BackfillOutcome =
  | { readonly backfillId: string; readonly range: DataInterval; readonly totalRuns: number }
  | { readonly problem: BackfillProblem; readonly detail: string };

/** Backfills of one project that may run at a time. */
const maxRunningPerTeam = 20;

/** Records a backfill; its runs follow in the background. */
export async function startBackfill(
  context: Context,
  batchExport: BatchExport,
  request: BackfillRequest,
): Promise<BackfillOutcome> {
  const outcome = await context.db.transaction((tx) =>
    recordBackfill(tx, batchExport, request, context.policy.backfillConcurrency),
  );
  if ('backfillId' in outcome) context.doorbell.backfillWaiting(outcome.backfillId);
  return outcome;
}

/** The same inside a transaction of the caller, who rings the doorbell after the commit. */
export async function recordBackfill(
  tx: Sql,
  batchExport: BatchExport,
  request: BackfillRequest,
  defaultConcurrency: number,
): Promise<BackfillOutcome> {
  // The lock makes two requests for one range wait for each other.
  const row = await lockExport(tx, batchExport.id);
  if (!row) return { problem: 'empty_range', detail: 'The export was deleted.' };
  const range = rangeOf(batchExport, request, await readNow(tx));
  if ('problem' in range) return range;

  for (const running of await findRunningRanges(tx, batchExport.id)) {
    const overlaps = running.range.start < range.end && range.start < running.range.end;
    if (overlaps) {
      return {
        problem: 'already_running',
        detail: `Backfill ${running.id} of this range is running; cancel it or wait for its end.`,
      };
    }
  }
  if ((await countRunningBackfills(tx, batchExport.teamId)) >= maxRunningPerTeam) {
    return {
      problem: 'too_many',
      detail: `${maxRunningPerTeam} backfills of this project are running; wait for one to end.`,
    };
  }
  const totalRuns = countIntervals(row.schedule.cadences, range);
  const backfillId = await insertBackfill(tx, {
    exportId: batchExport.id,
    teamId: batchExport.teamId,
    range,
    order: request.order,
    reprocess: request.reprocess,
    concurrency: request.concurrency ?? defaultConcurrency,
    totalRuns,
  });
  await appendLogEntries(tx, [
    {
      teamId: batchExport.teamId,
      exportId: batchExport.id,
      runId: null,
      level: 'INFO',
      message: `Backfill ${backfillId} of ${describeInterval(range)} started: ${totalRuns} intervals.`,
    },
  ]);
  return { backfillId, range, totalRuns };
}

export interface BackfillPreview {
  readonly range: DataInterval;
  /** The first of them where there are very many. */
  readonly intervals: readonly DataInterval[];
  readonly alreadyCompleted: readonly DataInterval[];
  readonly totalRuns: number;
}

/** Intervals that a preview lists at most. */
const previewedIntervals = 1_000;

/** What `startBackfill` would do; stores nothing. */
export async function previewBackfill(
  context: Context,
  batchExport: BatchExport,
  request: BackfillRequest,
): Promise<BackfillPreview | { readonly problem: BackfillProblem; readonly detail: string }> {
  const range = rangeOf(batchExport, request, await readNow(context.db));
  if ('problem' in range) return range;
  const { cadences } = batchExport.schedule;
  const intervals: DataInterval[] = [];
  for (const interval of intervalsIn(cadences, range, request.order)) {
    intervals.push(interval);
    if (intervals.length === previewedIntervals) break;
  }
  const alreadyCompleted = await listCompletedIntervals(context.db, batchExport.id, range);
  return { range, intervals, alreadyCompleted, totalRuns: countIntervals(cadences, range) };
}

/** Postgres and ISO 8601 count the years before it differently. */
const firstInstant = floorInstant('0001-01-01T00:00:00.000000Z');

function rangeOf(
  batchExport: BatchExport,
  request: BackfillRequest,
  now: Instant,
): DataInterval | { readonly problem: BackfillProblem; readonly detail: string } {
  const start =
    request.startAt ?? (batchExport.startAt === null ? null : ceilInstant(batchExport.startAt));
  if (start === null) {
    return { problem: 'no_start', detail: 'start_at is required: the export has none of its own.' };
  }
  const ownEnd = batchExport.endAt === null ? null : floorInstant(batchExport.endAt);
  const end = request.endAt ?? ownEnd;
  if (end === null) {
    return { problem: 'no_end', detail: 'end_at is required: the export has none of its own.' };
  }
  if (start >= end) {
    return { problem: 'empty_range', detail: 'start_at must be before end_at.' };
  }
  if (request.endAt !== null && end > now) {
    return { problem: 'end_in_future', detail: 'end_at must not be in the future.' };
  }
  const range = widenRange(batchExport.schedule.cadences, { start, end }, now);
  if (!range) {
    return { problem: 'empty_range', detail: 'The range holds no complete interval yet.' };
  }
  if (range.start < firstInstant) {
    return { problem: 'empty_range', detail: 'start_at lies in an interval of before the year 1.' };
  }
  return range;
}
