import type { RetryPolicy } from './retry-policy.ts';

/** The hours in which completed intervals are re-checked for late rows, if their export does not say it; 0: unsettled ones only. */
export interface LookBackHours {
  /** Of models that do not say it. */
  readonly lateLookbackHours: number;
  readonly modelLookbackHours: Readonly<Record<string, number>>;
}

/** The settings of this installation that use cases need, in the domain's words. */
export interface Policy extends LookBackHours {
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
  readonly logRetentionDays: number;
  readonly retentionDays: number;
}
