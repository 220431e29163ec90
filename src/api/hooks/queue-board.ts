import type { FastifyPluginCallback } from 'fastify';
import type { Api } from '../api.ts';
import { type OperatorAccess, requireOperator } from './operator-access.ts';

const contentSecurityPolicy =
  "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; font-src 'self' data:; frame-ancestors 'none'";

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
      await scope.register(board);
    },
    { prefix: '/admin/queues' },
  );
}
