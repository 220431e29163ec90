import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { afterEach, beforeAll, expect, test } from 'vitest';
import { stringify } from 'yaml';
import { s3Definition } from '../../src/rows/destinations/s3/definition.ts';
import { contextWith, owner } from '../conformance/destination-suite.ts';
import { expectRight, makeStatement as stateNow } from '../support/checked-place.ts';
import { runCli } from '../support/cli.ts';
import { elementRuns } from '../support/element-runs.ts';
import {
  createS3Export,
  projectPath,
  readRuns,
  retireExports,
  type S3ExportChanges,
  untilEnded,
} from '../support/exported-events.ts';
import { readByIcebird, snapshotsOf } from '../support/icebird.ts';
import { bucket, region, startInstallation } from '../support/installation.ts';
import { findBreaches } from '../support/invariants.ts';
import { folderOfTests } from '../support/own-folder.ts';
import { shopModels, shopVariable } from '../support/stranger-shop.ts';
import { until } from '../support/until.ts';
import { useStage } from '../support/use-stage.ts';
import { atNight } from '../support/nightly.ts';

const hourMs = 3_600_000;
const firstStart = Date.parse('2024-03-01T00:00:00Z');

/** A table that was not made for exports: no column says when a row arrived or changed. */
const customers = {
  name: 'customers',
  relation: 'public.customers',
  source: shopVariable,
  tenant_column: 'account',
  key_columns: ['id'],
  columns: [
    { name: 'id', type: 'bigint' },
    { name: 'name', type: 'text' },
  ],
};

const folder = folderOfTests();

const installation = useStage(async () => {
  const file = path.join(folder, 'models.yaml');
  await writeFile(file, stringify({ models: [...shopModels, customers] }));
  return startInstallation({ workers: 1, env: { MODELS_FILE: file } });
});
beforeAll(() =>
  installation.shop.query(
    'create table public.customers (account int, id bigint, name text, primary key (account, id))',
  ),
);
afterEach(async () => {
  await retireExports(installation);
  await installation.shop.query('truncate public.customers');
});

const { account, ask, take } = elementRuns(() => installation);

/** The rows of the tenant are these, and another tenant has one too. */
async function setRows(rows: Readonly<Record<number, string>>): Promise<void> {
  const { shop } = installation;
  const names = Object.entries(rows).map(([id, name]) => ({ id: Number(id), name }));
  const ids = names.map(({ id }) => id);
  await shop.query('delete from public.customers where id <> all ($1::bigint[])', [ids]);
  await shop.query(
    `insert into public.customers select $1, id, name from jsonb_to_recordset($2::jsonb) as r (id bigint, name text)
     on conflict (account, id) do update set name = excluded.name where customers.name <> excluded.name`,
    [account(), JSON.stringify(names)],
  );
  await shop.query(
    `insert into public.customers values ($1, 1, 'of another') on conflict do nothing`,
    [account() + 1],
  );
}

const createSnapshots = (changes: S3ExportChanges = {}) =>
  createS3Export(installation, { model: 'customers', mode: 'snapshot', ...changes });

interface SeenManifest {
  readonly data_interval_start: string;
  readonly mode: string;
  readonly snapshot_at: string | null;
  readonly removed_by?: string;
  readonly total_rows: number;
  readonly generation: number;
  readonly files: readonly { readonly key: string }[];
}

/** The current manifests of an export, the oldest interval first. */
async function manifestsOf(exportId: string): Promise<readonly SeenManifest[]> {
  const { s3, sql } = installation;
  const { rows } = await sql<{ key: string }>`select manifest_key as key from receipts
    where export_id = ${exportId} order by data_interval_start`;
  return Promise.all(
    rows.map(async ({ key }) => JSON.parse(String(await s3.body(bucket, key))) as SeenManifest),
  );
}

