import type { FastifyPluginCallback } from 'fastify';
import type { Sql } from '../../store/database.ts';
import type { Api, Request } from '../api.ts';
import { ApiError, permissionDenied } from '../api-error.ts';
import { authenticate } from './authentication.ts';
import { sendError } from './errors.ts';

const contentSecurityPolicy =
  "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; font-src 'self' data:; frame-ancestors 'none'";

/**
 * Mounts the queue dashboard for operators. It takes an admin key, as Bearer or, for browsers, as
 * the password of HTTP Basic.
 */
export function mountQueueBoard(api: Api, db: Sql, board: FastifyPluginCallback): void {
  api.register(
    async (scope) => {
      scope.addHook('onRequest', async (request, reply) => {
        reply.header('content-security-policy', contentSecurityPolicy);
        const key = keyOf(request);
        if (key === null) return sendError(request, reply, challenge);
        const caller = await authenticate(db, key, null);
        if (!caller.isAdmin) throw permissionDenied('The API key is not an admin key.');
        refuseForeignPages(request);
      });
      await scope.register(board);
    },
    { prefix: '/admin/queues' },
  );
}

function keyOf(request: Request): string | null {
  const { authorization = '' } = request.headers;
  const [, scheme = '', value = ''] = /^(Basic|Bearer) +(\S+) *$/i.exec(authorization) ?? [];
  if (scheme.toLowerCase() === 'bearer') return value;
  const [, password] = /^[^:]*:(.+)$/.exec(Buffer.from(value, 'base64').toString()) ?? [];
  return password ?? null;
}

/** A browser sends Basic credentials by itself, so changes from pages of other sites are refused. */
function refuseForeignPages(request: Request): void {
  const site = request.headers['sec-fetch-site'] ?? 'same-origin';
  const reads = request.method === 'GET' || request.method === 'HEAD';
  if (reads || site === 'same-origin' || site === 'none') return;
  throw permissionDenied('The request comes from another site.');
}

const challenge = new ApiError(
  401,
  [
    {
      code: 'not_authenticated',
      detail: 'Send an admin API key, as the password of HTTP Basic or as Bearer.',
      attr: null,
    },
  ],
  { 'www-authenticate': 'Basic realm="Sluice queues", charset="UTF-8"' },
);
