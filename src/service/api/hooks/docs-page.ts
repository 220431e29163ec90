import type { Api } from '../api.ts';
import { serveFile, serveFolder } from '../built-files.ts';

/** Strict, but without the upgrade to https, so the page also works over http in a private network. */
const contentPolicy =
  "default-src 'self'; base-uri 'self'; object-src 'none'; frame-ancestors 'none'; img-src 'self' data:";

/**
 * The OpenAPI document at /api/openapi.json, and its pages at /api/docs, from the folder that they were built into.
 * Without a folder, they answer 404.
 */
export function serveDocs(api: Api, folder: string | null): void {
  if (folder === null) return;
  const headers = { 'content-security-policy': contentPolicy, 'cache-control': 'no-cache' };
  serveFile(api, '/api/openapi.json', `${folder}/openapi.json`, { 'cache-control': 'no-cache' });
  serveFolder(api, '/api/docs/', `${folder}/docs`, () => headers);
}
