import { readinessOf } from './readiness.ts';
import { readConfigOrExit, runProcess } from './run-process.ts';
import { watchService } from './service-metrics.ts';
import { watchSources } from './watch-sources.ts';
import { serveWorkerHealth } from './worker-health.ts';
import { startWorker } from './worker-process.ts';

const config = readConfigOrExit('worker');
const { WORKER_PORT: port } = config;
await runProcess('worker', config, port, async (foundation, keep) => {
  const { context, metrics } = foundation;
  if (port !== null) {
    watchService(metrics, context.db, foundation.outages, config.VERIFY_SCHEDULE !== null);
    const sources = keep(watchSources(foundation));
    const health = await serveWorkerHealth({
      host: config.HOST,
      port,
      metrics: metrics.registry,
      readiness: readinessOf(foundation, sources.fault),
    });
    // Closed after the worker, so that it answers while work is handed back.
    keep(health);
  }
  keep(await startWorker(foundation));
  process.stdout.write('ready worker\n');
});
