import type { Api } from '../api.ts';

/** What every answer says to browsers and caches, and the id that the log has. */
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
