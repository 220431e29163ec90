import { randomUUID } from 'node:crypto';
import { setMaxListeners } from 'node:events';
import { hostname } from 'node:os';
import { describeInterval } from '../domain/time.ts';
import {
  idleWorkerBytes,
  largeRowCopies,
  smallPlaces,
  smallRunBytes,
} from '../pipeline/memory-budget.ts';
import { ReadingTurns } from '../pipeline/reading-turns.ts';
import { openConsumer } from '../queue/consumer.ts';
import { RunStatements } from '../store/run-statements.ts';
import { addWorkerSeconds } from '../store/worker-seconds.ts';
import { removeWorker, reportWorker } from '../store/workers.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { Crowd } from '../use-cases/runs/crowd.ts';
import { WorkGuard } from '../use-cases/work-guard.ts';
import type { AttemptReport } from '../worker/attempt-report.ts';
import { CpuUse, processCpuMs } from '../worker/cpu-use.ts';
import type { ExecutorOptions } from '../worker/execute-run.ts';
import { createHandlers } from '../worker/handlers.ts';
import { LeaseKeeper } from '../worker/lease-keeper.ts';
import { MemoryGate } from '../worker/memory-gate.ts';
import { NotificationCourier } from '../worker/notification-courier.ts';
import { Parking } from '../worker/parking.ts';
import { RunPlaces } from '../worker/run-places.ts';
import { WorkClock } from '../worker/work-clock.ts';
import { watchBuffers } from './buffer-watch.ts';
import { childProgramOf } from './child-program.ts';
import { destinationContextOf, joinConnectors } from './connectors.ts';
import { CpuPressure } from './cpu-pressure.ts';
import type { Foundation } from './foundation.ts';
import { logAttempt } from './log-attempt.ts';
import { joinSources } from './models.ts';
import { openNotifications } from './notifications.ts';
import { previewsOf } from './preview-rows.ts';
import { findQueueFault } from './readiness.ts';
import { checkRowLimit } from './row-limit.ts';
import type { Part } from './run-process.ts';
import { freeBuffers, growForSmallRuns, growYoungGeneration } from './tune-garbage-collection.ts';

const mebibyte = 1024 ** 2;

/** The buffers of rows of this size are freed before the next large row is read. */
const freedAtOnceBytes = 8 * mebibyte;

/** How often a worker reports that it is up and checks the recurring jobs. */
const reportEveryMs = 3_000;

/** How long a connection to a source stays open for the next run. */
const keepConnectionMs = 5_000;

/**
 * Starts a worker. Its `close` takes no more work, hands back its runs, and ends.
 *
 * @throws StartError if WORKER_MEMORY_MB is too small for MAX_ROW_MIB
 */
