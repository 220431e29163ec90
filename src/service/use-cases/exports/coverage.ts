import type { BatchExport } from '../../../foundation/domain/batch-export.ts';
import type {
  CoverageRange,
  CoverageState,
  LateRowsWait,
} from '../../../foundation/domain/coverage.ts';
import { invalid, orNotFound, Refusal } from '../../../foundation/domain/problem.ts';
import {
  type DataInterval,
  describeInterval,
  type Instant,
  toTimestamp,
} from '../../../foundation/domain/time.ts';
import type { Sql } from '../../../state/store/database/database.ts';
import { lockExport } from '../../../state/store/exports/exports.ts';
import { countHealing } from '../../../state/store/healing/healing.ts';
import {
  acceptIntervals,
  findCoverage,
  findFirstTick,
  findOldestInterval,
  findTicksWithoutRun,
  listBackfillsUnderWay,
  listLateRowsWaits,
} from '../../../state/store/intervals/coverage.ts';
import { type DeliveredElement, listDelivered } from '../../../state/store/intervals/elements.ts';
import { advanceHighWaterMark } from '../../../state/store/intervals/high-water-mark.ts';
import { readNow } from '../../../state/store/intervals/ticks.ts';
import {
  countIntervals,
  intervalsIn,
  pageOfIntervals,
  remainder,
  widenRange,
} from '../../scheduling/backfill-range.ts';
import { joinCoverage } from '../../scheduling/coverage.ts';
import { boundAfter, boundAtOrBefore, type Timeline } from '../../scheduling/timeline.ts';
import type { Actor, Context } from '../context.ts';
import { noteInLog, recordExportActivity } from './activity.ts';
import { readTimeline } from './schedule.ts';

interface CoverageRequest {
  /** Null: the oldest interval that was ever asked for, or as far back as the maximum allows. */
  readonly from: Instant | null;
  readonly to: Instant | null;
}

/** Maximum intervals of a request: each is an entry of an index to read. */
const maxIntervals = 20_000;

export interface CountedRange extends CoverageRange {
  readonly intervals: number;
}

export interface Coverage {
  /** Whole intervals, up to the last complete one; null if the range has none. */
  readonly range: DataInterval | null;
  /** In order; neighbours share their bound and differ in their state. */
  readonly ranges: readonly CountedRange[];
  /**
   * The stretch that begins at the high-water mark and holds it, with the number of its intervals that Sluice exports by itself once
   * their cause is over; null if nothing complete does.
   */
  readonly blocker: (CountedRange & { readonly healing: number }) | null;
  /** The first intervals of the range whose late rows wait for a person. */
  readonly lateRowsWaits: readonly LateRowsWait[];
  /** The newest deliveries of the range, newest first; null: mode append. */
  readonly elements: readonly DeliveredElement[] | null;
}

/** No row that a service exports is older. */
const firstStart: Instant = 0;
const maxLateRowsWaits = 100;
export const maxElements = 100;
/** Intervals after the high-water mark that are read if the range does not contain it. */
const blockerIntervals = 1_000;

/** @throws Refusal if the range is empty or has too many intervals */
export async function readCoverage(
  { db }: Pick<Context, 'db'>,
  batchExport: BatchExport,
  request: CoverageRequest,
): Promise<Coverage> {
  const now = await readNow(db);
  const oldest = request.from === null ? await findOldestInterval(db, batchExport.id) : null;
  const mark = await findMark(db, batchExport);
  const timeline = await readTimeline(db, batchExport.id, batchExport.schedule, {
    start: Math.max(firstStart, Math.min(request.from ?? oldest ?? now, mark ?? now)),
    end: now,
  });
  const range = rangeOf(timeline, request, oldest, now);
  const ranges = range ? await coverageOf(db, batchExport, timeline, range) : [];
  const counted = (part: CoverageRange): CountedRange => {
    return { ...part, intervals: countIntervals(timeline, part) };
  };
  const blocker = await findBlocker(db, batchExport, timeline, ranges, mark, now);
  return {
    range,
    ranges: ranges.map(counted),
    blocker: blocker && {
      ...counted(blocker),
      healing: await countHealing(db, batchExport.id, blocker),
    },
    lateRowsWaits: range
      ? await listLateRowsWaits(db, batchExport.id, range, maxLateRowsWaits)
      : [],
    elements:
      batchExport.mode === 'append'
        ? null
        : range
          ? await listDelivered(db, batchExport.id, range, maxElements)
          : [],
  };
}

