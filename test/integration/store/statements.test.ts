import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { Client } from 'pg';
import { createServer, type ViteDevServer } from 'vite';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { createTestDatabase } from '../../support/database.ts';
import { openTestPool } from '../../support/run-side.ts';
import { composeStatements, type Load } from '../../support/statements/composed.ts';
import { describeStatement } from '../../support/statements/describe-statement.ts';
import { findStatements, recordStatements } from '../../support/statements/find-statements.ts';

const root = path.resolve(import.meta.dirname, '../../..');
const store = path.join(root, 'src/state/store');
const files = path.join(root, 'test/statements');

type Prepared = typeof import('../../../src/state/store/database/prepared.ts');
/** Of the module that knows the recorded statements. */
let isPlannedOnce: Prepared['isPlannedOnce'];

/** They open connections, and pass on the statements of others. */
const plumbing = ['counted', 'database', 'migrate', 'role-settings', 'sessions', 'statement'].map(
  (name) => `database/${name}.ts`,
);

const modules = readdirSync(store, { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.ts') && !plumbing.includes(name))
  .sort();
const folders = [...new Set(modules.map((name) => path.dirname(name)))];

interface Recorded {
  readonly module: string;
  readonly index: number;
  readonly text: string;
}

let server: ViteDevServer;
let client: Client;
const recorded: Recorded[] = [];
const typeNames = new Map<number, string>();
const none = { query: () => Promise.resolve([]) };

beforeAll(async () => {
  vi.stubGlobal('recordStatement', (module: string, index: number, text: unknown) => {
    if (typeof text !== 'string') throw new Error(`${module}: a statement is no text`);
    recorded.push({ module, index, text });
    return text;
  });
  server = await createServer({
    root,
    configFile: false,
    appType: 'custom',
    logLevel: 'error',
    server: { middlewareMode: true, watch: null, ws: false, hmr: false },
    optimizeDeps: { noDiscovery: true },
    plugins: [
      {
        name: 'record-statements',
        enforce: 'pre',
        transform: (text, id) => {
          const module = path.relative(store, id);
          return modules.includes(module) ? recordStatements(module, text) : undefined;
        },
      },
    ],
  });
  const load = (name: string) => server.ssrLoadModule(path.join(store, name));
  for (const module of modules) await load(module);
  ({ isPlannedOnce } = (await load('database/prepared.ts')) as Prepared);
  const { url } = await createTestDatabase();
  const pool = openTestPool(url, 1);
  await composeStatements(load as Load, none, pool);
  await pool.close();
  client = new Client({ connectionString: url });
  await client.connect();
  const { rows } = await client.query<{ oid: number; name: string }>(
    'select oid, format_type(oid, null) as name from pg_type',
  );
  for (const { oid, name } of rows) typeNames.set(oid, name);
});
afterAll(async () => {
  vi.unstubAllGlobals();
  await client.end();
  await server.close();
});

it('each statement of the store is prepared', () => {
  const found = modules.flatMap((module) =>
    findStatements(module, readFileSync(path.join(store, module), 'utf8')).map((place, index) => ({
      ...place,
      module,
      index,
    })),
  );
  expect(found.length).toBeGreaterThan(300);
  const missing = found.filter(
    ({ module, index }) => !recorded.some((one) => one.module === module && one.index === index),
  );
  // A statement whose text depends on arguments needs a call in test/support/statements/composed.ts.
  expect(missing.map(({ name }) => name)).toEqual([]);
});

it.each(folders)('the statements of %s are valid, and those of its file', async (folder) => {
  const texts = new Map<string, Set<string>>();
  const ofFolder = recorded.filter(({ module }) => path.dirname(module) === folder);
  const order = (a: Recorded, b: Recorded) =>
    modules.indexOf(a.module) - modules.indexOf(b.module) || a.index - b.index;
  for (const { module, index, text } of ofFolder.toSorted(order)) {
    const places = findStatements(module, readFileSync(path.join(store, module), 'utf8'));
    const names = texts.get(text) ?? new Set();
    texts.set(text, names.add(places[index]?.name ?? ''));
  }
  const described: string[] = [];
  for (const [text, names] of texts) described.push(await describe(text, listNames([...names])));
  await expect(described.join('\n')).toMatchFileSnapshot(path.join(files, `${folder}.sql`));
});

it('no file is left of a folder that is gone', () => {
  expect(readdirSync(files).sort()).toEqual(folders.map((folder) => `${folder}.sql`));
});

/** `runs/claims.ts lockRuns, lockRunsSql`. */
function listNames(names: readonly string[]): string {
  const module = names[0]?.split(' ')[0] ?? '';
  return names.map((name, index) => (index > 0 ? name.replace(`${module} `, '') : name)).join(', ');
}

/** The statement with the types of its parameters and columns. */
async function describe(text: string, names: string): Promise<string> {
  const { parameters, columns } = await describeStatement(client, text).catch((error: Error) => {
    throw new Error(`${names}: ${error.message}\n${text}`, { cause: error });
  });
  const taken = parameters.map((type, index) => `$${index + 1} ${typeNames.get(type)}`);
  const given = columns.map(({ name, type }) => `${name} ${typeNames.get(type)}`);
  return [
    `-- ${names}`,
    ...(isPlannedOnce(text) ? ['-- is planned once'] : []),
    ...(taken.length > 0 ? [`-- takes ${taken.join(', ')}`] : []),
    ...(given.length > 0 ? [`-- gives ${given.join(', ')}`] : []),
    `${text.replace(/[ \t]+$/gm, '')};\n`,
  ].join('\n');
}