/** The rows of a manifest's files, by id. */
async function rowsOf({ files }: SeenManifest): Promise<Readonly<Record<number, string>>> {
  const { s3 } = installation;
  const texts = await Promise.all(files.map(async ({ key }) => String(await s3.body(bucket, key))));
  const lines = texts.flatMap((text) => text.split('\n').filter(Boolean));
  return Object.fromEntries(
    lines.map((line) => JSON.parse(line)).map(({ id, name }) => [id, name]),
  );
}

/** Makes a statement, and gives its bookings. */
const makeStatement = async (id: string) => (await stateNow(installation, id)).bookings;

const coverageOf = async (id: string, from: number) => {
  const [start, end] = [from, from + 3 * hourMs].map((at) => new Date(at).toISOString());
  const query = `from=${start}&to=${end}`;
  const { body } = await installation.client.get(
    `${projectPath(installation)}/batch_exports/${id}/coverage/?${query}`,
  );
  return (body.ranges as { state: string; intervals: number }[]).map(
    ({ state, intervals }) => `${state} ${intervals}`,
  );
};

test('each snapshot has all rows of the tenant as they are then, keep_snapshots removes older ones, and all of it is proven', async () => {
  const { client } = installation;
  await setRows({ 1: 'Ada', 2: 'Bob', 3: 'Cleo' });
  const id = await createSnapshots({ keep_snapshots: 2 });
  const began = Date.now();
  await take(id, 0);
  await setRows({ 1: 'Ada', 2: 'Robert', 4: 'Dan' });
  await take(id, 1);
  const [first, second] = await manifestsOf(id);
  if (!first || !second) throw new Error('there are no manifests');
  expect(await rowsOf(first)).toEqual({ 1: 'Ada', 2: 'Bob', 3: 'Cleo' });
  expect(await rowsOf(second)).toEqual({ 1: 'Ada', 2: 'Robert', 4: 'Dan' });
  expect(first).toMatchObject({ mode: 'snapshot', total_rows: 3 });
  expect(Date.parse(String(first.snapshot_at))).toBeGreaterThanOrEqual(began - 1_000);
  expect(String(second.snapshot_at) > String(first.snapshot_at)).toBe(true);
  expect((await makeStatement(id)).map(({ kind }) => kind)).toEqual(['delivered', 'delivered']);

  // Again: the rows of now, under a new generation; a row that is gone needs a person's word.
  const [run] = await readRuns(installation, id);
  const retry = `${projectPath(installation)}/batch_exports/${id}/runs/${run?.id}/retry/`;
  expect((await client.post(retry, {})).status).toBe(201);
  const [, refused] = await untilEnded(installation, id, { count: 3 });
  expect(refused).toMatchObject({ status: 'Failed', errorCode: 'source.rows_missing' });
  expect((await client.post(retry, { missing_rows: 'drop' })).status).toBe(201);
  await untilEnded(installation, id, { count: 4 });
  const [again] = await manifestsOf(id);
  if (!again) throw new Error('there is no manifest');
  expect(await rowsOf(again)).toEqual({ 1: 'Ada', 2: 'Robert', 4: 'Dan' });
  expect(again.generation).toBeGreaterThan(first.generation);
  expect(String(again.snapshot_at) > String(second.snapshot_at)).toBe(true);

  await ask(id, 2);
  await until(async () => (await manifestsOf(id))[0]?.removed_by === 'keep_snapshots', {
    message: 'the oldest snapshot is removed',
  });
  await until(async () => {
    const left = (await installation.s3.objects(bucket)).filter(
      ({ key }) => key.startsWith(`${id}/2024-03-01T00`) && !key.endsWith('_manifest.json'),
    );
    return left.length === 0;
  });
  const kept = await manifestsOf(id);
  expect(kept.map(({ files }) => files.length)).toEqual([0, 1, 1]);
  expect(kept[0]).toMatchObject({ mode: 'snapshot', snapshot_at: null, total_rows: 0 });
  const bookings = await makeStatement(id);
  expect(bookings).toMatchObject([
    { kind: 'delivered' },
    { kind: 'removed', before: { rows: 3 }, after: { rows: 3 } },
    {
      kind: 'removed',
      before: { rows: 3 },
      after: { state: 'empty', rows: 0, files: 0 },
      note: { by: 'rule', request: 'keep_snapshots', shown: 3 },
    },
  ]);
  await expectRight(installation, id);
  const { verified, breaches } = await findBreaches(installation);
  expect(breaches).toEqual([]);
  expect(verified).toMatchObject({ intervals: 3, rows: 6 });
  expect(await coverageOf(id, firstStart)).toEqual(['done 3']);

  // A removed snapshot is not made again.
  const { status, body } = await client.post(retry, { missing_rows: 'drop' });
  expect([status, body.detail]).toEqual([400, expect.stringContaining('keep_snapshots')]);
  const at = `${projectPath(installation)}/batch_exports/${id}/`;
  const lowered = await client.patch(at, { keep_snapshots: 1 });
  expect(lowered.headers.get('sluice-warning')).toContain('removes the files of 1 older snapshot.');
});