/** The high-water mark of an export, or the instant at which it will begin; null if no tick has run. */
async function findMark(sql: Sql, batchExport: BatchExport): Promise<Instant | null> {
  return batchExport.highWaterMark ?? findFirstTick(sql, batchExport.id);
}

const passed: ReadonlySet<CoverageRange['state']> = new Set(['done', 'accepted', 'superseded']);

/** @param ranges coverage that was read already */
async function findBlocker(
  db: Sql,
  batchExport: BatchExport,
  timeline: Timeline,
  ranges: readonly CoverageRange[],
  mark: Instant | null,
  now: Instant,
): Promise<CoverageRange | null> {
  const end = boundAtOrBefore(timeline, now);
  if (mark === null || mark >= end) return null;
  const containing = ranges.find((part) => part.start <= mark && mark < part.end);
  const after = { start: mark, end: limitEnd(timeline, { start: mark, end }, blockerIntervals) };
  const stretch = containing ?? (await coverageOf(db, batchExport, timeline, after))[0];
  // A run may have completed since the export was read.
  if (!stretch || passed.has(stretch.state)) return null;
  return { ...stretch, start: mark };
}

export async function coverageOf(
  sql: Sql,
  { id }: BatchExport,
  timeline: Timeline,
  range: DataInterval,
): Promise<readonly CoverageRange[]> {
  const facts = await findCoverage(sql, id, range);
  const gaps = joinCoverage(range, facts).filter(({ state }) => state === 'never_asked');
  if (gaps.length === 0) return joinCoverage(range, facts);
  const ticks = await findTicksWithoutRun(sql, id, gaps);
  const awaited = await listBackfillsUnderWay(sql, id);
  const ahead = awaited.map((backfill): CoverageRange => {
    const { range: whole, order, plannedTo } = backfill;
    const rest = plannedTo === null ? whole : remainder(timeline, whole, order, plannedTo);
    return { ...rest, state: 'running' };
  });
  const within = gaps.flatMap((gap) => ahead.map((part) => intersect(gap, part)));
  return joinCoverage(range, [...facts, ...ticks, ...within]);
}

/** Empty, with `start` after `end`, if the two do not meet. */
function intersect(gap: DataInterval, part: CoverageRange): CoverageRange {
  return { ...part, start: Math.max(gap.start, part.start), end: Math.min(gap.end, part.end) };
}

function rangeOf(
  timeline: Timeline,
  { from, to }: CoverageRequest,
  oldest: Instant | null,
  now: Instant,
): DataInterval | null {
  const end = to ?? now;
  if (from !== null && from < firstStart) throw fault('from', 'from must not be before 1970.');
  if (from !== null && from >= end) {
    throw fault('from', to === null ? 'from must be in the past.' : 'from must be before to.');
  }
  if (from !== null) {
    const range = widenRange(timeline, { start: from, end }, now);
    const count = range === null ? 0 : countIntervals(timeline, range);
    if (count > maxIntervals) {
      const detail = `The range has ${count} intervals; the maximum is ${maxIntervals}. Choose a later from or an earlier to.`;
      throw fault('from', detail);
    }
    return range;
  }
  if (oldest === null || oldest >= end) return null;
  const whole = widenRange(timeline, { start: Math.max(oldest, firstStart), end }, now);
  return whole && { start: limitStart(timeline, whole, maxIntervals), end: whole.end };
}

/** The earliest bound that leaves at most `max` intervals before the end of `range`. */
function limitStart(timeline: Timeline, range: DataInterval, max: number): Instant {
  const fits = (start: Instant) => countIntervals(timeline, { start, end: range.end }) <= max;
  if (fits(range.start)) return range.start;
  let [tooEarly, late] = [range.start, range.end];
  while (late - tooEarly > 1) {
    const middle = Math.floor((tooEarly + late) / 2);
    if (fits(middle)) late = middle;
    else tooEarly = middle;
  }
  // The first instant that fits comes right after a bound that is one too many.
  return boundAfter(timeline, late - 1);
}

