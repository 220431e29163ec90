/**
 * The cadences of one export over all time. A change of interval, zone or offset begins at a boundary of
 * the previous cadence, so the ticks of the whole history cover time without gaps: an interval that ran
 * once always has the same bounds.
 */

import type { Cadence } from '../../foundation/domain/cadence.ts';
import type { CadenceEra, CadenceHistory } from '../../foundation/domain/schedule.ts';
import type { Instant } from '../../foundation/domain/time.ts';
import { boundaryAtOrBefore, countBoundaries, nextBoundary } from './boundary.ts';

/** The era of the interval that contains `instant`. */
export function eraAt(history: CadenceHistory, instant: Instant): CadenceEra {
  return history[eraIndexAt(history, instant)] ?? history[0];
}

/** The newest cadence: the current one, or the one that begins with the next tick. */
export function newestCadence(history: CadenceHistory): Cadence {
  return (history.at(-1) ?? history[0]).cadence;
}

/** The first tick strictly after `instant`. */
export function tickAfter(history: CadenceHistory, instant: Instant): Instant {
  const index = eraIndexAt(history, instant);
  const next = nextBoundary((history[index] ?? history[0]).cadence, instant);
  return Math.min(next, endOfEra(history, index));
}

/** The latest tick at or before `instant`. */
export function tickAtOrBefore(history: CadenceHistory, instant: Instant): Instant {
  const era = eraAt(history, instant);
  return Math.max(boundaryAtOrBefore(era.cadence, instant), startOfEra(era));
}

/** The number of ticks in (after, upTo], by arithmetic. */
export function countTicks(history: CadenceHistory, after: Instant, upTo: Instant): number {
  let count = 0;
  history.forEach((era, index) => {
    const end = endOfEra(history, index);
    const from = Math.max(after, startOfEra(era));
    // The tick that ends an era is counted separately: new zone data may have moved the boundary.
    if (end <= upTo && end > from) {
      count += countBoundaries(era.cadence, from, end - 1) + 1;
    } else {
      count += countBoundaries(era.cadence, from, Math.min(upTo, end));
    }
  });
  return count;
}

function eraIndexAt(history: CadenceHistory, instant: Instant): number {
  let index = history.length - 1;
  while (index > 0 && startOfEra(history[index]) > instant) index -= 1;
  return index;
}

function startOfEra(era: CadenceEra | undefined): Instant {
  return era?.since ?? Number.NEGATIVE_INFINITY;
}

function endOfEra(history: CadenceHistory, index: number): Instant {
  return history[index + 1]?.since ?? Number.POSITIVE_INFINITY;
}
