import { createServer, type ServerResponse } from 'node:http';
import type { Registry } from 'prom-client';
import { type Readiness, shareReadiness } from '../use-cases/installation/check-readiness.ts';

export interface WorkerHealthOptions {
  readonly host: string;
  readonly port: number;
  /** Null while the process starts: only the two probes are answered then. */
  readonly metrics: Registry | null;
  readonly readiness: () => Promise<Readiness>;
}

export interface WorkerHealth {
  /** Its address, with the chosen port if the option was 0. */
  readonly address: string;
  close(): Promise<void>;
}

/**
 * Answers /livez, /readyz and /metrics for a worker, and for every process that is still starting. Anyone
 * who reaches the port may read it, so it shows nothing of a tenant.
 *
 * @throws if the port is taken
 */
export async function serveWorkerHealth(given: WorkerHealthOptions): Promise<WorkerHealth> {
  const options = { ...given, readiness: shareReadiness(given.readiness) };
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
  const ready = await options.readiness();
  send(response, ready.status === 'unavailable' ? 503 : 200, ready);
}

function send(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}