/** The latest bound that leaves at most `max` intervals after the start of `range`. */
function limitEnd(timeline: Timeline, range: DataInterval, max: number): Instant {
  const page = pageOfIntervals(timeline, range, { order: 'oldest_first', limit: max });
  return page.at(-1)?.end ?? range.end;
}

const fault = (attr: string, detail: string) => new Refusal(invalid(attr, detail));

export interface AcceptRequest extends DataInterval {
  /** Kept in the activity; null if the caller gave none. */
  readonly reason: string | null;
}

/** Maximum intervals in the range of one request: they are written in one transaction. */
const maxAccepted = 10_000;

const acceptable: ReadonlySet<CoverageState> = new Set([
  ...(['late_rows', 'unsettled', 'healing', 'failed', 'cancelled', 'missing', 'paused'] as const),
]);

/**
 * Accepts the intervals of a range as they are: those that are unsettled, failed, cancelled, missing or
 * paused, those whose late rows wait for a person, and those after the high-water mark that were never asked
 * for. They hold the high-water mark no longer. Files stay as they are, and an accepted interval can still be
 * exported. Late rows that waited are not looked for again.
 *
 * @returns `counts` of the intervals that were accepted now, by the state that they had
 * @throws Refusal if the range has no whole interval, too many, or ends in the future
 */
export async function acceptCoverage(
  context: Context,
  actor: Actor,
  id: string,
  { reason, ...wanted }: AcceptRequest,
) {
  return context.db.transaction(async (tx) => {
    const locked = orNotFound(await lockExport(tx, id));
    const now = await readNow(tx);
    checkRange(wanted, now);
    const timeline = await readTimeline(tx, id, locked.schedule, wanted);
    const range = wholeIntervals(timeline, wanted);
    const mark = await findMark(tx, locked);
    const counts = new Map<CoverageState, number>();
    const intervals: DataInterval[] = [];
    for (const part of await coverageOf(tx, locked, timeline, range)) {
      const holdsMark = part.state === 'never_asked' && mark !== null && mark < part.end;
      if (!acceptable.has(part.state) && !holdsMark) continue;
      const start = holdsMark ? Math.max(part.start, mark) : part.start;
      const partIntervals = [...intervalsIn(timeline, { start, end: part.end }, 'oldest_first')];
      counts.set(part.state, (counts.get(part.state) ?? 0) + partIntervals.length);
      intervals.push(...partIntervals);
    }
    if (intervals.length === 0) return { counts, batchExport: locked };
    await acceptIntervals(tx, id, intervals);
    await advanceHighWaterMark(tx, id);
    const summary = Object.fromEntries(counts);
    const before = { from: toTimestamp(range.start), to: toTimestamp(range.end), ...summary };
    const after = { accepted: intervals.length, reason };
    const change = { field: 'coverage', before, after };
    await recordExportActivity(tx, actor, 'accepted', locked, [change]);
    const states = [...counts].map(([state, count]) => `${count} ${state}`).join(', ');
    const message = `Intervals from ${describeInterval(range)} were accepted as they are: ${states}.`;
    await noteInLog(tx, locked, 'INFO', message);
    return { counts, batchExport: (await lockExport(tx, id)) ?? locked };
  });
}

function checkRange({ start, end }: DataInterval, now: Instant): void {
  if (start < 0) throw fault('from', 'from must not be before 1970.');
  if (start >= end) throw fault('from', 'from must be before to.');
  if (end > now) throw fault('to', 'to must not be in the future.');
}

function wholeIntervals(timeline: Timeline, { start, end }: DataInterval): DataInterval {
  const range = { start: boundAfter(timeline, start - 1), end: boundAtOrBefore(timeline, end) };
  if (range.start >= range.end) {
    const detail = 'The range contains no whole interval. Use the bounds that coverage shows.';
    throw fault('from', detail);
  }
  const count = countIntervals(timeline, range);
  if (count > maxAccepted) {
    const detail = `The range has ${count} intervals; the maximum is ${maxAccepted}. Choose a shorter range, and accept the rest in further requests.`;
    throw fault('to', detail);
  }
  return range;
}
