/**
 * Writes the service's own OpenAPI document with its pages, dist/api-docs, and from it the types of the API and
 * of calls of it (scripts/api-calls.d.ts), dist/api-schema.d.ts, only if a source of the service is newer. The page and
 * the command line use the types.
 * Needs no database.
 */
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { buildApiDocs } from './build-api-docs.mjs';
import { changedAt } from './changed-at.mjs';

process.chdir(fileURLToPath(new URL('..', import.meta.url)));
const target = 'dist/api-schema.d.ts';
const floors = readdirSync('src').filter((name) => name !== 'clients');
const sources = ['scripts', 'package-lock.json', ...floors.map((name) => `src/${name}`)];

if (Math.max(...sources.map(changedAt)) >= changedAt(target)) {
  // Unchecked, because a check needs the types that this writes.
  const compile = ['node_modules/typescript/bin/tsc', '-p', 'tsconfig.build.json', '--noCheck'];
  execFileSync(process.execPath, compile, { stdio: 'inherit' });
  const { readDocument } = await import('./openapi-document.mjs');
  const { default: openapiTypescript } = await import('openapi-typescript');
  const document = await readDocument();
  buildApiDocs('dist/api-docs', document);
  const types = await openapiTypescript(document, { immutableTypes: true });
  writeFileSync(target, types + readFileSync('scripts/api-calls.d.ts', 'utf8'));
}
