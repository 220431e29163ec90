import type { Reprocess } from '../../../foundation/domain/backfill.ts';
import type { BatchExport } from '../../../foundation/domain/batch-export.ts';
import {
  invalid,
  orNotFound,
  type Problem,
  type ProblemCode,
  Refusal,
  refuseIfAny,
  Throttled,
} from '../../../foundation/domain/problem.ts';
import {
  type DataInterval,
  describeInterval,
  floorInstant,
  type Instant,
  inSeconds,
  toTimestamp,
} from '../../../foundation/domain/time.ts';
import type { Sql } from '../../../state/store/database/database.ts';
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
import { lockExport } from '../../../state/store/exports/exports.ts';
import { listCompletedIntervals } from '../../../state/store/intervals/receipts.ts';
import { listLiveRuns, supersede } from '../../../state/store/intervals/superseded.ts';
import { readNow } from '../../../state/store/intervals/ticks.ts';
import { findChain } from '../../../state/store/transformations/chains.ts';
import { countIntervals, intervalsIn, widenRange } from '../../scheduling/backfill-range.ts';
import { previewIntervals } from '../../scheduling/preview.ts';
import { boundAtOrBefore, boundBefore, type Timeline } from '../../scheduling/timeline.ts';
import type { Actor, Context } from '../context.ts';
import { noteInLog, noteRemoval } from '../exports/activity.ts';
import { noPast, refusePast } from '../exports/rules.ts';
import { readTimeline, windowOf } from '../exports/schedule.ts';
import type { DeliveredInterval } from './compare-rows.ts';

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

const maxIntervals = 100_000;
const maxRunningPerTeam = 20;

/** A request for intervals of a range; by default every one, including those already exported. */
export function wholeRange(
  { start, end }: DataInterval,
  reprocess: Reprocess = 'all',
): BackfillRequest {
  return { startAt: start, endAt: end, order: 'oldest_first', reprocess, concurrency: null };
}

/** Records a backfill; its runs follow in the background. @throws Refusal */
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

