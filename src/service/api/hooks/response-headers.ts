import type { Api } from '../api.ts';

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
