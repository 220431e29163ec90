import { type OpenSpan, readTraceparent, type Traces } from '../../../foundation/domain/traces.ts';
import type { Api } from '../api.ts';
import { Histogram, type Registry } from 'prom-client';

/** Probes and scrapers would fill the traces. */
const untraced = new Set(['/livez', '/readyz', '/metrics']);

/**
 * A span for each request, by route. What a request creates is within it. The trace of the caller goes on only behind a
 * trusted proxy: otherwise any client could decide what is sampled.
 */
export function traceRequests(api: Api, traces: Traces, trustProxy: boolean): void {
  const spans = new WeakMap<object, OpenSpan>();
  api.addHook('onRequest', async (request) => {
    const { method } = request;
    const route = request.routeOptions.url;
    if (route === undefined || untraced.has(route)) return;
    const span = traces.begin(`${method} ${route}`, {
      kind: 'server',
      attributes: {
        'http.request.method': method,
        'http.route': route,
        'url.scheme': request.protocol,
      },
      parent: trustProxy ? readTraceparent(request.headers.traceparent) : null,
    });
    spans.set(request, span);
    request.context = {
      ...request.context,
      traces: { ...traces, current: () => span.traceparent },
    };
  });
  api.addHook('onResponse', async (request, reply) => {
    const span = spans.get(request);
    if (!span) return;
    const { statusCode } = reply;
    span.set({ 'http.response.status_code': statusCode });
    span.end(statusCode >= 500 ? String(statusCode) : null);
  });
}

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
