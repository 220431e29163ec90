import fastifyStatic from '@fastify/static';
import type { Api } from '../api.ts';

/** Allows only the page's own files and the API on the same host. No inline script or style. */
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
 * Serves the operators' page at /console/ from the folder it was built into, and redirects / to it.
 * Without a folder, both answer 404.
 */
export function serveConsole(api: Api, folder: string | null): void {
  if (folder === null) return;
  api.get('/', { schema: { hide: true } }, async (_request, reply) => reply.redirect('/console/'));
  api.register(fastifyStatic, {
    root: folder,
    prefix: '/console/',
    // One route per file: a missing file gets the API's own 404.
    wildcard: false,
    decorateReply: false,
    cacheControl: false,
    schemaHide: true,
    setHeaders: (reply, path) => {
      // Names of assets change with their content, so they can be cached; the page itself cannot.
      const isAsset = /[\\/]assets[\\/]/.test(path);
      reply.headers({
        'cache-control': isAsset ? 'public, max-age=31536000, immutable' : 'no-cache',
        'content-security-policy': contentPolicy,
      });
    },
  });
}
