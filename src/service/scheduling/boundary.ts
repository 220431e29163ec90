import type { Cadence, Interval } from '../../foundation/domain/cadence.ts';
import type { Instant } from '../../foundation/domain/time.ts';
import { firstInstantAt, offsetAt } from './zone-offset.ts';
import type { CadenceEra, CadenceHistory } from '../../foundation/domain/schedule.ts';

/**
 * The instants of ticks (contract, section 3). `hour` and `every N minutes`: multiples since the Unix
 * epoch. `day` and `week`: one label per local date, at the offset hour; the boundary is the first instant
 * whose wall clock shows the label or later. So a label in a gap moves to the first instant that exists,
 * one in a fold is the first of the two, and the labels of a date that a zone skipped share one boundary:
 * bounds are shared and no interval is empty.
 */

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;
const weekMs = 7 * dayMs;

/** 1970-01-01 was a Thursday; the first Sunday came three days later. */
const firstSundayMs = 3 * dayMs;

/** The length of an interval if no clock is changed, in milliseconds. */
export function nominalMs(interval: Interval): number {
  switch (interval) {
    case 'hour':
      return hourMs;
    case 'day':
      return dayMs;
    case 'week':
      return weekMs;
    default:
      return Number(interval.split(' ')[1]) * minuteMs;
  }
}

/** The latest boundary at or before `instant`. */
export function boundaryAtOrBefore(cadence: Cadence, instant: Instant): Instant {
  const step = nominalMs(cadence.interval);
  return isLocal(cadence)
    ? boundaryOfLabel(cadence, lastLabelAt(cadence, instant))
    : Math.floor(instant / step) * step;
}

/** The first boundary strictly after `instant`. */
export function nextBoundary(cadence: Cadence, instant: Instant): Instant {
  const step = nominalMs(cadence.interval);
  return isLocal(cadence)
    ? boundaryOfLabel(cadence, lastLabelAt(cadence, instant) + step)
    : Math.floor(instant / step) * step + step;
}

/** Counts the boundaries in (after, upTo]; 0 if the range is empty. */
export function countBoundaries(cadence: Cadence, after: Instant, upTo: Instant): number {
  if (upTo <= after) return 0;
  const step = nominalMs(cadence.interval);
  if (!isLocal(cadence)) return Math.floor(upTo / step) - Math.floor(after / step);
  let count = 0;
  for (let from = after; from < upTo; from += stretchMs) {
    const to = Math.min(from + stretchMs, upTo);
    const labels = (lastLabelAt(cadence, to) - lastLabelAt(cadence, from)) / step;
    count += skipsDates(cadence, from, to) ? walk(cadence, from, to) : labels;
  }
  return count;
}

/** Local boundaries are counted in stretches of about a year: a zone seldom skips a date. */
const stretchMs = 366 * dayMs;

/** Says whether labels may share one boundary: the zone crossed the date line. All other changes are far smaller. */
function skipsDates({ timezone }: Cadence, from: Instant, to: Instant): boolean {
  return Math.abs(offsetAt(timezone, to) - offsetAt(timezone, from)) > dayMs / 2;
}

function walk(cadence: Cadence, after: Instant, upTo: Instant): number {
  let count = 0;
  for (let at = nextBoundary(cadence, after); at <= upTo; at = nextBoundary(cadence, at)) {
    count += 1;
  }
  return count;
}

/** Says whether the ticks follow the local days of a zone. */
export function isLocal({ interval }: Pick<Cadence, 'interval'>): boolean {
  return interval === 'day' || interval === 'week';
}

/** A label is a local date and hour, written as milliseconds as if it were UTC. */
function boundaryOfLabel(cadence: Cadence, label: number): Instant {
  return firstInstantAt(cadence.timezone, label);
}

/** The latest label whose boundary is at or before `instant`. */
function lastLabelAt(cadence: Cadence, instant: Instant): number {
  const step = nominalMs(cadence.interval);
  const phase =
    (cadence.offsetHour ?? 0) * hourMs +
    (cadence.interval === 'week' ? firstSundayMs + (cadence.offsetDay ?? 0) * dayMs : 0);
  const local = instant + offsetAt(cadence.timezone, instant);
  let label = Math.floor((local - phase) / step) * step + phase;
  // In a fold the wall clock shows an earlier time than the label that already passed. A skipped date gives
  // the next label the same boundary.
  while (boundaryOfLabel(cadence, label + step) <= instant) label += step;
  return label;
}

/**
 * The cadences of one export over all time. A change of interval, zone or offset begins at a boundary of
 * the previous cadence, so the ticks of the whole history cover time without gaps: an interval that ran
 * once always has the same bounds.
 */

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
