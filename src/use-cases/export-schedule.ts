import type { BatchExport } from '../domain/batch-export.ts';
import { ceilInstant, floorInstant, type Timestamp, toTimestamp } from '../domain/time.ts';
import { nextRunAt } from '../scheduling/plan.ts';
import type { Schedule, Window } from '../scheduling/schedule.ts';
import type { StoredSchedule } from '../store/batch-exports.ts';

type History = Pick<Schedule, 'cadences' | 'gates'>;

/** The schedule of a stored export. */
export function scheduleOf(batchExport: BatchExport): Schedule {
  const openIntervalStart = floorInstant(batchExport.openIntervalStart);
  const history = (batchExport.scheduleHistory as History | null) ?? {
    cadences: [{ since: null, cadence: batchExport.cadence }],
    gates: [
      {
        since: openIntervalStart,
        paused: batchExport.paused,
        ...windowOf(batchExport.startAt, batchExport.endAt),
      },
    ],
  };
  return { ...history, openIntervalStart, nextTickAt: floorInstant(batchExport.nextTickAt) };
}

/** The form in which a schedule is stored. */
export function storedSchedule(schedule: Schedule): StoredSchedule {
  const { cadences, gates, nextTickAt, openIntervalStart } = schedule;
  return {
    history: { cadences, gates } satisfies History,
    nextTickAt: toTimestamp(nextTickAt),
    openIntervalStart: toTimestamp(openIntervalStart),
  };
}

/** Ticks are whole milliseconds: a bound between two moves inwards, so that none beyond it runs. */
export function windowOf(startAt: Timestamp | null, endAt: Timestamp | null): Window {
  return {
    startAt: startAt === null ? null : ceilInstant(startAt),
    endAt: endAt === null ? null : floorInstant(endAt),
  };
}

/** The next tick that will run as things stand; null where none will. */
export function nextRunOf(batchExport: BatchExport): Timestamp | null {
  const tickAt = nextRunAt(scheduleOf(batchExport));
  return tickAt === null ? null : toTimestamp(tickAt);
}
