import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { stringify } from 'yaml';
import { insertRuns } from '../../src/state/store/runs/runs.ts';
import { runCli } from '../support/cli.ts';
import {
  createS3Export,
  projectPath,
  readRuns,
  retireExports,
  untilEnded,
} from '../support/exported-events.ts';
import { bucket, type Installation, startInstallation } from '../support/installation.ts';
import { findBreaches } from '../support/invariants.ts';
import { shopModels, shopVariable } from '../support/stranger-shop.ts';

const hourMs = 3_600_000;
const firstStart = Date.parse('2024-03-01T00:00:00Z');

const customers = {
  name: 'customers',
  relation: 'public.customers',
  source: shopVariable,
  tenant_column: 'account',
  key_columns: ['id'],
  version_column: 'version',
  deletes: 'tombstones',
  tombstone_relation: 'public.gone_customers',
  columns: [
    { name: 'id', type: 'bigint' },
    { name: 'name', type: 'text' },
  ],
};

let installation: Installation;
let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'sluice-changes-'));
  const file = path.join(folder, 'models.yaml');
  await writeFile(file, stringify({ models: [...shopModels, customers] }));
  installation = await startInstallation({ workers: 1, env: { MODELS_FILE: file } });
  const { shop } = installation;
  await shop.query(
    'create table public.customers (account int, id bigint, name text, primary key (account, id))',
  );
  const printed = await runCli(['models', 'trigger', 'customers', '--json'], {
    env: installation.env,
  });
  for (const { sql } of JSON.parse(printed.out)) await shop.query(sql);
  // As sluice models grants prints it.
  await shop.query('grant select on public.gone_customers to public');
}, 240_000);
afterEach(async () => {
  await retireExports(installation);
  await installation.shop.query('delete from public.customers');
});
afterAll(async () => {
  await installation?.close();
  await rm(folder, { recursive: true, force: true });
});

const account = () => installation.tenant.projectIds[0];

async function write(id: number, name: string): Promise<void> {
  await installation.shop.query(
    `insert into public.customers values ($1, $2, $3) on conflict (account, id) do update set name = excluded.name`,
    [account(), id, name],
  );
}

const remove = (id: number) =>
  installation.shop.query('delete from public.customers where account = $1 and id = $2', [
    account(),
    id,
  ]);

const createChanges = () => createS3Export(installation, { model: 'customers', mode: 'changes' });

/** The schedule asks for an hour. */
async function ask(exportId: string, index: number): Promise<void> {
  const interval = {
    start: firstStart + index * hourMs,
    end: firstStart + (index + 1) * hourMs,
  };
  const [made] = await insertRuns(installation.db, [
    { exportId, teamId: account(), interval, backfillId: null },
  ]);
  expect(made).toBeDefined();
}

async function take(exportId: string, index: number): Promise<void> {
  const { length: before } = await readRuns(installation, exportId);
  await ask(exportId, index);
  const runs = await untilEnded(installation, exportId, { count: before + 1 });
  expect(runs.map(({ status }) => status)).toEqual(runs.map(() => 'Completed'));
}

interface SeenManifest {
  readonly mode: string;
  readonly element: {
    readonly number: number;
    readonly follows: number | null;
    readonly base: string | null;
    readonly deletes: number;
  };
  readonly files: readonly { readonly key: string }[];
}

/** The manifests of an export that a reader finds in the bucket, by their numbers. */
async function elementsOf(exportId: string): Promise<readonly SeenManifest[]> {
  const { s3 } = installation;
  const keys = (await s3.objects(bucket)).map(({ key }) => key);
  const found = await Promise.all(
    keys
      .filter((key) => key.startsWith(`${exportId}/`) && key.endsWith('_manifest.json'))
      .map(async (key) => JSON.parse(String(await s3.body(bucket, key))) as SeenManifest),
  );
  return found.toSorted((a, b) => a.element.number - b.element.number);
}

/** The rows after all elements, by id. */
async function replay(exportId: string): Promise<Readonly<Record<number, string>>> {
  const rows = new Map<number, string>();
  for (const { element, files } of await elementsOf(exportId)) {
    if (element.follows === null) rows.clear();
    for (const { key } of files) {
      const lines = String(await installation.s3.body(bucket, key))
        .split('\n')
        .filter(Boolean);
      for (const line of lines) {
        const { id, name, _sluice_op: op } = JSON.parse(line);
        if (op === 'd') rows.delete(id);
        else rows.set(id, name);
      }
    }
  }
  return Object.fromEntries(rows);
}

