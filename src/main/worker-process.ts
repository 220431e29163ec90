import { randomUUID } from 'node:crypto';
import { setMaxListeners } from 'node:events';
import { hostname } from 'node:os';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Config } from '../foundation/config/config.ts';
import { faultOf } from '../foundation/domain/errors.ts';
import { defaultModelOf } from '../foundation/domain/events-model.ts';
import { describeInterval } from '../foundation/domain/time.ts';
import type { Metrics } from '../foundation/telemetry/metrics.ts';
import { Admission } from '../service/admission/admission.ts';
import { idleWorkerBytes } from '../service/admission/memory-budget.ts';
import { watchBuffers } from '../service/admission/process-memory.ts';
import { doEach } from '../service/use-cases/separate-work.ts';
import { WorkGuard } from '../service/use-cases/work-guard.ts';
import { type AttemptReport, logAttempt } from '../service/worker/attempt-end.ts';
import type { HandlerOptions, WorkerReports } from '../service/worker/options.ts';
import { AloneTurns, type ChildProgram } from '../service/worker/run-alone.ts';
import { createHandlers, SourceWaits } from '../service/worker/run-jobs.ts';
import { LeaseKeeper } from '../service/worker/leases.ts';
import type { JobHandlers } from '../state/queue/catalogue.ts';
import { type Consumer, openConsumer } from '../state/queue/consumer.ts';
import { openDatabase } from '../state/store/database/database.ts';
import { RunStatements } from '../state/store/runs/run-statements.ts';
import { removeWorker, reportWorker } from '../state/store/runs/workers.ts';
import { checkTemporaryFolder } from './check-folders.ts';
import { divideConnections, smallOpensOf } from './connections.ts';
import { destinationContextOf, joinConnectors } from './connectors.ts';
import type { Foundation } from './foundation.ts';
import { joinSources } from './models.ts';
import { openCourier, openNotifications } from './notifications.ts';
import { previewsOf } from './preview-rows.ts';
import { inspectQueue } from './readiness.ts';
import { checkRowLimit } from './row-limit.ts';
import type { Part } from './run-process.ts';
import { readCheckers, statementSourcesOf } from './statement-sources.ts';
import { verifyJobOf } from './verify-job.ts';

const mebibyte = 1024 ** 2;

/** The pause between two reports of a worker that it is up, and checks of the recurring jobs. */
const reportEveryMs = 3_000;

/** The time that a connection to a source stays open for the next run. */
const keepConnectionMs = 5_000;

/** `close` hands back its runs. @throws StartError if the memory is too small for MAX_ROW_MIB, or TMPDIR takes no file */
export async function startWorker(foundation: Foundation): Promise<Part> {
  const { config, context, db, logger, producer } = foundation;
  checkRowLimit(config);
  await checkTemporaryFolder(logger);
  const workerId = `${hostname()}-${process.pid}-${randomUUID().slice(0, 8)}`;
  const stopping = new AbortController();
  // Each small run that rests listens. Node warns from eleven listeners on.
  setMaxListeners(0, stopping.signal);
  const admission = new Admission({
    memoryBytes: config.WORKER_MEMORY_MB * mebibyte - idleWorkerBytes,
    slots: config.WORKER_CONCURRENCY,
    smallRuns: config.WORKER_SMALL_RUNS,
    memoryOf: (...run) => executor.connectors.memoryOf(...run),
    comparesKeys: (name) =>
      foundation.models.some(
        ({ model }) => model.name === name && model.changes?.deletes.kind === 'compare',
      ),
    stopping: stopping.signal,
  });
  const { leases, closeLeases } = await openLeases(foundation);
  const executor = openExecutor(foundation, admission, leases, workerId, stopping.signal);
  const courier = openCourier(foundation, openNotifications(config));
  const waits = new SourceWaits({
    ...{ db, leaseMs: context.policy.leaseMs, stopping: stopping.signal },
    sourceOf: executor.connectors.sourceOf,
    onError: (error) =>
      logger.warn({ err: error }, 'the log of a waiting run could not be written'),
  });
  const { previewRows } = previewsOf(foundation);
  const defaultModel = defaultModelOf(foundation.models.map(({ model }) => model.name));
  const pulse = { tickedAt: performance.now() };
  const reports = reportsTo(foundation, pulse);
  const handlers = createHandlers({
    ...{ producer, executor, admission, waits, courier, previewRows, defaultModel, reports },
    statements: {
      statements: statementSourcesOf(foundation.models, foundation.databases.sourceUrl),
      checkers: readCheckers(),
    },
    verifySchedule: config.VERIFY_SCHEDULE,
    verify: verifyJobOf(foundation, admission.memory, executor.guard, stopping.signal),
  });
  const endWatch = watchBuffers();
  const endReports = await startReporting(foundation, admission, workerId, pulse);
  const { slots, smallRuns } = admission.room();
  const consumer = consume(foundation, admission, handlers);
  logger.info({ worker: workerId, concurrency: slots, smallRuns }, 'worker started');
  return {
    async close() {
      endReports();
      endWatch();
      admission.close();
      stopping.abort();
      leases.releaseAll();
      await consumer.close();
      await admission.smallSlots.ended();
      await courier.close();
      await executor.guard.close().catch(() => {});
      await closeLeases();
      await removeWorker(db, workerId).catch(() => {});
    },
  };
}

