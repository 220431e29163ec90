import type { BatchExport } from '../../domain/batch-export.ts';
import { ceilInstant, floorInstant, type Timestamp, toTimestamp } from '../../domain/time.ts';
import { nextRunAt } from '../../scheduling/plan.ts';
import type { Window } from '../../scheduling/schedule.ts';

/** Ticks are whole milliseconds: a bound between two moves inwards, so that none beyond it runs. */
export function windowOf(startAt: Timestamp | null, endAt: Timestamp | null): Window {
  return {
    startAt: startAt === null ? null : ceilInstant(startAt),
    endAt: endAt === null ? null : floorInstant(endAt),
  };
}

/** The next tick that will run as things stand; null where none will. */
export function nextRunOf(batchExport: BatchExport): Timestamp | null {
  const tickAt = nextRunAt(batchExport.schedule);
  return tickAt === null ? null : toTimestamp(tickAt);
}
