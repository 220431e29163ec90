import type { Api } from '../api.ts';
import { serveFolder } from '../built-files.ts';

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
  serveFolder(api, '/console/', folder, (name) => ({
    // Names of assets change with their content, so they can be cached; the page itself cannot.
    'cache-control': name.startsWith('assets/')
      ? 'public, max-age=31536000, immutable'
      : 'no-cache',
    'content-security-policy': contentPolicy,
  }));
}