atNight('a missed outage gives one snapshot, and no gap', async () => {
  const { pool, sql, client } = installation;
  await setRows({ 1: 'Ada' });
  const id = await createSnapshots({ end_at: null });
  const now = Math.floor(Date.now() / hourMs) * hourMs;
  const schedule = { openIntervalStart: now - 3 * hourMs, nextTickAt: now - 2 * hourMs };
  await pool.query(
    `update batch_exports set schedule = schedule || $2::jsonb, next_tick_at = to_timestamp($3 / 1000.0) where id = $1`,
    [id, JSON.stringify(schedule), schedule.nextTickAt],
  );
  const runs = await untilEnded(installation, id);
  expect(runs).toMatchObject([{ status: 'Completed', rows: 1 }]);
  const { rows: ticks } = await sql`select fate from ticks where export_id = ${id}
    order by tick_at`;
  expect(ticks.map(({ fate }) => fate)).toEqual(['superseded', 'superseded', 'ran']);
  expect(await coverageOf(id, now - 3 * hourMs)).toEqual(['superseded 2', 'done 1']);
  const { body } = await client.get(`${projectPath(installation)}/batch_exports/${id}/`);
  expect(body).toMatchObject({
    health: 'fine',
    high_water_mark: new Date(now).toISOString().replace('.000Z', '.000000Z'),
  });
  const bookings = await makeStatement(id);
  expect(bookings.map(({ kind }) => kind)).toEqual(['accepted', 'accepted', 'delivered']);
  expect(bookings[0]).toMatchObject({ note: { by: 'rule' } });
  await expectRight(installation, id);
  expect((await findBreaches(installation)).breaches).toEqual([]);
});

atNight('the newer snapshot takes the place of one that fails', async () => {
  const { pool } = installation;
  await setRows({ 1: 'Ada' });
  const id = await createSnapshots({ end_at: null });
  await installation.shop.query('alter table public.customers rename to away');
  const now = Math.floor(Date.now() / hourMs) * hourMs;
  await ask(id, 0);
  await until(async () => (await readRuns(installation, id))[0]?.status === 'Failed');
  await installation.shop.query('alter table public.away rename to customers');
  const schedule = { openIntervalStart: now - hourMs, nextTickAt: now };
  await pool.query(
    `update batch_exports set schedule = schedule || $2::jsonb, next_tick_at = to_timestamp($3 / 1000.0) where id = $1`,
    [id, JSON.stringify(schedule), now],
  );
  await until(async () => (await manifestsOf(id)).length === 1);
  expect((await pool.query('select from holes where export_id = $1', [id])).rowCount).toBe(0);
  const [failed] = await readRuns(installation, id);
  const retry = await installation.client.post(
    `${projectPath(installation)}/batch_exports/${id}/runs/${failed?.id}/retry/`,
    {},
  );
  expect(retry).toMatchObject({ status: 400 });
  expect(retry.body.detail).toContain('taken the place');
});

