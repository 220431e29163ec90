import type { Api } from '../api.ts';
import { Histogram, type Registry } from 'prom-client';

/** Measures requests by route, never by path: a path names tenants and has unlimited values. */
export function measureRequests(api: Api, registry: Registry): void {
  const seconds = new Histogram({
    name: 'sluice_http_request_seconds',
    help: 'Requests by route and status.',
    labelNames: ['method', 'route', 'status'],
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5, 30],
    registers: [registry],
  });
  api.addHook('onResponse', async (request, reply) => {
    const { method } = request;
    const route = request.routeOptions.url ?? 'unknown';
    const status = String(reply.statusCode);
    seconds.observe({ method, route, status }, reply.elapsedTime / 1_000);
    request.log.debug({ method, route, status, ms: reply.elapsedTime }, 'request');
  });
}
