/**
 * Writes the documentation that is generated from code: docs/configuration.md, docs/destinations.md,
 * docs/errors.md, .env.example, and the table of a model's properties in docs/models.md. Works in the
 * current folder, on what `npm run build` made.
 *
 *   node scripts/generate-docs.mjs           writes
 *   node scripts/generate-docs.mjs --check   writes nothing; exits 1 and names the outdated files
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { ModelsFile } from '../dist/foundation/config/models-schema.js';
import { settings } from '../dist/foundation/config/settings.js';
import { errorCatalogue } from '../dist/foundation/domain/errors.js';
import { registry } from '../dist/main/connectors.js';

const from = '`npm run docs` writes this';
const markOf = (what) => `<!-- ${what}: npm run docs writes what is between these marks -->`;

const cell = (text) => text.replaceAll('|', '\\|').replaceAll('\n', ' ');
const code = (text) => (text === '' ? '' : `\`${text}\``);
const row = (cells) => `| ${cells.join(' | ')} |`;
const table = (head, rows) => [row(head), row(head.map(() => '---')), ...rows.map(row)].join('\n');

function settingsTable() {
  return table(
    ['Variable', 'Default', 'Meaning'],
    Object.entries(settings).map(([name, { about, accepts, defaultText, secret }]) => [
      code(name),
      code(defaultText),
      cell(`${about}${accepts === 'text' ? '' : ` (${accepts})`}${secret ? ' *Secret.*' : ''}`),
    ]),
  );
}

function configurationPage() {
  return `# Configuration

You configure Sluice only by environment variables. Each process reads them when it starts, and reports all invalid settings at once. A setting that is *secret* can be in a file instead: \`DATABASE_URL_FILE=/run/secrets/database-url\`, and so on, also for the addresses that models.yaml names. ${from} from \`src/foundation/config/settings.ts\`.

${settingsTable()}

## Memory of a worker

A worker starts a run only if the memory of all its runs fits into \`WORKER_MEMORY_MB\`. Large runs wait in order of arrival, but a run that must leave memory to other organizations waits for its own. If a run needs more than the whole memory, the worker executes it alone. But if it needs that much because of an organization's own plugins, it fails.

A worker reserves:

${table(['For', 'MiB'], memory)}

A run that adds late rows, erases rows, or makes an interval again reads delivered files through \`TMPDIR\`. It needs room for the largest of them, and for 48 bytes per row of the interval.

A run with \`partition_by\` sorts its rows through \`TMPDIR\`. It keeps 16 MiB of rows in memory, and needs room for the others, at most 2 GiB. If \`TMPDIR\` is full, the attempt fails with \`internal.disk_full\`, and Sluice tries it again. A worker does not start if it can make no file there; \`sluice doctor\` and \`/readyz\` try it too (\`internal.temporary_folder\`). The file has no name, so nothing of it stays if the worker dies.

If two workers crash on a run, the next attempt executes in a separate process. A worker has one such process at a time; another run that needs one waits, or executes at another worker. The process may use as much memory as \`WORKER_MEMORY_MB\` in addition, but at least 512 MiB.

### Small runs

Sluice expects a run to be small if the neighbouring intervals were small. It looks at the three intervals before the run and the one after it. Each must have had at most 128 KiB of files and 2,000 rows. If none of these intervals has completed yet, the run counts as small until its first look at the source shows more rows. A run with an organization's own plugins, a run that adds late rows or erases rows, and a run in a process of its own always count as large.

Small runs do not use the slots of \`WORKER_CONCURRENCY\`:

- Each worker executes up to \`WORKER_SMALL_RUNS\` small runs at a time, if they fit into its memory.
- Large runs leave a sixth of the memory to small runs. So a small run does not wait for a large one.
- If no large run waits for memory, small runs use the rest of the free memory too.
- The rules that share slots among organizations also apply to small runs.

A run can be larger than expected. Then it must get the memory of a large run before it reads more than 512 KiB, or makes files for more than about 60 partitions. If this memory is not free, the attempt ends. The run starts again when a slot and the memory are free. For one day, all runs of that export then count as large.

## Costly requests

\`RATE_LIMIT_PER_MINUTE\`, and ten times as much per hour, counts most requests as one. Some requests cost the service more, so they count as several:

${table(['Request', 'Counts as'], costs)}

A request never counts as more than the whole limit. If a request exceeds the limit, the API answers 429, and \`Retry-After\` says when to try again. The headers \`RateLimit-Remaining\` and \`RateLimit-Reset\` say how many requests are left, and when the limit is reset.

\`MAX_STORED_MIB_PER_DAY\` limits how much data the changes of one organization may store per day. It counts deleted data too, because Sluice keeps this data for \`RETENTION_DAYS\`. Each POST, PUT, PATCH and DELETE counts as the size of its body plus 2 KiB for the record of who changed what. Refused requests, previews, tests and trials do not count. The day begins with the first change.

## Prepared statements

Each connection to \`DATABASE_URL\` prepares the statements that most API requests use. This needs no setting. Behind a pooler such as PgBouncer, Sluice prepares no statements, because the next statement may run in another session of the server. Sluice detects a pooler when it opens a connection: a pooler reports a process ID that differs from \`pg_backend_pid()\`.
`;
}

/** What src/service/admission/memory-budget.ts and the encoders reserve. */
const memory = [
  ['The worker itself', '150'],
  ['A small run, whatever its format is', '3'],
  ['Each large run: rows from the source', '8'],
  ['Each large run: encoder of JSONLines or CSV', '4'],
  ['Each large run: encoder of Parquet', '56'],
  ['Each large run: compression of JSONLines or CSV', '12 for gzip, 24 for zstd, 32 for brotli'],
  ['A run with a row of more than 2 MiB in memory', '4 × the size of the row'],
  ['A large run with transformations', '16'],
  ["Each transformation step with an organization's own plugin", '224'],
  ['A run that adds late rows or erases rows: files that it reads back', '80'],
  ['A large run with `partition_by`', '96'],
  ['Each large run: upload', '`UPLOAD_PART_MIB` × (`UPLOAD_PARTS_IN_FLIGHT` + 1)'],
];

