import { findDatabaseFault } from './database-fault.ts';
import { findQueueFault } from './queue-fault.ts';
import { readConfigOrExit } from './read-config.ts';
import { runProcess } from './run-process.ts';
import { watchService } from './service-metrics.ts';
import { watchSources } from './watch-sources.ts';
import { serveWorkerHealth } from './worker-health.ts';
import { startWorker } from './worker-process.ts';

await runProcess('worker', readConfigOrExit('worker'), async (foundation, keep) => {
  const { config, context, metrics, queues } = foundation;
  if (config.WORKER_PORT !== null) {
    watchService(metrics, context.db);
    const sources = keep(watchSources(foundation));
    const health = await serveWorkerHealth({
      host: config.HOST,
      port: Number(config.WORKER_PORT),
      metrics: metrics.registry,
      databaseFault: () => findDatabaseFault(context.db),
      queueFault: () => findQueueFault(queues),
      sourceFault: sources.fault,
    });
    // Closed after the worker: it answers while work is handed back.
    keep(health);
  }
  keep(await startWorker(foundation));
  process.stdout.write('ready worker\n');
});
