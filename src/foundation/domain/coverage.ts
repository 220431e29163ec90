import type { ErrorCode } from './errors.ts';
import type { DataInterval, Timestamp } from './time.ts';

/** The state of a data interval. Every interval has exactly one of these states. */
export const coverageStates = [
  /** Exported, and no transaction can add rows. */
  'done',
  /** Exported, but rows may have come late, and Sluice cannot add them without a person, or cannot look for them. */
  'late_rows',
  /** Not exported, or unsettled; an operator accepted it as it is. */
  'accepted',
  /** Never made, of an export that has no past: a later interval took its place. */
  'superseded',
  /** Exported, but an open transaction may still add rows. */
  'unsettled',
  /** Its first attempt runs or waits, or a running backfill will reach it. */
  'running',
  /** A run is live, and an attempt of it has failed. */
  'retrying',
  /** All attempts of its last run failed, and Sluice exports it by itself once the cause is over. */
  'healing',
  'failed',
  'cancelled',
  /** It was due, and its run was deleted. */
  'missing',
  'paused',
  /** Neither the schedule nor a backfill asked for it. */
  'never_asked',
] as const;

export type CoverageState = (typeof coverageStates)[number];

export interface CoverageRange extends DataInterval {
  readonly state: CoverageState;
}

export interface LateRowsWait extends DataInterval {
  readonly why: string;
}

export interface Healing {
  /** Counted up to `maxMissingCounted`. */
  readonly intervals: number;
  /** When the run of the oldest of these intervals ended without success. */
  readonly since: Timestamp;
  readonly until: Timestamp;
  /** Why; null: nothing is known to hold it up any more. */
  readonly code: ErrorCode | null;
  /** When the cause is probed next; null: what heals runs as soon as there is room. */
  readonly nextProbeAt: Timestamp | null;
}

/** Intervals that were asked for, have no data, and that no work in progress will fill. */
export interface MissingIntervals {
  readonly count: number;
  /** Start of the oldest one; null if there is none. */
  readonly since: number | null;
}

export const maxMissingCounted = 1_000;
