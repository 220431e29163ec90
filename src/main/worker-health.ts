import { createServer, type ServerResponse } from 'node:http';
import type { Registry } from 'prom-client';
import { type ConnectionLimits, Connections, slowRequests } from '../service/api/connections.ts';
import {
  type Readiness,
  shareReadiness,
} from '../service/use-cases/installation/check-readiness.ts';

export interface WorkerHealthOptions {
  readonly host: string;
  readonly port: number;
  /** Null while the process starts: only the two probes are answered then. */
  readonly metrics: Registry | null;
  readonly readiness: () => Promise<Readiness>;
}

/** Probes and scrapers need few connections, for a short time. */
const limits: ConnectionLimits = { perAddress: 32, inAll: 128, pipelined: 8, takeMs: 10_000 };

export interface WorkerHealth {
  /** Its address, with the chosen port if the option was 0. */
  readonly address: string;
  close(): Promise<void>;
}

/** Anyone who reaches the port may read it, so it shows nothing of a tenant. @throws if the port is taken */
export async function serveWorkerHealth(given: WorkerHealthOptions): Promise<WorkerHealth> {
  const options = { ...given, readiness: shareReadiness(given.readiness) };
  const connections = new Connections(limits);
  const times = { ...slowRequests, requestTimeout: 10_000, headersTimeout: 10_000 };
  const server = createServer(times, (request, response) => {
    const path = (request.url ?? '/').split('?', 1)[0] ?? '/';
    connections.enter(request, response, () => {
      answer(path, response, options)
        .then(() => connections.sent(request))
        .catch(() => response.destroy());
    });
  });
  connections.watch(server);
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
      connections.end();
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