/** Records a backfill within the caller's transaction. The caller notifies the workers after the commit. */
export async function recordBackfill(
  tx: Sql,
  { policy }: Context,
  batchExport: BatchExport,
  request: BackfillRequest,
): Promise<StartedBackfill> {
  // The lock makes two requests for one range wait for each other.
  const row = orNotFound(await lockExport(tx, batchExport.id));
  const { range, timeline } = await readRange(tx, row, request);

  for (const running of await findRunningRanges(tx, batchExport.id)) {
    if (running.range.start < range.end && range.start < running.range.end) {
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
  const { order, reprocess, dropsMissing = false } = request;
  const backfillId = await insertBackfill(tx, {
    ...{ exportId: batchExport.id, teamId: batchExport.teamId, range },
    ...{ order, reprocess, dropsMissing },
    concurrency: request.concurrency ?? policy.backfillConcurrency,
    // The planner takes off those that it passes over.
    totalRuns: totalRuns === 0 ? 0 : intervals,
  });
  if (request.dropsMissing) {
    await noteRemoval(tx, request.actor, row, backfillId, request.shownRows ?? null);
  }
  if (totalRuns === 0) await finishBackfill(tx, backfillId, 'Completed');
  const what = `Backfill ${backfillId} (${describeInterval(range)})`;
  const message =
    totalRuns === 0
      ? `${what} has nothing to export: each of its ${intervals} intervals ${hasRun[request.reprocess]}.`
      : `${what} has started. Intervals: ${intervals}, runs: ${totalRuns}.${request.dropsMissing ? dropsRows : ''}`;
  await noteInLog(tx, batchExport, 'INFO', message);
  return { backfillId, range, totalRuns };
}

const dropsRows =
  ' Delivered rows that the source no longer has are removed, because missing_rows is drop.';

const hasRun: Readonly<Record<Reprocess, string>> = {
  all: 'has a run that is about to begin',
  failed: 'is exported or has a live run',
  missing: 'is exported, was never asked for, or has a live run',
  none: 'has had a run',
};

export interface BackfillPreview {
  readonly range: DataInterval;
  readonly intervals: readonly DeliveredInterval[];
  readonly deliveredRows: number;
  readonly alreadyCompleted: readonly DataInterval[];
  readonly totalRuns: number;
  /** Intervals of the range that get no run: `reprocess` passes over them, or they have a live run. */
  readonly skipped: number;
}

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

function countWanted(timeline: Timeline, range: DataInterval, passesOver: PassesOver) {
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
    const detail = 'The range contains no complete interval yet. Choose an earlier start_at.';
    throw new Refusal(invalid('start_at', detail));
  }
  const intervals = countIntervals(timeline, range);
  if (intervals > maxIntervals) {
    const detail = `The range has ${intervals} intervals; the maximum is ${maxIntervals}. Choose a shorter range, and start the next backfill when this one ends.`;
    throw new Refusal(invalid('start_at', detail));
  }
  return { range, timeline };
}

function askedRange({ startAt, endAt }: BatchExport, request: BackfillRequest) {
  const own = windowOf(startAt, endAt);
  return { start: request.startAt ?? own.startAt, end: request.endAt ?? own.endAt };
}

function rangeProblems(
  { start, end }: ReturnType<typeof askedRange>,
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

export async function checkBackfill(
  sql: Sql,
  batchExport: BatchExport,
  request: BackfillRequest,
): Promise<readonly Problem[]> {
  if (batchExport.mode !== 'append') return [noPast(batchExport.mode, null)];
  return rangeProblems(askedRange(batchExport, request), request, await readNow(sql));
}

type RanNow = { readonly started: StartedBackfill } | { readonly reason: string };

/**
 * Exports every interval that has ended and has no data, from the start of the export on, as a backfill. Of any mode but append only
 * the newest one: it has all rows of now, or all changes until now.
 */
export async function runNow(context: Context, batchExport: BatchExport): Promise<RanNow> {
  const { id, mode, schedule, paused, createdAt } = batchExport;
  const { db } = context;
  if (paused) {
    const reason = 'The export is paused. Unpause it: that can export what the pause has missed.';
    return { reason };
  }
  const now = await readNow(db);
  const { startAt, endAt } = windowOf(batchExport.startAt, batchExport.endAt);
  if (startAt !== null && startAt >= now) {
    const at = textOf(startAt);
    return { reason: `The export starts at ${at}, its start_at. Nothing is due before.` };
  }
  const end = Math.min(now, endAt ?? now);
  const start = mode === 'append' ? (startAt ?? floorInstant(createdAt)) : end - marginMs;
  const timeline = await readTimeline(db, id, schedule, { start, end });
  const whole = mode === 'append' ? { start, end } : newestInterval(timeline, end, startAt);
  const range = whole && whole.start < whole.end ? widenRange(timeline, whole, now) : null;
  const present = previewIntervals(schedule, now, 1)[0]?.interval.end ?? now;
  const next =
    endAt !== null && endAt < present
      ? `The export ended at ${textOf(endAt)}, its end_at.`
      : `The present interval ends at ${textOf(present)}, and is exported then.`;
  if (range === null) return { reason: `No interval has ended yet. ${next}` };
  const upTo = textOf(range.end);
  const passesOver = await findPassedOverIn(db, id, range, 'failed');
  if (countWanted(timeline, range, passesOver) === 0) {
    const what = mode === 'append' ? 'Every interval up to' : 'The interval that ended at';
    return { reason: `${what} ${upTo} is exported or has a run. ${next}` };
  }
  try {
    const started = await db.transaction((tx) => begin(tx, context, batchExport, range));
    if (started === null) {
      return {
        reason: `A run is in progress. When it has ended, the interval up to ${upTo} is exported.`,
      };
    }
    context.doorbell.backfillWaiting(started.backfillId);
    return { started };
  } catch (error) {
    const problem = error instanceof Refusal ? error.problems[0] : undefined;
    if (problem?.code !== 'conflict') throw error;
    return { reason: problem.detail };
  }
}

const marginMs = 20 * 86_400_000;

/** The newest interval that has ended; null if it ended before the export begins. */
function newestInterval(timeline: Timeline, upTo: Instant, startAt: Instant | null) {
  const end = boundAtOrBefore(timeline, upTo);
  return startAt !== null && end <= startAt ? null : { start: boundBefore(timeline, end), end };
}

async function begin(
  tx: Sql,
  context: Context,
  batchExport: BatchExport,
  range: DataInterval,
): Promise<StartedBackfill | null> {
  const { id: exportId, teamId, mode } = batchExport;
  if (mode !== 'append') {
    await lockExport(tx, exportId);
    if ((await listLiveRuns(tx, [exportId])).length > 0) return null;
    // It takes the place of the intervals before it that have no data.
    await supersede(tx, [{ exportId, teamId, run: null, newest: range.end, intervals: [] }]);
  }
  return recordBackfill(tx, context, batchExport, wholeRange(range, 'failed'));
}

const textOf = (at: Instant): string => inSeconds(toTimestamp(at));
