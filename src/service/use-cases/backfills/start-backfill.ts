import type { Reprocess } from '../../../foundation/domain/backfill.ts';
import type { BatchExport } from '../../../foundation/domain/batch-export.ts';
import {
  notFound,
  type Problem,
  type ProblemCode,
  Refusal,
  refuseIfAny,
  Throttled,
} from '../../../foundation/domain/problem.ts';
import type { DataInterval, Instant } from '../../../foundation/domain/time.ts';
import { describeInterval } from '../../../foundation/domain/time.ts';
import { countIntervals, intervalsIn, widenRange } from '../../scheduling/backfill-range.ts';
import type { Timeline } from '../../scheduling/timeline.ts';
import {
  type BackfillOrder,
  countRunningBackfills,
  findPassedOverIn,
  findRunningRanges,
  finishBackfill,
  insertBackfill,
  type PassesOver,
  passesNothing,
} from '../../../state/store/exports/backfills.ts';
import { findChain } from '../../../state/store/transformations/chains.ts';
import type { Sql } from '../../../state/store/database/database.ts';
import { lockExport } from '../../../state/store/exports/exports.ts';
import { appendLogEntries } from '../../../state/store/exports/log-entries.ts';
import { listCompletedIntervals } from '../../../state/store/intervals/receipts.ts';
import { readNow } from '../../../state/store/intervals/ticks.ts';
import type { Actor, Context } from '../context.ts';
import { noteRemoval } from '../exports/activity.ts';
import { noPast, refusePast } from '../exports/mode.ts';
import { windowOf } from '../exports/schedule.ts';
import type { DeliveredInterval } from './compare-rows.ts';
import { readTimeline } from '../exports/timeline.ts';

export interface BackfillRequest {
  /** Null: the export's own start_at or end_at. */
  readonly startAt: Instant | null;
  readonly endAt: Instant | null;
  readonly order: BackfillOrder;
  readonly reprocess: Reprocess;
  /** True if delivered rows may go that the source no longer has: a person asked for it. Default: false. */
  readonly dropsMissing?: boolean;
  /** The number of rows that they were shown to go; null or missing: they did not say. A statement has it. */
  readonly shownRows?: number | null;
  /** Who asks: a statement names them if rows go. Missing: an operator. */
  readonly actor?: Actor;
  /** Null: the installation's default. */
  readonly concurrency: number | null;
  /** True if an operator asks: the limit of the project does not count. Default: false. */
  readonly isOfOperator?: boolean;
}

export interface StartedBackfill {
  readonly backfillId: string;
  readonly range: DataInterval;
  /** 0: there was nothing to do, and it has ended. */
  readonly totalRuns: number;
}

/** Maximum intervals of one backfill. */
const maxIntervals = 100_000;

/** Maximum backfills of one project at a time. */
const maxRunningPerTeam = 20;

/** A request for intervals of a range; by default every one, including those already exported. */
export function wholeRange(
  { start, end }: DataInterval,
  reprocess: Reprocess = 'all',
): BackfillRequest {
  return { startAt: start, endAt: end, order: 'oldest_first', reprocess, concurrency: null };
}

/**
 * Records a backfill; its runs follow in the background.
 *
 * @throws Refusal
 */
export async function startBackfill(
  context: Context,
  batchExport: BatchExport,
  request: BackfillRequest,
): Promise<StartedBackfill> {
  refusePast(batchExport.mode, null);
  const started = await context.db.transaction((tx) =>
    recordBackfill(tx, context, batchExport, request),
  );
  context.doorbell.backfillWaiting(started.backfillId);
  return started;
}

