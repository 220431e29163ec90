import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { buildApi } from '../api/build-api.ts';
import { destinationDefinitions } from '../destinations/index.ts';
import { createDashboard } from '../queue/dashboard.ts';
import type { Foundation } from './foundation.ts';
import { destinationContextOf } from './plugins.ts';
import { watchService } from './service-metrics.ts';

export interface ApiProcess {
  /** Where it serves: `http://127.0.0.1:8000`. */
  readonly address: string;
  close(): Promise<void>;
}

/** Serves the API. */
export async function startApi(foundation: Foundation): Promise<ApiProcess> {
  const { config, context, logger, metrics, producer, queues } = foundation;
  watchService(metrics, context.db);
  const api = await buildApi({
    context,
    destinations: destinationDefinitions,
    destinationContext: destinationContextOf(config),
    models: ['events'],
    checkQuery: () => ({ ok: true, schema: null }),
    metrics: metrics.registry,
    logger,
    trustProxy: config.TRUST_PROXY,
    rateLimit: { perMinute: config.RATE_LIMIT_PER_MINUTE, perHour: config.RATE_LIMIT_PER_HOUR },
    queueFault: () => queueFault(queues),
    queueBoard: createDashboard(producer, '/admin/queues'),
    consoleDir: findConsole(),
  });
  const address = await api.listen({ port: config.PORT, host: config.HOST });
  return { address, close: () => api.close() };
}

async function queueFault(queues: Foundation['queues']): Promise<string | null> {
  try {
    const [fault] = await queues.inspect();
    return fault ?? null;
  } catch {
    return 'the queue is away; work is recorded and starts later';
  }
}

/** The built page, beside this file's folder in dist; null where it was not built. */
function findConsole(): string | null {
  const folder = fileURLToPath(new URL('../console', import.meta.url));
  // The page's source, at the same place beside src/main, has no assets.
  return existsSync(`${folder}/assets`) ? folder : null;
}
