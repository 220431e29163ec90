import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';

/** Every metric of Sluice. Each process has its own; a worker counts what it did itself. */
export interface Metrics {
  readonly registry: Registry;
  /** Attempts by how they ended. */
  readonly attempts: Counter<'end'>;
  readonly attemptSeconds: Histogram<'end'>;
  readonly rows: Counter;
  readonly bytes: Counter;
  readonly runsMade: Counter<'by'>;
  readonly jobsFailed: Counter<'job'>;
  readonly faults: Counter<'code'>;
  /** Filled by the worker when scraped. */
  readonly reservedMemory: Gauge;
  /** Of the database that each model is read from, as it was last looked at. */
  readonly source: SourceGauges;
  /** Set from Postgres when scraped. */
  readonly service: ServiceGauges;
}

export interface SourceGauges {
  readonly clockOffsetSeconds: Gauge<'model'>;
  readonly replayLagSeconds: Gauge<'model'>;
}

/** The state of the whole service; the same in every process. */
export interface ServiceGauges {
  readonly tickLagSeconds: Gauge;
  readonly waitingRuns: Gauge<'kind'>;
  readonly runningRuns: Gauge;
  readonly workerCapacity: Gauge;
  readonly unsettledIntervals: Gauge;
  readonly oldestUnsettledSeconds: Gauge;
}

export function createMetrics(): Metrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const registers = [registry];
  return {
    registry,
    attempts: new Counter({
      name: 'sluice_attempts_total',
      help: 'Attempts of runs by how they ended.',
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
      help: 'Runs made, by tick or backfill.',
      labelNames: ['by'],
      registers,
    }),
    jobsFailed: new Counter({
      name: 'sluice_jobs_failed_total',
      help: 'Queue jobs whose handler threw.',
      labelNames: ['job'],
      registers,
    }),
    faults: new Counter({
      name: 'sluice_faults_total',
      help: 'Attempts that ended in an error, by its code.',
      labelNames: ['code'],
      registers,
    }),
    reservedMemory: new Gauge({
      name: 'sluice_reserved_memory_bytes',
      help: 'Memory that the runs of this worker may need; bounded by WORKER_MEMORY_MB.',
      registers,
    }),
    source: {
      clockOffsetSeconds: new Gauge({
        name: 'sluice_source_clock_offset_seconds',
        help: "How far the source's clock is ahead of ours; negative: behind.",
        labelNames: ['model'],
        registers,
      }),
      replayLagSeconds: new Gauge({
        name: 'sluice_source_replay_lag_seconds',
        help: 'How far a source that is a standby is behind its primary.',
        labelNames: ['model'],
        registers,
      }),
    },
    service: {
      tickLagSeconds: new Gauge({
        name: 'sluice_tick_lag_seconds',
        help: 'How long the longest due tick has waited to be decided.',
        registers,
      }),
      waitingRuns: new Gauge({
        name: 'sluice_waiting_runs',
        help: 'Runs that wait for an attempt and may start now.',
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
        help: 'Runs that all workers execute at a time.',
        registers,
      }),
      unsettledIntervals: new Gauge({
        name: 'sluice_unsettled_intervals',
        help: 'Exported intervals that may still get rows.',
        registers,
      }),
      oldestUnsettledSeconds: new Gauge({
        name: 'sluice_oldest_unsettled_seconds',
        help: 'How long ago the oldest unsettled interval ended.',
        registers,
      }),
    },
  };
}