/** Starts a backfill within the caller's transaction. The caller notifies the workers after the commit. */
export async function recordBackfill(
  tx: Sql,
  { policy }: Context,
  batchExport: BatchExport,
  request: BackfillRequest,
): Promise<StartedBackfill> {
  // The lock makes two requests for one range wait for each other.
  const row = await lockExport(tx, batchExport.id);
  if (!row) throw notFound();
  const { range, timeline } = await readRange(tx, row, request);

  for (const running of await findRunningRanges(tx, batchExport.id)) {
    const overlaps = running.range.start < range.end && range.start < running.range.end;
    if (overlaps) {
      const detail = `Backfill ${running.id} of an overlapping range is running. Cancel it or wait until it ends.`;
      throw new Refusal({ code: 'conflict', detail, attr: null });
    }
  }
  const { isOfOperator = false } = request;
  if (!isOfOperator && (await countRunningBackfills(tx, batchExport.teamId)) >= maxRunningPerTeam) {
    const detail = `${maxRunningPerTeam} backfills of this project are running. Wait until one ends.`;
    // A backfill takes minutes, so an earlier retry would not help.
    throw new Throttled(detail, 60_000);
  }
  const intervals = countIntervals(timeline, range);
  const passesOver = await findPassedOverIn(tx, batchExport.id, range, request.reprocess);
  const totalRuns = countWanted(timeline, range, passesOver);
  const backfillId = await insertBackfill(tx, {
    exportId: batchExport.id,
    teamId: batchExport.teamId,
    range,
    order: request.order,
    reprocess: request.reprocess,
    dropsMissing: request.dropsMissing ?? false,
    concurrency: request.concurrency ?? policy.backfillConcurrency,
    // The planner takes off those that it passes over.
    totalRuns: totalRuns === 0 ? 0 : intervals,
  });
  if (request.dropsMissing) {
    await noteRemoval(tx, request.actor, row, backfillId, request.shownRows ?? null);
  }
  if (totalRuns === 0) await finishBackfill(tx, backfillId, 'Completed');
  const what = `Backfill ${backfillId} (${describeInterval(range)})`;
  await appendLogEntries(tx, [
    {
      teamId: batchExport.teamId,
      exportId: batchExport.id,
      runId: null,
      level: 'INFO',
      message:
        totalRuns === 0
          ? `${what} has nothing to export: ${nothingToDo(intervals, request.reprocess)}`
          : `${what} has started. Intervals: ${intervals}, runs: ${totalRuns}.${request.dropsMissing ? dropsRows : ''}`,
    },
  ]);
  return { backfillId, range, totalRuns };
}

const dropsRows =
  ' Delivered rows that the source no longer has are removed, because missing_rows is drop.';

function nothingToDo(intervals: number, reprocess: Reprocess): string {
  const why = {
    all: 'has a run that is about to begin',
    failed: 'is exported or has a live run',
    missing: 'is exported, was never asked for, or has a live run',
    none: 'has had a run',
  };
  return `each of its ${intervals} intervals ${why[reprocess]}.`;
}

export interface BackfillPreview {
  readonly range: DataInterval;
  /** At most the first `previewedIntervals`. */
  readonly intervals: readonly DeliveredInterval[];
  /** Delivered rows of all intervals that get a run. */
  readonly deliveredRows: number;
  readonly alreadyCompleted: readonly DataInterval[];
  readonly totalRuns: number;
  /** Intervals of the range that get no run: `reprocess` passes over them, or they have a live run. */
  readonly skipped: number;
}

/** Maximum intervals in a preview. */
const previewedIntervals = 1_000;

/** Plans what `startBackfill` would do; stores nothing. */
export async function previewBackfill(
  context: Context,
  batchExport: BatchExport,
  request: BackfillRequest,
): Promise<BackfillPreview> {
  refusePast(batchExport.mode, null);
  const { range, timeline } = await readRange(context.db, batchExport, request);
  const passesOver = await findPassedOverIn(context.db, batchExport.id, range, request.reprocess);
  const alreadyCompleted = await listCompletedIntervals(context.db, batchExport.id, range);
  const { transformations, teamId } = batchExport;
  const mayDrop = transformations && (await findChain(context.db, teamId)).length > 0;
  const completed = new Map(alreadyCompleted.map((one) => [keyOf(one), one]));
  const intervals: DeliveredInterval[] = [];
  for (const interval of intervalsIn(timeline, range, request.order)) {
    if (passesOver(interval.start)) continue;
    const { rows = 0, deliveredDigest = null } = completed.get(keyOf(interval)) ?? {};
    const digest = mayDrop ? null : deliveredDigest;
    intervals.push({ ...interval, deliveredRows: rows, deliveredDigest: digest });
    if (intervals.length === previewedIntervals) break;
  }
  const totalRuns = countWanted(timeline, range, passesOver);
  const skipped = countIntervals(timeline, range) - totalRuns;
  const deliveredRows = alreadyCompleted.reduce(
    (sum, { start, rows }) => (passesOver(start) ? sum : sum + rows),
    0,
  );
  return { range, intervals, deliveredRows, alreadyCompleted, totalRuns, skipped };
}