/** Leases are renewed over a connection of their own. Neither a pool in use nor a server without free connections delays them. */
async function openLeases({ config, context, databases, logger }: Foundation) {
  const db = openDatabase({
    connectionString: databases.url,
    applicationName: 'sluice-worker-leases',
    maxConnections: divideConnections(config).leases,
    writes: true,
    onError: (error) => logger.warn({ err: error }, 'the connection of the leases failed'),
  });
  // The pool keeps it from now on, so that it is there when it is needed.
  await db.query('select 1').catch(() => {});
  const leases = new LeaseKeeper({
    db,
    leaseMs: context.policy.leaseMs,
    onError: (error) => logger.warn({ err: error }, 'leases could not be renewed'),
  });
  let closing: Promise<void> | null = null;
  const closeLeases = () => {
    leases.close();
    closing ??= db.close();
    return closing;
  };
  return { leases, closeLeases };
}

/** Takes jobs from the queues, large runs up to the number of slots. */
function consume(
  { queues, logger, metrics }: Foundation,
  admission: Admission,
  handlers: JobHandlers,
): Consumer {
  const { slots, smallRuns } = admission.room();
  return openConsumer(queues, handlers, {
    runConcurrency: slots,
    takesSmallRuns: smallRuns > 0,
    onError: (error) => logger.warn({ err: error }, 'the queue reported an error'),
    onJobFailed: (job, error) => {
      metrics.jobsFailed.inc({ handler: job });
      logger.warn({ err: error, job }, 'a job failed');
    },
  });
}

function openExecutor(
  foundation: Foundation,
  admission: Admission,
  leases: LeaseKeeper,
  workerId: string,
  stopping: AbortSignal,
): HandlerOptions['executor'] {
  const { config, context, databases, db, logger, metrics, models } = foundation;
  const limits = {
    keepConnectionMs,
    smallOpens: smallOpensOf(config),
    holdRow: (bytes: number, signal: AbortSignal) => admission.holdRow(bytes, signal),
  };
  const sourceOf = joinSources(config, models, databases.sourceUrl, limits, (model) =>
    metrics.source.settleLooks.inc({ model }),
  );
  const connectors = joinConnectors(sourceOf, destinationContextOf(config), context.secrets);
  return {
    context,
    memoryBytes: admission.memory.totalBytes,
    stopping,
    connectors,
    leases,
    statements: new RunStatements(db, context.policy.leaseMs),
    workerId,
    program: childProgramOf(foundation),
    guard: new WorkGuard(db, ({ kind, id }) =>
      logger.error(
        { work: kind, id },
        'work was set aside: three processes died during it. Fix the cause, then run `sluice work retry`',
      ),
    ),
    onError: (error, run) => {
      logger.warn({ err: error, run: run.runId, export: run.exportId }, 'an attempt failed');
    },
    onSweepError: (error) => logger.warn({ err: error }, 'an upload could not be collected'),
    onLookBackError: (error, { exportId, interval }) => {
      const what = `look-back of interval ${describeInterval(interval)} failed`;
      logger.warn({ err: error, export: exportId }, what);
    },
  };
}

