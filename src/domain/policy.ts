import type { RetryPolicy } from './retry-policy.ts';

/** What the operator of this installation has decided, in the domain's words. */
export interface Policy {
  readonly minIntervalMinutes: number;
  readonly maxJitterSeconds: number;
  readonly leaseMs: number;
  readonly retry: RetryPolicy;
  /** A destination that worked before must say twice, so far apart, that it is of no use. */
  readonly secondOpinionMs: number;
  readonly maxRunsPerExport: number;
  readonly maxRunsPerTenant: number;
  readonly backfillConcurrency: number;
  /** Workers that may die while they read a run's rows before it gets a process of its own. */
  readonly maxSharedCrashes: number;
  /** Processes of its own that may be killed from outside before the run is set aside as Failed. */
  readonly maxDeathsAlone: number;
  /** Consecutive Failed runs after which a warning is logged, and after which the export is paused. */
  readonly warnAfterFailures: number;
  readonly pauseAfterFailures: number;
  /** How far back completed intervals are looked at for rows that came late; 0: unsettled ones only. */
  readonly lateLookbackHours: number;
  readonly logRetentionDays: number;
  readonly retentionDays: number;
}
