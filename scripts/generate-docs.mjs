/**
 * Writes the documentation that is generated from code: docs/destinations.md, docs/errors.md, .env.example, and the
 * table of a model's properties in docs/models.md. Works in the current folder, on what `npm run build` made.
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

/** A setting's meaning and values. A default that is no value, such as that of another setting, is named too. */
function textOf(setting) {
  const { about, accepts, defaultText, secret } = setting;
  const isWord = defaultText !== '' && defaultValue(setting) === '';
  const facts = [
    ...(accepts === 'text' ? [] : [accepts]),
    ...(isWord ? [`default: ${defaultText}`] : []),
    ...(secret ? ['secret'] : []),
  ];
  return facts.length === 0 ? about : `${about} (${facts.join('; ')})`;
}

function environmentExample() {
  const optional = Object.entries(settings)
    .filter(([name]) => name !== 'ENCRYPTION_KEYS')
    .map(([name, setting]) => `${comment(textOf(setting))}\n# ${name}=${defaultValue(setting)}\n`);
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
