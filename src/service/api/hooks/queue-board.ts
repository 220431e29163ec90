import type { FastifyPluginCallback } from 'fastify';
import type { Api, Reply } from '../api.ts';
import { type OperatorAccess, requireOperator } from './operator-access.ts';

const contentSecurityPolicy =
  "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; font-src 'self' data:; frame-ancestors 'none'";

/** Its page asks another host for fonts, which would learn who looks at it. The system's fonts do. */
const outsideLink = /<link\b[^>]*\bhref="https?:[^>]*>/gi;

const isPage = (reply: Reply, payload: unknown): payload is string =>
  typeof payload === 'string' && String(reply.getHeader('content-type')).startsWith('text/html');

/** Mounts the queue dashboard for operators. */
export function mountQueueBoard(
  api: Api,
  access: OperatorAccess,
  board: FastifyPluginCallback,
): void {
  api.register(
    async (scope: Api) => {
      scope.addHook('onRequest', async (_request, reply) => {
        reply.header('content-security-policy', contentSecurityPolicy);
      });
      requireOperator(scope, access);
      scope.addHook('onSend', async (_request, reply, payload) =>
        isPage(reply, payload) ? payload.replaceAll(outsideLink, '') : payload,
      );
      await scope.register(board);
    },
    { prefix: '/admin/queues' },
  );
}
