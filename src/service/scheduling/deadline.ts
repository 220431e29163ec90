/** By when an interval is due at the destination, and what became of that. */

import type { CadenceHistory } from '../../foundation/domain/schedule.ts';
import type { DataInterval, Instant } from '../../foundation/domain/time.ts';
import { eraAt } from './boundary.ts';
import { firstInstantAt, offsetAt } from './zone-offset.ts';

const minuteMs = 60_000;
const dayMs = 86_400_000;

/** Minutes after the end of the interval, or a local time of day, `HH:MM`: the first one after the end. */
export type Deadline =
  | { readonly minutes: number; readonly at: null }
  | { readonly minutes: null; readonly at: string };

/** A zone can leave out a date, and the end itself does not count. */
const mostDays = 3;

/** When an interval is due. A local time in a gap is due at the first instant after it; in a fold the first time. */
export function dueBy(
  interval: DataInterval,
  cadences: CadenceHistory,
  deadline: Deadline,
): Instant {
  if (deadline.at === null) return interval.end + deadline.minutes * minuteMs;
  const { timezone } = eraAt(cadences, interval.start).cadence;
  const [hours = 0, minutes = 0] = deadline.at.split(':').map(Number);
  const local = interval.end + offsetAt(timezone, interval.end);
  const midnight = Math.floor(local / dayMs) * dayMs;
  const timeOfDay = (hours * 60 + minutes) * minuteMs;
  for (let day = 0; day < mostDays; day += 1) {
    const due = firstInstantAt(timezone, midnight + day * dayMs + timeOfDay);
    if (due > interval.end) return due;
  }
  throw new RangeError(`no ${deadline.at} after ${interval.end} in ${timezone}`);
}

/** `pending`: the deadline is in the future. `at_risk`: it is too, and its warning time has begun. */
type DeadlineState = 'met' | 'missed' | 'at_risk' | 'pending';

/** @param warnMs how long before its deadline an interval counts as at risk */
export function outcomeOf(
  due: Instant,
  deliveredAt: Instant | null,
  now: Instant,
  warnMs: number,
): DeadlineState {
  if (deliveredAt !== null) return deliveredAt <= due ? 'met' : 'missed';
  if (now > due) return 'missed';
  return warnMs > 0 && now >= due - warnMs ? 'at_risk' : 'pending';
}
