import type { BatchExport } from '../../../foundation/domain/batch-export.ts';
import { type Interval, intervals } from '../../../foundation/domain/cadence.ts';
import type { Problem } from '../../../foundation/domain/problem.ts';
import {
  ceilInstant,
  floorInstant,
  type Timestamp,
  toTimestampOrNull,
} from '../../../foundation/domain/time.ts';
import { nominalMs } from '../../scheduling/boundary.ts';
import { nextRunAt } from '../../scheduling/plan.ts';
import { type PreviewedInterval, previewIntervals } from '../../scheduling/preview.ts';
import type { Window } from '../../scheduling/schedule.ts';
import { readNow } from '../../../state/store/intervals/ticks.ts';
import type { Context } from '../context.ts';

/** Ticks are whole milliseconds: a bound with microseconds is rounded inwards. */
export function windowOf(startAt: Timestamp | null, endAt: Timestamp | null): Window {
  return {
    startAt: startAt === null ? null : ceilInstant(startAt),
    endAt: endAt === null ? null : floorInstant(endAt),
  };
}

/** The intervals that an installation allows. */
export function allowedIntervals(minIntervalMinutes: number): readonly Interval[] {
  return intervals.filter((interval) => nominalMs(interval) >= minIntervalMinutes * 60_000);
}

/** The next tick that will run by the current schedule; null if there is none. */
export function nextRunOf(batchExport: BatchExport): Timestamp | null {
  return toTimestampOrNull(nextRunAt(batchExport.schedule));
}

/** Timestamps have one format, so they compare as text. */
export function checkWindow(startAt: Timestamp | null, endAt: Timestamp | null): Problem[] {
  if (startAt === null || endAt === null || endAt > startAt) return [];
  return [{ code: 'invalid_input', detail: 'end_at must be after start_at.', attr: 'end_at' }];
}

/** The current interval and those after it, by the current schedule. */
export async function previewSchedule(
  context: Context,
  batchExport: BatchExport,
  count: number,
): Promise<readonly PreviewedInterval[]> {
  return previewIntervals(batchExport.schedule, await readNow(context.db), count);
}
