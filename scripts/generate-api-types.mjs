/**
 * Writes the types of the API's answers, src/console/api-schema.d.ts, from the service's own OpenAPI
 * document. The page and the quickstart use them. Works on what `npm run build` made; no database.
 *
 *   node scripts/generate-api-types.mjs           writes
 *   node scripts/generate-api-types.mjs --check   writes nothing; exits 1 if the file is stale
 */
import { randomBytes } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import openapiTypescript from 'openapi-typescript';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import { buildApi } from '../dist/api/build-api.js';
import { readConfig } from '../dist/config/config.js';
import { eventsModel } from '../dist/domain/events-model.js';
import { registry } from '../dist/main/connectors.js';
import { policyOf } from '../dist/main/policy.js';
import { createSecretBox } from '../dist/security/secret-box.js';

const target = 'src/console/api-schema.d.ts';

/** The document of an API that serves no request: it opens no database and no queue. */
async function readDocument() {
  const unused = () => {
    throw new Error('the document needs no database, queue or source');
  };
  const api = await buildApi({
    context: {
      db: { query: unused, transaction: unused, close: unused },
      policy: policyOf(readConfig({})),
      secrets: createSecretBox([{ id: 'unused', key: randomBytes(32) }]),
      doorbell: { runsWaiting: unused, backfillWaiting: unused },
    },
    destinations: registry.destinations,
    destinationContext: {},
    models: [eventsModel],
    checkQuery: unused,
    previewRows: unused,
    metrics: new Registry(),
    logger: pino({ level: 'silent' }),
    trustProxy: false,
    publicUrl: null,
    failedKeysPerMinute: 1,
    rateLimit: { perMinute: 1, perHour: 1 },
    readiness: unused,
    queueBoard: null,
    consoleDir: null,
  });
  await api.ready();
  const document = api.swagger();
  await api.close();
  return document;
}

const prefix = '/api/projects/{project_id}/batch_exports';
const unneeded = new Set(['description', 'examples', 'format', 'headers']);

/** The part that is about answers to the page and the quickstart: no requests, no prose. */
function answersOf({ openapi, info, components, paths }) {
  const kept = Object.entries(paths).filter(([path]) => path.startsWith(prefix));
  const operations = kept.map(([path, methods]) => [
    path,
    Object.fromEntries(
      Object.entries(methods).map(([method, { responses }]) => [
        method,
        { responses: pick(responses, (status) => status.startsWith('2')) },
      ]),
    ),
  ]);
  const used = new Set(['Error']);
  const read = (value) => {
    for (const [, name] of JSON.stringify(value).matchAll(/#\/components\/schemas\/(\w+)/g)) {
      if (used.has(name)) continue;
      used.add(name);
      read(components.schemas[name]);
    }
  };
  read(operations);
  const schemas = pick(components.schemas, (name) => used.has(name));
  return withoutProse({
    openapi,
    info,
    paths: Object.fromEntries(operations),
    components: { schemas },
  });
}

const pick = (object, test) =>
  Object.fromEntries(Object.entries(object).filter(([name]) => test(name)));

/** Removes keywords of prose, but not properties that have the name of such a keyword. */
function withoutProse(value, isNames = false) {
  if (Array.isArray(value)) return value.map((item) => withoutProse(item));
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).filter(([name]) => isNames || !unneeded.has(name));
  return Object.fromEntries(
    entries.map(([name, item]) => [name, withoutProse(item, !isNames && name === 'properties')]),
  );
}

const written = await openapiTypescript(answersOf(await readDocument()), {
  immutableTypes: true,
  commentHeader:
    '/** Written by `npm run api-types` from the OpenAPI document. Do not edit. */\n\n',
});
const text = written
  // Remarks without content.
  .replaceAll(/^ *\/\*\* @enum \{\w+\} \*\/\n/gm, '')
  // An answer with a name, in one line.
  .replaceAll(
    /\{\n +(\d+): \{\n +content: \{\n +readonly ("application\/json": [^\n{]+;)\n +\};\n +\};\n +\};/g,
    '{ $1: { content: { readonly $2 } } };',
  );

function current() {
  try {
    return readFileSync(target, 'utf8');
  } catch {
    return null;
  }
}

if (current() !== text) {
  const check = process.argv.includes('--check');
  process.stdout.write(`${target} ${check ? 'is stale: run npm run api-types' : 'written'}\n`);
  if (check) process.exitCode = 1;
  else writeFileSync(target, text);
}
