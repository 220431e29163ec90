import type { Api } from '../api.ts';
import type { HTTPMethods } from 'fastify';
import { ApiError } from '../api-error.ts';

/** Sets the security and cache headers of every answer, and the request id that the log uses. */
export function sendHeaders(api: Api): void {
  api.addHook('onRequest', async (request, reply) => {
    reply.headers({
      'x-request-id': request.id,
      'cache-control': 'no-store',
      'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
      'referrer-policy': 'no-referrer',
      'x-content-type-options': 'nosniff',
    });
  });
}

const methods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE'] as const;

/** The methods of each path. */
type MethodTable = ReadonlyMap<string, ReadonlySet<string>>;

/** Records the methods of every route that is registered later. */
export function noteMethods(api: Api): MethodTable {
  const table = new Map<string, Set<string>>();
  api.addHook('onRoute', ({ url, method, config }) => {
    if (config && 'fallback' in config) return;
    const path = url.replace(/\/$/, '') || '/';
    const allowed = table.get(path) ?? new Set<string>(['OPTIONS']);
    for (const name of [method].flat()) allowed.add(name);
    table.set(path, allowed);
  });
  return table;
}

/**
 * Answers OPTIONS with the allowed methods of the path, and 405 to methods that it does not have. Call
 * it after all routes are registered.
 */
export function refuseOtherMethods(api: Api, table: MethodTable): void {
  for (const [url, allowed] of table) addFallback(api, url, allowed);
}

function addFallback(api: Api, url: string, allowed: ReadonlySet<string>): void {
  const allow = methods.filter((method) => allowed.has(method)).join(', ');
  const others = methods.filter((method) => method === 'OPTIONS' || !allowed.has(method));
  api.route({
    method: others as HTTPMethods[],
    url,
    config: { fallback: true },
    schema: { hide: true },
    // Before its body is read.
    onRequest: async (request, reply) => {
      if (request.method === 'OPTIONS') return reply.code(204).header('allow', allow).send();
      const detail = `Method "${request.method}" not allowed. Use ${allow}.`;
      throw new ApiError(405, [{ code: 'method_not_allowed', detail, attr: null }], { allow });
    },
    handler: async () => null,
  });
}
