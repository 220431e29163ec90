import { ownSteps } from '../extensions/own-plugins/own-plugins.ts';
import { idleWorkerBytes } from '../service/admission/memory-budget.ts';
import type { ClaimedRun } from '../state/store/runs/claims.ts';
import { openDatabase } from '../state/store/database/database.ts';
import { RunStatements } from '../state/store/runs/run-statements.ts';
import { createLogger } from '../foundation/telemetry/logger.ts';
import { Attempt } from '../service/worker/attempt.ts';
import type { AttemptReport } from '../service/worker/attempt-end.ts';
import { serveJob } from '../service/worker/run-alone.ts';
import type { ChildSetup } from './worker-process.ts';
import { destinationContextOf, joinConnectors } from './connectors.ts';
import { openSecretBox } from './encryption-keys.ts';
import { joinSources, loadModels } from './models.ts';
import { policyOf } from './policy.ts';
import { growYoungGeneration } from '../service/admission/process-memory.ts';

/** One run needs few: its writes and its log. Its worker sends the heartbeat. */
const maxConnections = 4;

serveJob(async (setup, run, signal) => {
  // The parent is the same build.
  const { run: _, ...report } = await execute(setup as ChildSetup, run as ClaimedRun, signal);
  return report;
});

async function execute(
  { config, url, sourceUrl }: ChildSetup,
  run: ClaimedRun,
  signal: AbortSignal,
): Promise<AttemptReport> {
  const logger = createLogger(config.LOG_LEVEL, { role: 'run' });
  logger.info({ run: run.runId, export: run.exportId }, 'this process executes one run only');
  const db = openDatabase({
    connectionString: url,
    applicationName: 'sluice-run',
    maxConnections,
    writes: true,
    onError: (error) => logger.warn({ err: error }, 'a database connection failed'),
  });
  const secrets = await openSecretBox(config);
  const sourceOf = joinSources(config, loadModels(config), sourceUrl);
  const policy = policyOf(config);
  const options = {
    context: {
      db,
      policy,
      secrets,
      // The worker notifies once this process has ended.
      doorbell: { runsWaiting() {}, backfillWaiting() {} },
      ownSteps,
    },
    statements: new RunStatements(db, policy.leaseMs),
    connectors: joinConnectors(sourceOf, destinationContextOf(config), secrets),
    // The process of a run has itself beside the run, like the worker that admitted it.
    memoryBytes: config.WORKER_MEMORY_MB * 1024 ** 2 - idleWorkerBytes,
    onError: (error: unknown) =>
      logger.warn({ err: error, run: run.runId, export: run.exportId }, 'an attempt failed'),
  };
  try {
    growYoungGeneration();
    return await new Attempt(options, run, signal, null).execute();
  } finally {
    await db.close();
  }
}