/** When schedules were last decided and runs dispatched, by the clock of this process. */
interface Pulse {
  tickedAt: number;
}

function reportsTo({ logger, metrics }: Foundation, pulse: Pulse): WorkerReports {
  return {
    ticked() {
      pulse.tickedAt = performance.now();
    },
    attemptEnded(attempt, seconds) {
      countAttempt(metrics, attempt, seconds);
      logAttempt(logger, attempt, seconds);
    },
    runFailed(error) {
      metrics.jobsFailed.inc({ handler: 'execute-small-run' });
      logger.warn({ err: error, job: 'execute-small-run' }, 'a job failed');
    },
    runsMade: (by, runs) => metrics.runsMade.inc({ by }, runs),
    scheduleFailed: (error, exportId) =>
      logger.error({ err: error, export: exportId }, 'a schedule cannot be planned'),
    sampleFailed: (error) => logger.warn({ err: error }, 'a sample job failed'),
    offboarded: (offboarding) => logger.info({ offboarding }, 'a tenant was deleted'),
    offboardingFailed: (error) => logger.warn({ err: error }, 'a tenant could not be deleted yet'),
  };
}

/** Reports now and every few seconds that the worker is up, and checks the recurring jobs. @returns ends it */
async function startReporting(
  foundation: Foundation,
  admission: Admission,
  workerId: string,
  pulse: Pulse,
): Promise<() => void> {
  const { db, logger, metrics, outages, producer, queues } = foundation;
  Object.assign(metrics.reservedMemory, {
    collect: () => metrics.reservedMemory.set(admission.room().usedBytes),
  });
  let lastFault: string | null = null;
  const reportUp = () => {
    const { slots, smallRuns } = admission.room();
    const silentSeconds = Math.floor((performance.now() - pulse.tickedAt) / 1_000);
    return reportWorker(db, workerId, slots, smallRuns, silentSeconds);
  };
  const inspect = async () => {
    const fault = await inspectQueue(queues, producer);
    // A refusal is a line per minute.
    if ((await queues.findRefusal()) !== null) await outages.look();
    else if (fault !== null && fault !== lastFault) logger.error(fault);
    lastFault = fault;
  };
  // The recurring jobs are restored whatever else fails or takes long: without them no run is dispatched.
  const pieces = [reportUp, () => producer.ensureRecurring(), inspect];
  const tryReport = () =>
    doEach(pieces).catch((error: unknown) =>
      logger.warn({ err: error }, 'the queue or Postgres is unreachable'),
    );
  await tryReport();
  const reporting = setInterval(() => void tryReport(), reportEveryMs);
  return () => clearInterval(reporting);
}

function countAttempt(metrics: Metrics, attempt: AttemptReport, seconds: number): void {
  const { end, fault, rows, bytes, rejectedRows } = attempt;
  metrics.attempts.inc({ end });
  // Nothing was claimed, so there was no attempt to measure.
  if (end !== 'skipped') metrics.attemptSeconds.observe({ end }, seconds);
  if (fault !== null) {
    metrics.faults.inc({ code: fault, fault: faultOf(fault) });
  }
  metrics.rows.inc(rows);
  metrics.rowsRejected.inc(rejectedRows);
  metrics.bytes.inc(bytes);
}

/** The needs of a process for one job, to open its connections and connectors. Its parent has prepared all of it. */
export interface ChildSetup {
  readonly config: Config;
  readonly url: string;
  readonly sourceUrl: string;
}

/** With less a crash would prove nothing against a run: large rows are held whole, and here no gate makes them wait. */
const minMemoryMib = 512;

/** The program of runs with a process of their own: `child-run`, beside this file. */
function childProgramOf({ config, databases }: Foundation): ChildProgram {
  const setup: ChildSetup = { config, url: databases.url, sourceUrl: databases.sourceUrl };
  const file = fileURLToPath(import.meta.url);
  const entry = fileURLToPath(new URL(`./child-run${extname(file)}`, import.meta.url));
  return {
    ...{ entry, setup },
    memoryMib: Math.max(config.WORKER_MEMORY_MB, minMemoryMib),
    turns: new AloneTurns(),
  };
}
