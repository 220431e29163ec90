/** Writes the types of the client package, client/schema.d.ts, from the OpenAPI document of the build. */
import { existsSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import openapiTypescript from 'openapi-typescript';

process.chdir(fileURLToPath(new URL('..', import.meta.url)));
if (existsSync('dist/service/api/build-api.js')) {
  const { readDocument } = await import('./openapi-document.mjs');
  const types = await openapiTypescript(await readDocument(), { immutableTypes: true });
  writeFileSync('client/schema.d.ts', types);
} else {
  process.stderr.write('There is no build. Run `npm ci && npm run build` first.\n');
  process.exitCode = 1;
}
