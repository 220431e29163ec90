import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';

/** Every metric of Sluice. Each process has its own; a worker counts only its own work. */
export type Metrics = ReturnType<typeof createMetrics>;

// biome-ignore lint/complexity/noExcessiveLinesPerFunction: a list of metrics
export function createMetrics() {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const registers = [registry];
  const counter = <Label extends string = never>(
    name: string,
    help: string,
    ...labelNames: Label[]
  ) => new Counter<Label>({ name, help, labelNames, registers });
  const gauge = <Label extends string = never>(
    name: string,
    help: string,
    ...labelNames: Label[]
  ) => new Gauge<Label>({ name, help, labelNames, registers });
  return {
    registry,
    attempts: counter('sluice_attempts_total', 'Attempts of runs, by result.', 'end'),
    attemptSeconds: new Histogram({
      name: 'sluice_attempt_seconds',
      help: 'How long attempts took.',
      labelNames: ['end'],
      buckets: [0.1, 0.5, 1, 5, 15, 60, 300, 1_800, 7_200],
      registers,
    }),
    rows: counter('sluice_rows_total', 'Rows committed.'),
    rowsRejected: counter(
      'sluice_rows_rejected_total',
      'Rows of committed runs that were rejected, and so are not in the data files.',
    ),
    bytes: counter('sluice_bytes_total', 'Bytes committed.'),
    runsMade: counter(
      'sluice_runs_made_total',
      'Runs created, by tick, backfill or healing.',
      'by',
    ),
    jobsFailed: counter('sluice_jobs_failed_total', 'Queue jobs that failed.', 'handler'),
    faults: counter(
      'sluice_faults_total',
      'Attempts that failed, by error code and whose fault it is: internal (ours), source, destination or customer.',
      'code',
      'fault',
    ),
    dependencyUp: gauge(
      'sluice_dependency_up',
      'Whether this process reaches a service that it needs: postgres, and redis if REDIS_URL is set.',
      'dependency',
    ),
    notifications: counter(
      'sluice_notifications_total',
      'Attempts to deliver a notification, by kind of target and result.',
      'kind',
      'result',
    ),
    reservedMemory: gauge(
      'sluice_reserved_memory_bytes',
      'Memory reserved for the runs of this worker; at most WORKER_MEMORY_MB.',
    ),
    /** The database that each model is read from, at the last check. */
    source: {
      clockOffsetSeconds: gauge(
        'sluice_source_clock_offset_seconds',
        "Seconds that the source's clock is ahead of ours; negative if behind.",
        'model',
      ),
      oldestSnapshotSeconds: gauge(
        'sluice_source_oldest_snapshot_seconds',
        'Seconds that the oldest run has read from its snapshot; VACUUM removes no newer rows meanwhile. 0 if no run reads.',
        'model',
      ),
      replayLagSeconds: gauge(
        'sluice_source_replay_lag_seconds',
        'Seconds that a standby source is behind its primary.',
        'model',
      ),
      settleLooks: counter(
        'sluice_source_settle_looks_total',
        "Looks at a source's open transactions, shared by all intervals that wait. `model`: the first of the database.",
        'model',
      ),
    },
    /** The state of the whole service, the same in every process: set from Postgres at each scrape. */
    service: {
      tickLagSeconds: gauge(
        'sluice_tick_lag_seconds',
        'Seconds that the oldest due tick has waited to be decided.',
      ),
      waitingRuns: gauge(
        'sluice_waiting_runs',
        'Runs that wait for a slot and may start now.',
        'kind',
      ),
      runningRuns: gauge('sluice_running_runs', 'Runs held by a worker.'),
      longestRunSeconds: gauge(
        'sluice_longest_run_seconds',
        'Seconds that the longest running run has been in its step: prepare, settle, first_row (the source has sent no row), read, write or commit.',
        'step',
      ),
      workerCapacity: gauge('sluice_worker_capacity', 'Slots of all workers.'),
      unsettledIntervals: gauge(
        'sluice_unsettled_intervals',
        'Exported intervals that may still get rows (unsettled).',
      ),
      failingExports: gauge(
        'sluice_failing_exports',
        'Exports whose newest outcome is a run that ended without success, by whose fault it is. Those that a person or an operator paused do not count.',
        'fault',
      ),
      exhaustedExports: gauge(
        'sluice_retries_exhausted_exports',
        'Failing exports with a run that used up its attempts, by whose fault it is.',
        'fault',
      ),
      lateExports: gauge(
        'sluice_late_exports',
        'Exports that have missed a deadline, or without one have data more than two intervals old, by whose fault their newest failure is; internal if they do not fail.',
        'fault',
      ),
      missingIntervals: gauge(
        'sluice_missing_intervals',
        'Intervals without data whose runs have ended without success, by whose fault the newest failure of the interval is; unknown if that is no longer known.',
        'fault',
      ),
      pausedExports: gauge(
        'sluice_paused_exports',
        'Paused exports; by: person, operator (their tenant is disabled), or sluice after failures, with whose fault these are; unknown if that is no longer known.',
        'by',
        'fault',
      ),
      worstLagSeconds: gauge(
        'sluice_worst_lag_seconds',
        'Age of the oldest data of all exports that are not paused: seconds since the high-water mark.',
      ),
      longestLateSeconds: gauge(
        'sluice_longest_late_seconds',
        'Seconds since the export that is late for longest became late.',
      ),
      waitingNotifications: gauge(
        'sluice_waiting_notifications',
        'Notifications that wait to be delivered, for a retry too.',
      ),
      oldestDueNotificationSeconds: gauge(
        'sluice_oldest_due_notification_seconds',
        'Seconds that a notification has been due without an attempt.',
      ),
      failingTargets: gauge(
        'sluice_failing_notification_targets',
        'Enabled notification targets whose newest attempt failed.',
      ),
      overdueIntervals: gauge(
        'sluice_overdue_intervals',
        'Intervals that have missed their deadline and have not arrived, by whose turn it is: ours, source or customer.',
        'turn',
      ),
      atRiskIntervals: gauge(
        'sluice_at_risk_intervals',
        'Intervals that are not delivered, and due within warn_minutes.',
      ),
      healingIntervals: gauge(
        'sluice_healing_intervals',
        'Intervals without data that Sluice tries again by itself.',
      ),
      verifyFailedExports: gauge(
        'sluice_verify_failed_exports',
        'Exports whose newest verification by VERIFY_SCHEDULE has not proven their files.',
      ),
      verifyAgeSeconds: gauge(
        'sluice_verify_age_seconds',
        'Seconds since each export was verified by VERIFY_SCHEDULE. Only if it is set.',
      ),
      workSetAside: gauge(
        'sluice_work_set_aside',
        'Pieces of work besides runs that no worker does any more, because three processes died during them.',
      ),
      oldestUnsettledSeconds: gauge(
        'sluice_oldest_unsettled_seconds',
        'Seconds since the end of the oldest unsettled interval.',
      ),
    },
  };
}