test('a base and its changes give the rows of the source, and verify reads them', async () => {
  const { client } = installation;
  await write(1, 'Ada');
  await write(2, 'Bob');
  const id = await createChanges();
  await take(id, 0);
  await write(2, 'Robert');
  await write(3, 'Cleo');
  await remove(1);
  await take(id, 1);
  await take(id, 2);
  expect((await elementsOf(id)).map(({ mode, element }) => ({ mode, ...element }))).toMatchObject([
    { mode: 'changes', number: 0, follows: null, base: 'it is the first one at this destination' },
    { number: 1, follows: 0, base: null, deletes: 1 },
    { number: 2, follows: 1, base: null },
  ]);
  expect(await replay(id)).toEqual({ 2: 'Robert', 3: 'Cleo' });

  // A delivered element is the only copy of its changes.
  const [run] = await readRuns(installation, id);
  const at = `${projectPath(installation)}/batch_exports/${id}`;
  const refused = await client.post(`${at}/runs/${run?.id}/retry/`, {});
  expect(refused).toMatchObject({ status: 400 });
  expect(refused.body.detail).toContain('new_base');

  expect((await client.patch(`${at}/`, { new_base: 1 })).status).toBe(200);
  await take(id, 3);
  const last = (await elementsOf(id)).at(-1);
  expect(last?.element).toMatchObject({
    number: 3,
    follows: null,
    base: 'new_base of the export was raised',
  });
  expect(await replay(id)).toEqual({ 2: 'Robert', 3: 'Cleo' });
  expect((await findBreaches(installation)).breaches).toEqual([]);
}, 120_000);

test.each(['before_manifest', 'after_manifest'])(
  'a worker that dies at %s leaves elements that any reader can apply',
  async (point) => {
    await write(1, 'Ada');
    const id = await createChanges();
    await take(id, 0);
    await installation.stopWorkers();
    await write(2, 'Bob');
    const doomed = await installation.startWorker({ FAILPOINTS: `${point}=kill` });
    await ask(id, 1);
    expect(await doomed.waitForExit(60_000)).toMatchObject({ signal: 'SIGKILL' });
    const early = await replay(id);
    expect(early).toEqual(point === 'after_manifest' ? { 1: 'Ada', 2: 'Bob' } : { 1: 'Ada' });
    await write(1, 'Eve');
    await remove(2);
    await installation.startWorker();
    await untilEnded(installation, id, { count: 2 });
    await take(id, 2);
    expect(await replay(id)).toEqual({ 1: 'Eve' });
    const numbers = (await elementsOf(id)).map(({ element }) => element.number);
    expect(numbers).toEqual(point === 'after_manifest' ? [0, 1, 2] : [0, 2, 3]);
    expect((await findBreaches(installation)).breaches).toEqual([]);
  },
  120_000,
);

test('a model without a version allows no changes', async () => {
  const { client } = installation;
  const created = await client.post(`${projectPath(installation)}/batch_exports/`, {
    name: 'x',
    model: 'orders',
    mode: 'changes',
    interval: 'hour',
    destination: { type: 'NoOp', config: {} },
  });
  expect(created).toMatchObject({ status: 400 });
  expect(JSON.stringify(created.body)).toContain('version_column');
});

test('a query without the key is refused, by which readers apply changes', async () => {
  const { client } = installation;
  const path = `${projectPath(installation)}/batch_exports/`;
  const body = {
    ...{ name: 'x', model: 'customers', mode: 'changes', interval: 'hour' },
    destination: { type: 'NoOp', config: {} },
  };
  const refused = { status: 400, body: { attr: 'dsl_query' } };
  const query = (dsl_query: string) => ({ ...body, dsl_query });
  const unkeyed = 'SELECT name FROM customers';
  expect(await client.post(path, query(unkeyed))).toMatchObject(refused);
  expect(await client.post(path, query('SELECT id + 1 AS id FROM customers'))).toMatchObject(
    refused,
  );
  const id = await createChanges();
  expect(await client.patch(`${path}${id}/`, { dsl_query: unkeyed })).toMatchObject(refused);
  const keyed = 'SELECT id AS customer, name FROM customers';
  expect((await client.patch(`${path}${id}/`, { dsl_query: keyed })).status).toBe(200);
});
