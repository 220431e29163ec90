import type { Cadence } from './cadence.ts';
import type { Instant } from './time.ts';

/** A cadence and the tick at which it begins; `since` is null for the first one. */
export interface CadenceEra {
  readonly since: Instant | null;
  readonly cadence: Cadence;
}

/** The cadences of one export over all time, oldest first, `since` rising. Plain JSON. */
export type CadenceHistory = readonly [CadenceEra, ...CadenceEra[]];

/** Says whether ticks run. Applies to ticks strictly after `since`. */
export interface Gate {
  readonly since: Instant;
  /** When the pause began; null if not paused. Two pauses without a tick between them differ. */
  readonly pausedSince: Instant | null;
  /** Ticks before this do not run; null: no bound. Microseconds round up (`ceilInstant`). */
  readonly startAt: Instant | null;
  /** Ticks after this do not run; null: no bound. Microseconds are cut (`floorInstant`). */
  readonly endAt: Instant | null;
}

/** The planner's state of one export: plain JSON. `nextTickAt` is also an indexed column. */
export interface Schedule {
  /** Never deleted: backfills compute past intervals from it. Grows by at most one per interval. */
  readonly cadences: CadenceHistory;
  /** Oldest first, `since` rising. The planner drops gates that no tick needs. */
  readonly gates: readonly [Gate, ...Gate[]];
  readonly openIntervalStart: Instant;
  /** The first tick that is not decided yet; it may be in the past. */
  readonly nextTickAt: Instant;
}