/** What src/service/api/hooks/rate-limit.ts and the routes say. */
const costs = [
  ['Preview of rows, test of a destination or of a notification target, trial of a chain', '10'],
  ['Each full 16 KiB of the body', '1 more'],
  ['A page of more than 100 results', '1 more for each 250, so 5 for 1,000'],
];

const faults = {
  customer: 'Errors that the customer must fix',
  destination: 'Problems of the destination',
  source: 'Problems of the source',
  internal: 'Problems of Sluice or its installation',
};

function errorsPage() {
  const sections = Object.entries(faults).map(([fault, title]) => {
    const rows = Object.entries(errorCatalogue)
      .filter(([, spec]) => spec.fault === fault)
      .map(([name, { means, remedy, retryable }]) => [
        code(name),
        cell(means),
        cell(remedy),
        retryable ? 'yes' : 'no',
      ]);
    return `## ${title}\n\n${table(['Code', 'What it means', 'What to do', 'Retried'], rows)}\n`;
  });
  return `# Errors of runs

The field \`latest_error\` of a run has the form \`code: what it means (details) what to do\`. The log of the run has the same text. After some errors Sluice retries the run. When all attempts are used up, the run ends as \`FailedRetryable\`. After any other error, the run ends as \`Failed\` at once. There is one exception: if the destination has worked before, an error of the destination ends the run only if the next attempt ends with the same error. ${from} from \`src/foundation/domain/errors.ts\`.

${sections.join('\n')}`;
}

/** The values that a field takes, from its JSON schema. */
function accepted(schema) {
  const { anyOf, enum: choices, type, items, minimum, maximum } = schema;
  if (anyOf) return anyOf.map(accepted).join(' or ');
  if (choices) return choices.map((choice) => code(String(choice))).join(', ');
  if (type === 'array') return `a list of ${accepted(items)}`;
  return maximum === undefined ? String(type) : `${type}, ${minimum ?? 0} to ${maximum}`;
}

function fieldsTable(properties, required = []) {
  const rows = Object.entries(properties).map(([name, schema]) => [
    code(name),
    cell(accepted(schema)),
    required.includes(name) ? 'required' : code(JSON.stringify(schema.default) ?? ''),
    cell(schema.description ?? ''),
  ]);
  return table(['Field', 'Values', 'Default', 'Meaning'], rows);
}

