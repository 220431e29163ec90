import { createServer, type ServerResponse } from 'node:http';
import type { Registry } from 'prom-client';

export interface WorkerHealthOptions {
  readonly host: string;
  readonly port: number;
  /** Null while the process starts: nothing but the two probes is answered then. */
  readonly metrics: Registry | null;
  /** What is wrong with Postgres, without which nothing is done; null if nothing is. */
  readonly databaseFault: () => Promise<string | null>;
  /** What is wrong with the queue, without which work starts late. */
  readonly queueFault: () => Promise<string | null>;
  /** What keeps models from being exported or settled. Absent: nothing looks. */
  readonly sourceFault?: () => string | null;
  /** Why no run starts until an operator acts; null while work goes on. */
  readonly holdReason: () => Promise<string | null>;
}

export interface WorkerHealth {
  /** Where it serves; the port that was chosen if the option said 0. */
  readonly address: string;
  close(): Promise<void>;
}

/**
 * Answers /livez, /readyz and /metrics for a worker, as the API does for itself, and for every process
 * that is still starting. Open to all who reach the port, so it shows nothing of a tenant.
 *
 * @throws if the port is taken
 */
export async function serveWorkerHealth(options: WorkerHealthOptions): Promise<WorkerHealth> {
  const server = createServer((request, response) => {
    const path = new URL(request.url ?? '/', 'http://worker').pathname;
    answer(path, response, options).catch(() => response.destroy());
  });
  server.requestTimeout = 10_000;
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(options.port, options.host, resolve);
  });
  const bound = server.address();
  const port = typeof bound === 'object' && bound !== null ? bound.port : options.port;
  return {
    address: `http://${options.host.includes(':') ? `[${options.host}]` : options.host}:${port}`,
    async close() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeAllConnections();
      await closed;
    },
  };
}

async function answer(
  path: string,
  response: ServerResponse,
  options: WorkerHealthOptions,
): Promise<void> {
  if (path === '/metrics' && options.metrics !== null) {
    const text = await options.metrics.metrics();
    response.setHeader('content-type', options.metrics.contentType).end(text);
    return;
  }
  if (path === '/livez') return send(response, 200, { status: 'ok' });
  if (path !== '/readyz') {
    const isStarting = options.metrics === null;
    return send(response, isStarting ? 503 : 404, {
      status: isStarting ? 'starting' : 'not found',
    });
  }
  const [postgres, queue] = await Promise.all([options.databaseFault(), options.queueFault()]);
  const era = postgres === null ? await options.holdReason() : null;
  const source = options.sourceFault?.() ?? null;
  const isWhole = queue === null && source === null && era === null;
  const status = postgres !== null ? 'unavailable' : isWhole ? 'ok' : 'degraded';
  const checks = {
    postgres: postgres ?? 'ok',
    queue: queue ?? 'ok',
    era: era ?? 'ok',
    ...(options.sourceFault ? { source: source ?? 'ok' } : {}),
  };
  send(response, postgres === null ? 200 : 503, { status, checks });
}

function send(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}
