import fastifyStatic from '@fastify/static';
import type { Api } from '../api.ts';

/** Only what the page ships itself, and the API it came from. No inline script or style. */
const contentPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

/**
 * The operators' page at /console/, out of the folder it was built into, and the way there from /.
 * Without a folder there is nothing, and both answer 404.
 */
export function serveConsole(api: Api, folder: string | null): void {
  if (folder === null) return;
  api.get('/', { schema: { hide: true } }, async (_request, reply) => reply.redirect('/console/'));
  api.register(fastifyStatic, {
    root: folder,
    prefix: '/console/',
    // A route a file: what is not there falls to the API's own 404.
    wildcard: false,
    decorateReply: false,
    cacheControl: false,
    schemaHide: true,
    setHeaders: (reply, path) => {
      // Names of assets change with their content; the page that names them is asked for each time.
      const isAsset = /[\\/]assets[\\/]/.test(path);
      reply.headers({
        'cache-control': isAsset ? 'public, max-age=31536000, immutable' : 'no-cache',
        'content-security-policy': contentPolicy,
      });
    },
  });
}