function destinationsPage() {
  const schemas = registry.destinations.map(({ type, configSchema }) => ({ type, configSchema }));
  const [{ configSchema: first }, ...others] = schemas;
  const shared = Object.keys(first.properties).filter((name) =>
    others.every(({ configSchema }) => name in configSchema.properties),
  );
  const pick = (properties, isShared) =>
    Object.fromEntries(
      Object.entries(properties).filter(([name]) => shared.includes(name) === isShared),
    );
  const own = schemas.map(({ type, configSchema: { description, properties, required } }) => {
    const fields = pick(properties, false);
    const text =
      Object.keys(fields).length > 0 ? fieldsTable(fields, required) : 'No other fields.';
    return `## ${type}\n\n${description}\n\n${text}\n`;
  });
  return `# The config of a destination

The field \`destination\` of an export has the form \`{"type": …, "config": {…}}\`. This page lists all fields of \`config\`. ${from} from the schemas with which the API checks requests.

## File settings of all types

${fieldsTable(pick(first.properties, true), first.required)}

${own.join('\n')}`;
}

/** Wraps the text: people edit this file in a terminal. */
function comment(text) {
  const lines = [''];
  for (const word of text.split(' ')) {
    const line = lines.at(-1);
    if (line !== '' && line.length + word.length > 96) lines.push(word);
    else lines[lines.length - 1] = line === '' ? word : `${line} ${word}`;
  }
  return lines.map((line) => `# ${line}`).join('\n');
}

/** The default as a value for the file; some defaults are words for readers, not values. */
function defaultValue({ defaultText, read }) {
  try {
    read(defaultText);
    return defaultText;
  } catch {
    return '';
  }
}

function environmentExample() {
  const optional = Object.entries(settings)
    .filter(([name]) => name !== 'ENCRYPTION_KEYS')
    .map(([name, setting]) => `${comment(setting.about)}\n# ${name}=${defaultValue(setting)}\n`);
  return `# ${from.replaceAll('`', '')}. For docker compose: cp .env.example .env, and fill in the secrets.

# ── Secrets that docker-compose.yml needs ──
# Letters and digits only: they become part of addresses. openssl rand -hex 24
POSTGRES_PASSWORD=
SOURCE_POSTGRES_PASSWORD=
REDIS_PASSWORD=
# Keys of the S3 server that comes with it.
S3_ACCESS_KEY_ID=
S3_SECRET_ACCESS_KEY=
# k1:<base64 of 32 bytes>: echo "k1:$(openssl rand -base64 32)". Keep a copy: without it, stored credentials are lost.
ENCRYPTION_KEYS=

# ── Settings of docker-compose.yml itself ──
# Tag of the image that is built.
# SLUICE_VERSION=local
# Your models.yaml on this machine: every container gets it, and the migration lets the source role read its tables.
# MODELS_PATH=./models.yaml
# Memory of a worker's container: twice WORKER_MEMORY_MB (at least WORKER_MEMORY_MB + 512 MiB), and some spare.
# WORKER_MEMORY_LIMIT=1280m

# ── Settings of Sluice, with their defaults ──

${optional.join('\n')}`;
}

/** What a model may say, and each of its columns below it. */
function modelRows(schema, prefix = '') {
  return Object.entries(schema.properties).flatMap(([name, property]) => [
    [
      code(prefix + name),
      schema.required?.includes(name) ? 'yes' : '',
      cell(property.description ?? ''),
    ],
    ...(property.items?.properties ? modelRows(property.items, `${prefix}${name}[].`) : []),
  ]);
}

/** The page with what is generated in its place. */
function between(path, what, generated) {
  const text = readFileSync(path, 'utf8');
  const startMark = markOf(what);
  const start = text.indexOf(startMark);
  const end = text.indexOf(`<!-- /${what} -->`);
  if (start < 0 || end < start) throw new Error(`${path} has no place for it: ${startMark}`);
  return `${text.slice(0, start + startMark.length)}\n\n${generated}\n\n${text.slice(end)}`;
}

const modelsPage = () =>
  between(
    'docs/models.md',
    'models',
    table(['Property', 'Required', 'Meaning'], modelRows(ModelsFile.properties.models.items)),
  );

const pages = {
  'docs/configuration.md': configurationPage,
  'docs/destinations.md': destinationsPage,
  'docs/errors.md': errorsPage,
  'docs/models.md': modelsPage,
  '.env.example': environmentExample,
};

function current(path) {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return null;
  }
}

const check = process.argv.includes('--check');
for (const [path, render] of Object.entries(pages)) {
  const text = render();
  if (current(path) === text) continue;
  process.stdout.write(`${path} ${check ? 'is outdated: npm run docs' : 'written'}\n`);
  if (check) {
    process.exitCode = 1;
  } else {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
  }
}
