/** The bounds of all intervals. What was decided keeps its bounds; only the time between is computed, cut to fit. */

import type { CadenceHistory, Schedule } from '../../foundation/domain/schedule.ts';
import type { DataInterval, Instant } from '../../foundation/domain/time.ts';
import { countTicks, isLocal, tickAfter, tickAtOrBefore } from './boundary.ts';

export interface Timeline {
  readonly cadences: CadenceHistory;
  /** Intervals whose bounds are not those that the cadences would give them today; in order, without overlap. */
  readonly decided: readonly DataInterval[];
}

/**
 * @param facts intervals that were decided, the strongest first: one that overlaps a stronger one is left out.
 *   The open interval of the schedule need not be among them.
 */
export function timelineOf(
  { cadences, openIntervalStart, nextTickAt }: Schedule,
  facts: readonly DataInterval[],
): Timeline {
  const keptIntervals: DataInterval[] = [];
  for (const fact of [{ start: openIntervalStart, end: nextTickAt }, ...facts]) {
    const place = indexAt(keptIntervals, fact.start) + 1;
    const isFree = (keptIntervals[place - 1]?.end ?? Number.NEGATIVE_INFINITY) <= fact.start;
    const endsBefore = fact.end <= (keptIntervals[place]?.start ?? Number.POSITIVE_INFINITY);
    if (isFree && endsBefore) keptIntervals.splice(place, 0, fact);
  }
  const isComputed = ({ start, end }: DataInterval) =>
    tickAtOrBefore(cadences, start) === start && tickAfter(cadences, start) === end;
  return { cadences, decided: keptIntervals.filter((fact) => !isComputed(fact)) };
}

/** Returns the same timeline with bounds at both ends of a range that was decided as a whole. */
export function withRange(timeline: Timeline, { start, end }: DataInterval): Timeline {
  const within = timeline.decided.filter((one) => start <= one.start && one.end <= end);
  const before = { start: start - 1, end: start };
  const after = { start: end, end: end + 1 };
  return { ...timeline, decided: [before, ...within, after] };
}

/** Longer than any interval: a week, and a change of clock. */
const marginMs = 9 * 86_400_000;

/** Stretches whose decided intervals the timeline of `range` depends on: only local days and weeks need the zone data. */
export function spansToDecide(cadences: CadenceHistory, range: DataInterval): DataInterval[] {
  return cadences.flatMap(({ since, cadence }, index) => {
    const start = Math.max(since ?? Number.NEGATIVE_INFINITY, range.start - marginMs);
    const until = cadences[index + 1]?.since ?? Number.POSITIVE_INFINITY;
    const end = Math.min(until, range.end + marginMs);
    return isLocal(cadence) && start < end ? [{ start, end }] : [];
  });
}

/** The first bound strictly after `instant`. */
export function boundAfter({ cadences, decided }: Timeline, instant: Instant): Instant {
  const index = indexAt(decided, instant);
  const current = decided[index];
  if (current && instant < current.end) return current.end;
  return Math.min(tickAfter(cadences, instant), decided[index + 1]?.start ?? Infinity);
}

/** The latest bound at or before `instant`. */
export function boundAtOrBefore({ cadences, decided }: Timeline, instant: Instant): Instant {
  const current = decided[indexAt(decided, instant)];
  if (current && instant < current.end) return current.start;
  return Math.max(tickAtOrBefore(cadences, instant), current?.end ?? -Infinity);
}

/** The latest bound strictly before `instant`. */
export function boundBefore(timeline: Timeline, instant: Instant): Instant {
  return boundAtOrBefore(timeline, instant - 1);
}

/** The number of bounds in (after, upTo]. */
export function countBounds(
  { cadences, decided }: Timeline,
  after: Instant,
  upTo: Instant,
): number {
  let count = 0;
  let from = after;
  for (const { start, end } of decided) {
    if (end <= after || start > upTo) continue;
    // Its start is a bound unless it was counted as the end of the interval before.
    if (start > from) count += countTicks(cadences, from, start - 1) + 1;
    if (end <= upTo) count += 1;
    from = Math.max(from, Math.min(end, upTo));
  }
  return count + countTicks(cadences, from, upTo);
}

/** The index of the last interval that starts at or before `instant`; -1 if there is none. */
function indexAt(intervals: readonly DataInterval[], instant: Instant): number {
  let low = 0;
  let high = intervals.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((intervals[middle]?.start ?? Infinity) <= instant) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