export async function startWorker(foundation: Foundation): Promise<Part> {
  const { config, context, databases, db, logger, metrics, producer, queues } = foundation;
  checkRowLimit(config);
  const memoryBytes = config.WORKER_MEMORY_MB * mebibyte - idleWorkerBytes;
  const places = smallPlaces(memoryBytes, config.WORKER_SMALL_RUNS);
  const memory = new MemoryGate(memoryBytes, places * smallRunBytes, config.WORKER_CONCURRENCY);
  const limits = {
    keepConnectionMs,
    holdRow: async (bytes: number, signal: AbortSignal) => {
      const giveBack = await memory.grow(bytes * largeRowCopies, signal);
      return () => {
        if (bytes >= freedAtOnceBytes) freeBuffers();
        giveBack();
      };
    },
  };
  const { models } = foundation;
  const sourceOf = joinSources(config, models, databases.sourceUrl, limits, (model) =>
    metrics.source.settleLooks.inc({ model }),
  );
  const workerId = `${hostname()}-${process.pid}-${randomUUID().slice(0, 8)}`;
  const leases = new LeaseKeeper({
    db,
    leaseMs: context.policy.leaseMs,
    onError: (error) => logger.warn({ err: error }, 'leases could not be renewed'),
  });
  const endWatch = watchBuffers();
  const stopping = new AbortController();
  // Each small run that rests listens. Node warns from eleven listeners on.
  setMaxListeners(0, stopping.signal);
  const pressure = new CpuPressure();
  const crowd = new Crowd(
    () => pressure.isPressed(),
    () => performance.now(),
  );
  const cpuUse = new CpuUse(processCpuMs, () => performance.now());
  const turns = new ReadingTurns({
    isCrowding: (id) => crowd.isCrowding(id),
    mustRest: (id) => cpuUse.isAboveMean(id, crowd.companyOf(id)),
    restShare: () => pressure.rest,
    cpuMs: processCpuMs,
  });
  const executor: ExecutorOptions = {
    context,
    memoryBytes,
    turns,
    stopping: stopping.signal,
    connectors: joinConnectors(sourceOf, destinationContextOf(config), context.secrets),
    leases,
    statements: new RunStatements(db, context.policy.leaseMs),
    workerId,
    program: childProgramOf(foundation),
    onError: (error, run) => {
      logger.warn({ err: error, run: run.runId, export: run.exportId }, 'an attempt failed');
    },
    onSweepError: (error) => logger.warn({ err: error }, 'an upload could not be collected'),
    onLookBackError: (error, { exportId, interval }) => {
      const what = `look-back of interval ${describeInterval(interval)} failed`;
      logger.warn({ err: error, export: exportId }, what);
    },
  };
  Object.assign(metrics.reservedMemory, {
    collect: () => metrics.reservedMemory.set(memory.usedBytes),
  });
  const courier = new NotificationCourier({
    context,
    sender: openNotifications(config),
    onSent: (kind, { delivered }) =>
      metrics.notifications.inc({ kind, result: delivered ? 'delivered' : 'failed' }),
    onError: (error) => logger.warn({ err: error }, 'a notification could not be recorded'),
  });
  const guard = new WorkGuard(db, ({ kind, id }) =>
    logger.error(
      { work: kind, id },
      'work was set aside: three processes died during it. Fix the cause, then run `sluice work retry`',
    ),
  );
  const workClock = new WorkClock();
  const storeWork = async () => {
    const spent = workClock.take();
    await addWorkerSeconds(db, spent).catch((error: unknown) => {
      workClock.giveBack(spent);
      throw error;
    });
  };
  const parking = new Parking({
    db,
    leaseMs: context.policy.leaseMs,
    workerId,
    sourceOf,
    onAwake: () => handlers['dispatch-runs']({}),
    onError: (error) => logger.warn({ err: error }, 'parked runs could not be written'),
  });
  // Its share is what large runs leave; without those there may be memory for more.
  const runPlaces = new RunPlaces(config.WORKER_SMALL_RUNS);
  const handlers = createHandlers({
    places: runPlaces,
    onRunError: (error) => {
      metrics.jobsFailed.inc({ handler: 'execute-small-run' });
      logger.warn({ err: error, job: 'execute-small-run' }, 'a job failed');
    },
    workClock,
    guard,
    cpuUse,
    turns,
    courier,
    context,
    producer,
    executor,
    crowd,
    parking,
    memory,
    sampleRows: previewsOf(config, foundation.models, foundation.databases.sourceUrl, context)
      .sampleRows,
    onSampleError: (error) => logger.warn({ err: error }, 'a sample job failed'),
    onSmallRuns: growForSmallRuns,
    onLargeRun: growYoungGeneration,
    onAttemptEnd: (attempt, seconds) => {
      countAttempt(metrics, attempt, seconds);
      logAttempt(logger, attempt, seconds);
    },
    onRunsMade: (by, runs) => metrics.runsMade.inc({ by }, runs),
    onScheduleError: (error, exportId) =>
      logger.error({ err: error, export: exportId }, 'a schedule cannot be planned'),
    onOffboarded: (offboarding) => logger.info({ offboarding }, 'a tenant was deleted'),
    onOffboardingError: (error) => logger.warn({ err: error }, 'a tenant could not be deleted yet'),
  });

  let lastFault: string | null = null;
  const report = async () => {
    await reportWorker(db, workerId, config.WORKER_CONCURRENCY, places);
    await storeWork();
    const fault = await findQueueFault(queues, producer);
    if (fault !== null && fault !== lastFault) logger.error(fault);
    lastFault = fault;
    await producer.ensureRecurring();
  };
  const tryReport = () =>
    report().catch((error: unknown) =>
      logger.warn({ err: error }, 'the queue or Postgres is unreachable'),
    );
  await tryReport();
  const reporting = setInterval(() => void tryReport(), reportEveryMs);

  const consumer = openConsumer(queues, handlers, {
    runConcurrency: config.WORKER_CONCURRENCY,
    takesSmallRuns: places > 0,
    onError: (error) => logger.warn({ err: error }, 'the queue reported an error'),
    onJobFailed: (job, error) => {
      metrics.jobsFailed.inc({ handler: job });
      logger.warn({ err: error, job }, 'a job failed');
    },
  });
  logger.info(
    { worker: workerId, concurrency: config.WORKER_CONCURRENCY, smallRuns: places },
    'worker started',
  );

  return {
    async close() {
      clearInterval(reporting);
      pressure.close();
      endWatch();
      memory.close();
      stopping.abort();
      leases.releaseAll();
      const woken = parking.close().catch(() => {});
      await consumer.close();
      await runPlaces.ended();
      await woken;
      await courier.close();
      await guard.close().catch(() => {});
      leases.close();
      await storeWork().catch(() => {});
      await removeWorker(db, workerId).catch(() => {});
    },
  };
}

function countAttempt(metrics: Metrics, attempt: AttemptReport, seconds: number): void {
  const { end, fault, rows, bytes, rejectedRows } = attempt;
  metrics.attempts.inc({ end });
  // Nothing was claimed, so there was no attempt to measure.
  if (end !== 'skipped') metrics.attemptSeconds.observe({ end }, seconds);
  if (fault !== null) metrics.faults.inc({ code: fault });
  metrics.rows.inc(rows);
  metrics.rowsRejected.inc(rejectedRows);
  metrics.bytes.inc(bytes);
}
