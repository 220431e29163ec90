/** Ranges of the past, cut into the intervals that the schedule had (contract, section 4). */

import type { CadenceHistory } from '../domain/schedule.ts';
import type { DataInterval, Instant } from '../domain/time.ts';
import { countTicks, tickAfter, tickAtOrBefore, tickBefore } from './cadence-history.ts';

export type BackfillOrder = 'oldest_first' | 'newest_first';

export interface IntervalPage {
  readonly order: BackfillOrder;
  /** Start of the last interval of the page before; absent for the first page. */
  readonly after?: Instant | undefined;
  readonly limit: number;
}

/**
 * `range` widened to ticks; its end is never past the last interval that is complete at `now`. Null if no
 * complete interval is left.
 */
export function widenRange(
  cadences: CadenceHistory,
  range: DataInterval,
  now: Instant,
): DataInterval | null {
  const start = tickAtOrBefore(cadences, range.start);
  const end = Math.min(tickAfter(cadences, range.end - 1), tickAtOrBefore(cadences, now));
  return start < end ? { start, end } : null;
}

/** The intervals that are completely in `range`, one at a time. */
export function* intervalsIn(
  cadences: CadenceHistory,
  range: DataInterval,
  order: BackfillOrder,
): Generator<DataInterval, void, undefined> {
  if (order === 'oldest_first') {
    let start = tickAfter(cadences, range.start - 1);
    for (let end = tickAfter(cadences, start); end <= range.end; end = tickAfter(cadences, end)) {
      yield { start, end };
      start = end;
    }
    return;
  }
  let end = tickAtOrBefore(cadences, range.end);
  for (
    let start = tickBefore(cadences, end);
    start >= range.start;
    start = tickBefore(cadences, start)
  ) {
    yield { start, end };
    end = start;
  }
}

/** One page of `intervalsIn`. A page that is not full is the last one. */
export function pageOfIntervals(
  cadences: CadenceHistory,
  range: DataInterval,
  page: IntervalPage,
): readonly DataInterval[] {
  const { order, after, limit } = page;
  const left = after === undefined ? range : remainder(cadences, range, order, after);
  const intervals: DataInterval[] = [];
  if (limit <= 0) return intervals;
  for (const interval of intervalsIn(cadences, left, order)) {
    intervals.push(interval);
    if (intervals.length >= limit) break;
  }
  return intervals;
}

/** The number of intervals that `intervalsIn` yields, without making them. */
export function countIntervals(cadences: CadenceHistory, range: DataInterval): number {
  return Math.max(countTicks(cadences, range.start - 1, range.end) - 1, 0);
}

/** The part of `range` after the interval that starts at `after`, in this order. */
export function remainder(
  cadences: CadenceHistory,
  range: DataInterval,
  order: BackfillOrder,
  after: Instant,
): DataInterval {
  return order === 'oldest_first'
    ? { start: Math.max(range.start, tickAfter(cadences, after)), end: range.end }
    : { start: range.start, end: Math.min(range.end, after) };
}
