/** Ranges of the past, cut into the intervals that the schedule had (contract, section 4). */

import type { DataInterval, Instant } from '../../foundation/domain/time.ts';
import {
  boundAfter,
  boundAtOrBefore,
  boundBefore,
  countBounds,
  type Timeline,
} from './timeline.ts';

export type BackfillOrder = 'oldest_first' | 'newest_first';

export interface IntervalPage {
  readonly order: BackfillOrder;
  /** Start of the last interval of the page before; absent for the first page. */
  readonly after?: Instant | undefined;
  readonly limit: number;
}

/** `range` widened to ticks, up to the last interval that is complete at `now`. Null: there is none. */
export function widenRange(
  timeline: Timeline,
  range: DataInterval,
  now: Instant,
): DataInterval | null {
  const start = boundAtOrBefore(timeline, range.start);
  const end = Math.min(boundAfter(timeline, range.end - 1), boundAtOrBefore(timeline, now));
  return start < end ? { start, end } : null;
}

/** The intervals that are completely in `range`, one at a time. */
export function* intervalsIn(
  timeline: Timeline,
  range: DataInterval,
  order: BackfillOrder,
): Generator<DataInterval, void, undefined> {
  if (order === 'oldest_first') {
    let start = boundAfter(timeline, range.start - 1);
    for (let end = boundAfter(timeline, start); end <= range.end; end = boundAfter(timeline, end)) {
      yield { start, end };
      start = end;
    }
    return;
  }
  let end = boundAtOrBefore(timeline, range.end);
  for (
    let start = boundBefore(timeline, end);
    start >= range.start;
    start = boundBefore(timeline, start)
  ) {
    yield { start, end };
    end = start;
  }
}

/** One page of `intervalsIn`. A page that is not full is the last one. */
export function pageOfIntervals(
  timeline: Timeline,
  range: DataInterval,
  page: IntervalPage,
): readonly DataInterval[] {
  const { order, after, limit } = page;
  const rest = after === undefined ? range : remainder(timeline, range, order, after);
  const intervals: DataInterval[] = [];
  if (limit <= 0) return intervals;
  for (const interval of intervalsIn(timeline, rest, order)) {
    intervals.push(interval);
    if (intervals.length >= limit) break;
  }
  return intervals;
}

/** The number of intervals that `intervalsIn` yields, without making them. */
export function countIntervals(timeline: Timeline, range: DataInterval): number {
  return Math.max(countBounds(timeline, range.start - 1, range.end) - 1, 0);
}

/** The part of `range` after the interval that starts at `after`, in this order. */
export function remainder(
  timeline: Timeline,
  range: DataInterval,
  order: BackfillOrder,
  after: Instant,
): DataInterval {
  return order === 'oldest_first'
    ? { start: Math.max(range.start, boundAfter(timeline, after)), end: range.end }
    : { start: range.start, end: Math.min(range.end, after) };
}