const keyOf = ({ start, end }: DataInterval) => `${start} ${end}`;

/** The intervals of a range that get a run. */
export function countWanted(
  timeline: Timeline,
  range: DataInterval,
  passesOver: PassesOver,
): number {
  if (passesOver === passesNothing) return countIntervals(timeline, range);
  let wantedCount = 0;
  for (const { start } of intervalsIn(timeline, range, 'oldest_first')) {
    if (!passesOver(start)) wantedCount += 1;
  }
  return wantedCount;
}

/** No row that a service exports is older, and the count of local days is exact from here on. */
const firstStart: Instant = 0;

/** The range of a request in whole intervals, with the bounds of the intervals. @throws Refusal */
async function readRange(
  sql: Sql,
  batchExport: BatchExport,
  request: BackfillRequest,
): Promise<{ readonly range: DataInterval; readonly timeline: Timeline }> {
  const now = await readNow(sql);
  const bounds = askedRange(batchExport, request);
  refuseIfAny(rangeProblems(bounds, request, now));
  const { start, end } = bounds;
  if (start === null || end === null) throw new Error('a range without bounds passed its check');
  const timeline = await readTimeline(sql, batchExport.id, batchExport.schedule, { start, end });
  const range = widenRange(timeline, { start, end }, now);
  if (!range) {
    throw fault(
      'start_at',
      'The range contains no complete interval yet. Choose an earlier start_at.',
    );
  }
  const intervals = countIntervals(timeline, range);
  if (intervals > maxIntervals) {
    throw fault(
      'start_at',
      `The range has ${intervals} intervals; the maximum is ${maxIntervals}. Choose a shorter range, and start the next backfill when this one ends.`,
    );
  }
  return { range, timeline };
}

interface AskedRange {
  readonly start: Instant | null;
  readonly end: Instant | null;
}

/** The bounds of a request; the export's own if it has none. */
function askedRange({ startAt, endAt }: BatchExport, request: BackfillRequest): AskedRange {
  const own = windowOf(startAt, endAt);
  return { start: request.startAt ?? own.startAt, end: request.endAt ?? own.endAt };
}

/** Returns the problems of the bounds of a request. */
function rangeProblems(
  { start, end }: AskedRange,
  request: BackfillRequest,
  now: Instant,
): Problem[] {
  const problems: Problem[] = [];
  const add = (attr: string, detail: string, code: ProblemCode = 'invalid_input') =>
    problems.push({ code, detail, attr });
  if (start === null) {
    add('start_at', 'start_at is required: the export has no start_at.', 'required');
  } else if (start < firstStart) {
    add('start_at', 'start_at must not be before 1970.');
  } else if (end !== null && start >= end) {
    add('start_at', 'start_at must be before end_at.');
  }
  if (end === null) {
    add('end_at', 'end_at is required: the export has no end_at.', 'required');
  } else if (request.endAt !== null && end > now) {
    add('end_at', 'end_at must not be in the future.');
  }
  return problems;
}

/** Everything that is wrong with the bounds of a request. */
export async function checkBackfill(
  sql: Sql,
  batchExport: BatchExport,
  request: BackfillRequest,
): Promise<readonly Problem[]> {
  if (batchExport.mode !== 'append') return [noPast(batchExport.mode, null)];
  return rangeProblems(askedRange(batchExport, request), request, await readNow(sql));
}

function fault(attr: string, detail: string): Refusal {
  return new Refusal({ code: 'invalid_input', detail, attr });
}
