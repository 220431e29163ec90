import { type OpenSpan, readTraceparent, type Traces } from '../../../foundation/domain/traces.ts';
import type { Api } from '../api.ts';

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
