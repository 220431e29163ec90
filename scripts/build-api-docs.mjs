import { cpSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { compressFiles } from './compress-files.mjs';

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
<script src="/api/docs/static/start.js"></script>
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

const taken = ['swagger-ui-bundle.js', 'swagger-ui.css', 'favicon-32x32.png'];

/** Writes the OpenAPI document and its pages into `folder`, as the API serves them. */
export function buildApiDocs(folder, document) {
  const pages = `${folder}/docs`;
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(`${pages}/static`, { recursive: true });
  writeFileSync(`${folder}/openapi.json`, JSON.stringify(document));
  writeFileSync(`${pages}/index.html`, page);
  writeFileSync(`${pages}/static/start.js`, start);
  const resolve = createRequire(import.meta.url).resolve;
  const installed = path.dirname(resolve('@fastify/swagger-ui/static/index.css'));
  for (const name of taken) cpSync(`${installed}/${name}`, `${pages}/static/${name}`);
  compressFiles(folder);
}
