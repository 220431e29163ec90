import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';

/** Every metric of Sluice. Each process has its own; a worker counts only its own work. */
export type Metrics = ReturnType<typeof createMetrics>;

export function createMetrics() {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const registers = [registry];
  return {
    registry,
    attempts: new Counter({
      name: 'sluice_attempts_total',
      help: 'Attempts of runs, by result.',
      labelNames: ['end'],
      registers,
    }),
    attemptSeconds: new Histogram({
      name: 'sluice_attempt_seconds',
      help: 'How long attempts took.',
      labelNames: ['end'],
      buckets: [0.1, 0.5, 1, 5, 15, 60, 300, 1_800, 7_200],
      registers,
    }),
    rows: new Counter({ name: 'sluice_rows_total', help: 'Rows committed.', registers }),
    bytes: new Counter({ name: 'sluice_bytes_total', help: 'Bytes committed.', registers }),
    runsMade: new Counter({
      name: 'sluice_runs_made_total',
      help: 'Runs created, by tick or backfill.',
      labelNames: ['by'],
      registers,
    }),
    jobsFailed: new Counter({
      name: 'sluice_jobs_failed_total',
      help: 'Queue jobs that failed.',
      labelNames: ['job'],
      registers,
    }),
    faults: new Counter({
      name: 'sluice_faults_total',
      help: 'Attempts that failed, by error code.',
      labelNames: ['code'],
      registers,
    }),
    /** Filled by the worker when scraped. */
    reservedMemory: new Gauge({
      name: 'sluice_reserved_memory_bytes',
      help: 'Memory reserved for the runs of this worker; at most WORKER_MEMORY_MB.',
      registers,
    }),
    /** Of the database that each model is read from, at the last check. */
    source: {
      clockOffsetSeconds: new Gauge({
        name: 'sluice_source_clock_offset_seconds',
        help: "Seconds that the source's clock is ahead of ours; negative if behind.",
        labelNames: ['model'],
        registers,
      }),
      replayLagSeconds: new Gauge({
        name: 'sluice_source_replay_lag_seconds',
        help: 'Seconds that a standby source is behind its primary.',
        labelNames: ['model'],
        registers,
      }),
    },
    /** The state of the whole service, the same in every process: set from Postgres at each scrape. */
    service: {
      tickLagSeconds: new Gauge({
        name: 'sluice_tick_lag_seconds',
        help: 'Seconds that the oldest due tick has waited to be decided.',
        registers,
      }),
      waitingRuns: new Gauge({
        name: 'sluice_waiting_runs',
        help: 'Runs that wait for a slot and may start now.',
        labelNames: ['kind'],
        registers,
      }),
      runningRuns: new Gauge({
        name: 'sluice_running_runs',
        help: 'Runs held by a worker.',
        registers,
      }),
      workerCapacity: new Gauge({
        name: 'sluice_worker_capacity',
        help: 'Slots of all workers.',
        registers,
      }),
      unsettledIntervals: new Gauge({
        name: 'sluice_unsettled_intervals',
        help: 'Exported intervals that may still get rows (unsettled).',
        registers,
      }),
      oldestUnsettledSeconds: new Gauge({
        name: 'sluice_oldest_unsettled_seconds',
        help: 'Seconds since the end of the oldest unsettled interval.',
        registers,
      }),
    },
  };
}
