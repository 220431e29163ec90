import type { Api, Reply } from '../api.ts';
import { serveFile, serveFolder } from '../built-files.ts';
import type { FastifyPluginCallback } from 'fastify';
import { type OperatorAccess, requireOperator } from './operator-access.ts';

/** Allows only the page's own files and the API on the same host. No inline script or style. */
const consolePolicy = [
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
    'content-security-policy': consolePolicy,
  }));
}

/** Strict, but without the upgrade to https, so the page also works over http in a private network. */
const docsPolicy =
  "default-src 'self'; base-uri 'self'; object-src 'none'; frame-ancestors 'none'; img-src 'self' data:";

/**
 * The OpenAPI document at /api/openapi.json, and its pages at /api/docs, from the folder that they were built into.
 * Without a folder, they answer 404.
 */
export function serveDocs(api: Api, folder: string | null): void {
  if (folder === null) return;
  const headers = { 'content-security-policy': docsPolicy, 'cache-control': 'no-cache' };
  serveFile(api, '/api/openapi.json', `${folder}/openapi.json`, { 'cache-control': 'no-cache' });
  serveFolder(api, '/api/docs/', `${folder}/docs`, () => headers);
}

const boardPolicy =
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
        reply.header('content-security-policy', boardPolicy);
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
