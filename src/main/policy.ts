import type { Config } from '../foundation/config/config.ts';
import type { LookBackHours, Policy } from '../foundation/domain/policy.ts';
import type { SourcedModel } from '../foundation/config/models-file.ts';
import { defaultRetryPolicy } from '../foundation/domain/retry-policy.ts';

/** The hours in which late rows are looked for in exports that do not say it themselves. */
export function lookBackHoursOf(config: Config, models: readonly SourcedModel[]): LookBackHours {
  const named = models.flatMap(({ model: { name, lookBackHours } }) =>
    typeof lookBackHours === 'number' ? [[name, lookBackHours] as const] : [],
  );
  return {
    lateLookbackHours: config.LATE_LOOKBACK_HOURS,
    modelLookbackHours: Object.fromEntries(named),
  };
}

export function policyOf(config: Config, models: readonly SourcedModel[] = []): Policy {
  return {
    minIntervalMinutes: config.MIN_INTERVAL_MINUTES,
    maxJitterSeconds: config.MAX_JITTER_SECONDS,
    leaseMs: config.LEASE_SECONDS * 1_000,
    retry: {
      ...defaultRetryPolicy,
      maxAttempts: config.RETRY_MAX_ATTEMPTS,
      baseMs: config.RETRY_BASE_SECONDS * 1_000,
    },
    secondOpinionMs: Math.min(10, config.RETRY_BASE_SECONDS) * 1_000,
    maxRunsPerExport: config.BACKFILL_CONCURRENCY + 1,
    maxRunsPerTenant: config.MAX_RUNS_PER_TENANT,
    maxExportsPerProject: 1_000,
    maxStoredBytesPerDay: config.MAX_STORED_MIB_PER_DAY * 2 ** 20,
    backfillConcurrency: config.BACKFILL_CONCURRENCY,
    maxSharedCrashes: 2,
    maxDeathsAlone: 2,
    warnAfterFailures: 5,
    pauseAfterFailures: 10,
    ...lookBackHoursOf(config, models),
    logRetentionDays: config.LOG_RETENTION_DAYS,
    retentionDays: config.RETENTION_DAYS,
  };
}
