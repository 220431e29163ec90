import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import type { HTTPMethods } from 'fastify';
import { Histogram, type Registry } from 'prom-client';
import type { Api, Request } from '../api.ts';
import { ApiError } from '../errors.ts';
import type { ApiOptions } from '../options.ts';
import { acceptedCodings, namesTag } from './pages.ts';

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

/** Answers OPTIONS, and 405 to methods that a path does not have. Call it after all routes are registered. */
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

const wellFormedHost = /^(?:[a-z0-9][a-z0-9.-]*|\[[0-9a-f:.]+\])(?::\d{1,5})?$/i;
const loopback = /^(?:localhost|127\.0\.0\.1|\[::1\])(?::\d{1,5})?$/i;

type PublicAddress = Pick<ApiOptions, 'publicUrl' | 'trustProxy'>;

/** Sets what links begin with: never a Host that the client made up. */
export function knowAddress(api: Api, address: PublicAddress): void {
  api.decorateRequest('linkBase', '');
  api.addHook('onRequest', async (request) => {
    request.linkBase = linkBaseOf(request, address);
  });
}

/**
 * PUBLIC_URL, or the Host if it is known to be ours: that of a trusted proxy, the address that the
 * connection came in at, or loopback. For any other Host it is the address of the connection.
 */
function linkBaseOf(request: Request, { publicUrl, trustProxy }: PublicAddress): string {
  if (publicUrl !== null) return publicUrl.replace(/\/+$/, '');
  const { host, protocol } = request;
  const own = socketAddress(request);
  const isForwarded = trustProxy > 0 && request.headers['x-forwarded-host'] !== undefined;
  const isOurs = loopback.test(host) || host === own || (isForwarded && wellFormedHost.test(host));
  return `${protocol}://${isOurs ? host : (own ?? 'localhost')}`;
}

function socketAddress({ socket }: Request): string | null {
  const { localAddress, localPort } = socket;
  if (localAddress === undefined || localPort === undefined) return null;
  const ip = localAddress.replace(/^::ffff:(?=\d+\.)/i, '');
  return `${ip.includes(':') ? `[${ip}]` : ip}:${localPort}`;
}

/** A smaller answer fits into one packet anyway. */
const leastBytes = 1_400;

const compressors = {
  br: promisify((text: string, done: (error: Error | null, bytes: Buffer) => void) =>
    brotliCompress(text, { params: { [constants.BROTLI_PARAM_QUALITY]: 4 } }, done),
  ),
  gzip: promisify<string, Buffer>(gzip),
};

/**
 * Answers 304 to a client that has the same answer already, and compresses lists.
 *
 * The tag is the digest of the whole answer, which is made for each request after its key was checked. So a 304 hides no change:
 * neither one by time alone, nor one of what a key may see.
 *
 * The length of a compressed answer says something about its content. So only routes that ask for it are compressed: they have no
 * rows, no log and no secret.
 */
export function spareBytes(api: Api): void {
  api.addHook('onSend', async (request, reply, payload) => {
    const { scope, compresses } = request.routeOptions.config;
    if (request.method !== 'GET' || scope === undefined || reply.statusCode !== 200) return payload;
    if (typeof payload !== 'string') return payload;
    const digest = createHash('sha256').update(payload).digest('base64url').slice(0, 22);
    const etag = `W/"${digest}"`;
    reply.headers({ etag, vary: 'authorization, accept-encoding' });
    if (namesTag(request.headers['if-none-match'], etag)) {
      reply.code(304);
      return null;
    }
    if (!compresses || Buffer.byteLength(payload) < leastBytes) return payload;
    const accepted = acceptedCodings(String(request.headers['accept-encoding'] ?? ''));
    const coding = (['br', 'gzip'] as const).find((name) => accepted.has(name));
    if (coding === undefined) return payload;
    reply.header('content-encoding', coding).removeHeader('content-length');
    return compressors[coding](payload);
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
