import type { BatchExport } from '../../../foundation/domain/batch-export.ts';
import type { CoverageRange, LateRowsWait } from '../../../foundation/domain/coverage.ts';
import { Refusal } from '../../../foundation/domain/problem.ts';
import type { DataInterval, Instant } from '../../../foundation/domain/time.ts';
import {
  countIntervals,
  pageOfIntervals,
  remainder,
  widenRange,
} from '../../scheduling/backfill-range.ts';
import { joinCoverage } from '../../scheduling/coverage.ts';
import { boundAfter, boundAtOrBefore, type Timeline } from '../../scheduling/timeline.ts';
import {
  findCoverage,
  findFirstTick,
  findOldestInterval,
  findTicksWithoutRun,
  listBackfillsUnderWay,
  listLateRowsWaits,
} from '../../../state/store/intervals/coverage.ts';
import { type DeliveredElement, listDelivered } from '../../../state/store/intervals/elements.ts';
import type { Sql } from '../../../state/store/database/database.ts';
import { countHealing } from '../../../state/store/healing/healing.ts';
import { readNow } from '../../../state/store/intervals/ticks.ts';
import type { Context } from '../context.ts';
import { readTimeline } from './timeline.ts';

export interface CoverageRequest {
  /** Null: the oldest interval that was ever asked for, or as far back as the maximum allows. */
  readonly from: Instant | null;
  /** Null: now. */
  readonly to: Instant | null;
}

/** Maximum intervals of a request: each is an entry of an index to read. */
const maxIntervals = 20_000;

export interface CountedRange extends CoverageRange {
  readonly intervals: number;
}

/** The intervals that hold the high-water mark. */
export interface Blocker extends CountedRange {
  /** The number of its intervals that Sluice exports by itself once their cause is over. */
  readonly healing: number;
}

export interface Coverage {
  /** Whole intervals, up to the last complete one; null if the range has none. */
  readonly range: DataInterval | null;
  /** In order; neighbours share their bound and differ in their state. */
  readonly ranges: readonly CountedRange[];
  /** The stretch that begins at the high-water mark and holds it; null if nothing complete does. */
  readonly blocker: Blocker | null;
  /** The first intervals of the range whose late rows wait for a person. */
  readonly lateRowsWaits: readonly LateRowsWait[];
  /** The newest deliveries of the range, newest first; null: mode append. */
  readonly elements: readonly DeliveredElement[] | null;
}

/** No row that a service exports is older. */
const firstStart: Instant = 0;

/** Maximum intervals whose reasons an answer has. */
const maxLateRowsWaits = 100;

/** Maximum deliveries of an answer. */
export const maxElements = 100;

/** Intervals after the high-water mark that are read if the range does not contain it. */
const blockerIntervals = 1_000;

/**
 * The state of every interval of an export, from the rows.
 *
 * @throws Refusal if the range is empty or has too many intervals
 */
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
  const counted = (part: CoverageRange): CountedRange => ({
    ...part,
    intervals: countIntervals(timeline, part),
  });
  const blocker = await findBlocker(db, batchExport, timeline, { mark, ranges, now });
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
export async function findMark(sql: Sql, batchExport: BatchExport): Promise<Instant | null> {
  return batchExport.highWaterMark ?? findFirstTick(sql, batchExport.id);
}

/** States that hold no high-water mark. */
const passed: ReadonlySet<CoverageRange['state']> = new Set(['done', 'accepted', 'superseded']);

/** Coverage that was read already. */
interface KnownCoverage {
  readonly mark: Instant | null;
  readonly ranges: readonly CoverageRange[];
  readonly now: Instant;
}

async function findBlocker(
  db: Sql,
  batchExport: BatchExport,
  timeline: Timeline,
  { mark, ranges, now }: KnownCoverage,
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

/** The states of the intervals of a range of whole intervals. */
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

/** @throws Refusal */
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

function fault(attr: string, detail: string): Refusal {
  return new Refusal({ code: 'invalid_input', detail, attr });
}
