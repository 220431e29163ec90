import { createRequire } from 'node:module';
import { dirname } from 'node:path';
import type { Api } from '../api.ts';
import { serveFolder, servePrepared } from '../prepared-answers.ts';

/** Strict, but without the upgrade to https, so the page also works over http in a private network. */
const contentPolicy =
  "default-src 'self'; base-uri 'self'; object-src 'none'; frame-ancestors 'none'; img-src 'self' data:";

const page = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Sluice API</title>
<link rel="stylesheet" href="/api/docs/static/swagger-ui.css">
<link rel="icon" type="image/png" href="/api/docs/static/favicon-32x32.png" sizes="32x32">
</head>
<body>
<div id="swagger-ui"></div>
<script src="/api/docs/static/swagger-ui-bundle.js"></script>
<script src="/api/docs/static/swagger-initializer.js"></script>
</body>
</html>
`;

const start = `window.onload = () => SwaggerUIBundle({
  url: '/api/openapi.json',
  dom_id: '#swagger-ui',
  deepLinking: true,
  presets: [SwaggerUIBundle.presets.apis],
  validatorUrl: null,
});
`;

/** The OpenAPI document at /api/openapi.json, and its pages at /api/docs. */
export function serveDocs(api: Api): void {
  const headers = { 'content-security-policy': contentPolicy, 'cache-control': 'no-cache' };
  const asset = createRequire(import.meta.url).resolve('@fastify/swagger-ui/static/index.css');
  const fixed = '/api/docs/static/';
  servePrepared(
    api,
    '/api/openapi.json',
    'openapi.json',
    { 'cache-control': 'no-cache' },
    async () => JSON.stringify(api.swagger()),
  );
  servePrepared(api, '/api/docs', 'index.html', headers, async () => page);
  servePrepared(api, `${fixed}swagger-initializer.js`, 'start.js', headers, async () => start);
  serveFolder(api, fixed, dirname(asset), () => headers);
}
