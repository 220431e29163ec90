import type { RetryPolicy } from './retry-policy.ts';

/** The settings of this installation that use cases need, in the domain's words. */
export interface Policy {
  readonly minIntervalMinutes: number;
  readonly maxJitterSeconds: number;
  readonly leaseMs: number;
  readonly retry: RetryPolicy;
  /** Wait before the second attempt that confirms a permanent error of a destination that worked. */
  readonly secondOpinionMs: number;
  readonly maxRunsPerExport: number;
  readonly maxRunsPerTenant: number;
  readonly maxExportsPerProject: number;
  readonly maxStoredBytesPerDay: number;
  readonly backfillConcurrency: number;
  /** Workers that may crash while they read a run's rows before it gets a process of its own. */
  readonly maxSharedCrashes: number;
  /** Processes of its own that may be killed from outside before the run ends as Failed. */
  readonly maxDeathsAlone: number;
  /** Consecutive Failed runs after which a warning is logged, and after which the export is paused. */
  readonly warnAfterFailures: number;
  readonly pauseAfterFailures: number;
  /** The age up to which to re-check completed intervals for late rows; 0: unsettled ones only. */
  readonly lateLookbackHours: number;
  readonly logRetentionDays: number;
  readonly retentionDays: number;
}
