/** Short ways to write the tables of these tests. */

import type { Cadence, Interval } from '../../../src/foundation/domain/cadence.ts';
import type { CadenceHistory, Schedule } from '../../../src/foundation/domain/schedule.ts';
import type { DataInterval, Instant } from '../../../src/foundation/domain/time.ts';
import { openSchedule, type Settings } from '../../../src/service/scheduling/schedule.ts';
import type { Timeline } from '../../../src/service/scheduling/timeline.ts';

/** `2024-03-10T05:00Z` to an instant; refuses what is not a time. */
export function at(text: string): Instant {
  const instant = Date.parse(text);
  if (Number.isNaN(instant)) throw new RangeError(text);
  return instant;
}

/** An instant as `2024-03-10T05:00:00Z`. */
export function show(instant: Instant): string {
  return new Date(instant).toISOString().replace('.000Z', 'Z');
}

export function showIntervals(intervals: readonly DataInterval[]): string[] {
  return intervals.map(({ start, end }) => `${show(start)}/${show(end)}`);
}

export function utc(interval: Interval): Cadence {
  const local = interval === 'day' || interval === 'week';
  return {
    interval,
    timezone: 'UTC',
    offsetDay: interval === 'week' ? 0 : null,
    offsetHour: local ? 0 : null,
  };
}

export function daily(timezone: string, offsetHour = 0): Cadence {
  return { interval: 'day', timezone, offsetDay: null, offsetHour };
}

export function weekly(timezone: string, offsetDay: number, offsetHour = 0): Cadence {
  return { interval: 'week', timezone, offsetDay, offsetHour };
}

/** An hourly export created at `createdAt`, changed by `settings`. */
export function scheduleFrom(createdAt: string, settings: Partial<Settings> = {}): Schedule {
  return openSchedule(
    { cadence: utc('hour'), paused: false, startAt: null, endAt: null, ...settings },
    at(createdAt),
  );
}

/** The bounds of a history without intervals that other zone data decided. */
export const on = (cadences: CadenceHistory): Timeline => ({ cadences, decided: [] });
