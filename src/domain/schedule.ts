import type { Cadence } from './cadence.ts';
import type { Instant } from './time.ts';

/** A cadence and the tick it begins at; null is the first one, which has no beginning. */
export interface CadenceEra {
  readonly since: Instant | null;
  readonly cadence: Cadence;
}

/** The cadences of one export over all time, oldest first, `since` rising. Plain JSON. */
export type CadenceHistory = readonly [CadenceEra, ...CadenceEra[]];

/** Whether ticks run: in force for ticks strictly after `since`. */
export interface Gate {
  readonly since: Instant;
  /** When the pause in force began; null is not paused. Two pauses without a tick between differ. */
  readonly pausedSince: Instant | null;
  /** Ticks before this do not run; null is no bound. Microseconds round up (`ceilInstant`). */
  readonly startAt: Instant | null;
  /** Ticks after this do not run; null is no bound. Microseconds are cut (`floorInstant`). */
  readonly endAt: Instant | null;
}

/** The planner's state of one export. Plain JSON, kept whole, with `nextTickAt` as a column to index. */
export interface Schedule {
  /** Kept for good: backfills cut the past by it. Grows by at most one per interval. */
  readonly cadences: CadenceHistory;
  /** Oldest first, `since` rising. Planning drops those that nothing needs any more. */
  readonly gates: readonly [Gate, ...Gate[]];
  /** Start of the interval that `nextTickAt` closes. */
  readonly openIntervalStart: Instant;
  /** The first tick that is not decided yet; it may lie in the past. */
  readonly nextTickAt: Instant;
}