atNight(
  'an Iceberg table has the newest snapshot, and an older one that is made again changes nothing',
  async () => {
    await setRows({ 1: 'Ada', 2: 'Bob' });
    const id = await createSnapshots({
      config: { prefix: 'lake/{table}', file_format: 'Parquet', table_format: 'iceberg' },
    });
    const destination = s3Definition.open(
      {
        bucket_name: bucket,
        region,
        endpoint_url: installation.s3.endpoint,
        aws_access_key_id: installation.secrets.get('the access key id'),
        aws_secret_access_key: installation.secrets.get('the secret access key'),
      },
      contextWith({}),
      owner,
    );
    const tableRows = async () => {
      const rows = await readByIcebird(destination, 'lake/customers');
      return rows.map(({ id: key, name }) => `${key} ${name}`).sort();
    };
    try {
      await take(id, 0);
      expect(await tableRows()).toEqual(['1 Ada', '2 Bob']);
      await setRows({ 1: 'Ada', 3: 'Cleo' });
      await take(id, 1);
      expect(await tableRows()).toEqual(['1 Ada', '3 Cleo']);
      // Time travel: the earlier one is still there.
      const [before] = await snapshotsOf(destination, 'lake/customers');
      expect(await readByIcebird(destination, 'lake/customers', before)).toHaveLength(2);
      await setRows({ 1: 'Ada', 2: 'Bob', 3: 'Cleo', 4: 'Dan' });
      const [run] = await readRuns(installation, id);
      const path = `${projectPath(installation)}/batch_exports/${id}/runs/${run?.id}/retry/`;
      expect((await installation.client.post(path, {})).status).toBe(201);
      await untilEnded(installation, id, { count: 3 });
      expect(await tableRows()).toEqual(['1 Ada', '3 Cleo']);
      expect((await findBreaches(installation)).breaches).toEqual([]);
      await makeStatement(id);
      await expectRight(installation, 'lake/customers');
    } finally {
      await destination.close();
    }
  },
);

test('what an export of this mode cannot do is refused with a remedy', async () => {
  const { client, env } = installation;
  await setRows({ 1: 'Ada' });
  const exports = `${projectPath(installation)}/batch_exports/`;
  const noOp = { type: 'NoOp', config: {} };
  const body = { name: 'X', interval: 'hour', model: 'customers', destination: noOp };
  const refusals: readonly [object, string, string][] = [
    [body, 'mode', 'no interval_column'],
    [{ ...body, mode: 'changes' }, 'mode', 'no version_column'],
    [{ ...body, model: 'orders', keep_snapshots: 3 }, 'keep_snapshots', 'mode snapshot'],
    [{ ...body, mode: 'snapshot', look_back_hours: 2 }, 'look_back_hours', 'mode append'],
    [{ ...body, mode: 'snapshot', backfill: true, start_at: '2024-01-01' }, 'backfill', 'no past'],
  ];
  for (const [asked, attr, words] of refusals) {
    const answer = await client.post(exports, asked);
    expect(answer, JSON.stringify(asked)).toMatchObject({ status: 400, body: { attr } });
    expect(answer.body.detail).toContain(words);
  }
  const id = await createSnapshots();
  const range = { start_at: '2024-01-01T00:00:00Z', end_at: '2024-01-02T00:00:00Z' };
  const backfill = await client.post(`${exports}${id}/backfill/`, range);
  expect(backfill).toMatchObject({ status: 400 });
  expect(backfill.body.detail).toContain('no past');
  // Before its first run the mode can change, after it not.
  const orders = await createSnapshots({ model: 'orders' });
  expect((await client.patch(`${exports}${orders}/`, { mode: 'append' })).status).toBe(200);
  await take(id, 0);
  const fixed = await client.patch(`${exports}${id}/`, { mode: 'append' });
  expect(fixed).toMatchObject({ status: 400, body: { attr: 'mode' } });
  const preview = await client.get(`${exports}${id}/preview/`);
  expect(preview.body.rows).toEqual([[1, 'Ada']]);
  const checked = await runCli(['models', 'check'], { env: { ...env } });
  expect(checked.output).toMatch(/customers: [^\n]*\n\s*modes: snapshot\n/);
});
