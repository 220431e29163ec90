import { DateTime } from 'luxon';
import type { Schedule } from '../../foundation/domain/schedule.ts';
import type { DataInterval, Instant } from '../../foundation/domain/time.ts';
import { eraAt, tickAfter, tickAtOrBefore } from './boundary.ts';
import { fateOf, type PlannedFate } from './plan.ts';

export interface PreviewedInterval {
  readonly interval: DataInterval;
  /** ISO 8601 with the zone's offset: `2024-03-10T00:00:00-05:00`. */
  readonly localStart: string;
  readonly localEnd: string;
  readonly timezone: string;
  /** The real length: 23 or 25 for a day on which the clock changes. */
  readonly hours: number;
  /** Its fate with the export's current settings. */
  readonly fate: PlannedFate;
}

/** The interval open at `now` and those after it, `count` in total. */
export function previewIntervals(
  schedule: Schedule,
  now: Instant,
  count: number,
): readonly PreviewedInterval[] {
  const { cadences } = schedule;
  const overdue = schedule.nextTickAt <= now;
  let start = overdue ? tickAtOrBefore(cadences, now) : schedule.openIntervalStart;
  let end = overdue ? tickAfter(cadences, now) : schedule.nextTickAt;
  const previewed: PreviewedInterval[] = [];
  while (previewed.length < count) {
    const { timezone } = eraAt(cadences, start).cadence;
    previewed.push({
      interval: { start, end },
      localStart: toLocal(start, timezone),
      localEnd: toLocal(end, timezone),
      timezone,
      hours: (end - start) / 3_600_000,
      fate: fateOf(schedule, end),
    });
    start = end;
    end = tickAfter(cadences, end);
  }
  return previewed;
}

function toLocal(instant: Instant, timezone: string): string {
  const local = DateTime.fromMillis(instant, { zone: timezone });
  const text = local.toISO({ suppressMilliseconds: true });
  if (text === null) throw new RangeError(`cannot show ${instant} in ${timezone}`);
  return text;
}
