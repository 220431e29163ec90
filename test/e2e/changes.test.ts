import { createHash } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { afterEach, beforeAll, expect, test } from 'vitest';
import { stringify } from 'yaml';
import { expectRight, makeStatement } from '../support/checked-place.ts';
import { runCli } from '../support/cli.ts';
import { createCustomers, customers, elementRuns } from '../support/element-runs.ts';
import { projectPath, readRuns, retireExports, untilEnded } from '../support/exported-events.ts';
import { bucket, startInstallation } from '../support/installation.ts';
import { findBreaches } from '../support/invariants.ts';
import { atNight, firstByDay } from '../support/nightly.ts';
import { folderOfTests } from '../support/own-folder.ts';
import { shopModels } from '../support/stranger-shop.ts';
import { until } from '../support/until.ts';
import { useStage } from '../support/use-stage.ts';
import { openVerifySide } from '../support/verify-side.ts';

const folder = folderOfTests();
const installation = useStage(async () => {
  const file = path.join(folder, 'models.yaml');
  await writeFile(file, stringify({ models: [...shopModels, customers] }));
  return startInstallation({
    ...{ workers: 1, env: { MODELS_FILE: file } },
    // A test forges files.
    checksNamedKeys: false,
  });
});
const side = useStage(async () => openVerifySide(installation));
beforeAll(() =>
  createCustomers(installation, (sql) => sql.replace('$sluice$ BEGIN ', `$sluice$ ${idle}`)),
);
afterEach(async () => {
  await retireExports(installation);
  await installation.shop.query('delete from public.customers');
});

const { account, ask, take, elementsOf, replay, createChanges, write, remove } = elementRuns(
  () => installation,
);

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
  const bookedRows = async () => {
    const { bookings, schedule } = await makeStatement(installation, id);
    expect(schedule).toMatchObject({ mode: 'changes' });
    return bookings.map(({ after }) => (after as { readonly rows: number }).rows);
  };
  // A delete is a row of its element.
  expect(await bookedRows()).toEqual([2, 3, 0]);

  const screen = await runCli(['status', '--project', String(account())], {
    env: { SLUICE_URL: client.baseUrl, SLUICE_KEY: installation.tenant.key },
  });
  expect(screen.out).toMatch(/: element 2, up to 2024-03-01T03:00:00Z$/m);

  const at = `${projectPath(installation)}/batch_exports/${id}`;
  const { body: listed } = await client.get(`${at}/runs/`);
  const [first] = listed.results.toReversed();
  expect(first).toMatchObject({ element: { number: 0, follows: null, deletes: 0 } });
  // A delivered element is the only copy of its changes.
  const [run] = await readRuns(installation, id);
  const { body: preview } = await client.get(`${at}/preview/`);
  const columns = preview.columns as readonly { readonly name: string }[];
  const names = JSON.stringify(columns.map(({ name }) => name));
  expect(names).toMatch(/"_sluice_op","_sluice_version","_sluice_element"\]$/);
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
  expect(await bookedRows()).toEqual([2]);
  await expectRight(installation, id);
}, 120_000);

test.each(firstByDay(1, ['before_manifest', 'before_open', 'before_complete']))(
  'a worker that is frozen at %s while another makes the element changes nothing when it goes on',
  async (point) => {
    await write(1, 'Ada');
    const id = await createChanges();
    await take(id, 0);
    await installation.stopWorkers();
    await write(2, 'Bob');
    await remove(1);
    const frozen = await installation.startWorker({
      FAILPOINTS: `${point}=stop@1`,
      LEASE_SECONDS: '300',
    });
    await ask(id, 1);
    await until(() => frozen.output().includes('=stop'), { message: 'it is frozen' });
    const end = 'update runs set lease_expires_at = now() where lease_holder is not null';
    await installation.pool.query(end);
    await write(2, 'Robert');
    await write(3, 'Cleo');
    await installation.startWorker();
    await untilEnded(installation, id, { count: 2 });
    await remove(3);
    await take(id, 2);
    const before = await elementsOf(id);
    await until(() => {
      frozen.kill('SIGCONT');
      return /"end":"(lost|failed)"/.test(frozen.output());
    });
    expect(await elementsOf(id)).toEqual(before);
    expect(await replay(id)).toEqual({ 2: 'Robert' });
    expect((await findBreaches(installation)).breaches).toEqual([]);
  },
  120_000,
);

atNight(
  'two workers make the elements of an export one after the other, also if one dies',
  async () => {
    const id = await createChanges();
    const doomed = await installation.startWorker();
    for (let index = 0; index < 8; index += 1) {
      const writes = [write(index, 'new'), write(index - 1, 'changed'), remove(index - 3)];
      await Promise.all([take(id, index), ...writes, index === 5 && doomed.kill('SIGKILL')]);
    }
    await take(id, 8);
    expect(await replay(id)).toEqual({ 5: 'changed', 6: 'changed', 7: 'new' });
    const numbers = (await elementsOf(id)).map(({ element }) => element.number);
    expect(numbers).toEqual([...new Set(numbers)]);
    expect((await findBreaches(installation)).breaches).toEqual([]);
  },
  120_000,
);

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

/** The result of `sluice verify` of an export. */
async function verify(exportId: string) {
  const { out } = await side.verify(['--export', exportId, '--json']);
  const { results, findings, ...sums } = JSON.parse(out);
  return {
    ...sums,
    failures: results.flatMap(({ failure }: { failure: string | null }) => failure ?? []),
    breaches: findings.map(
      ({ invariant, detail, remedy }: Readonly<Record<string, string>>) =>
        `${invariant} ${detail} ${remedy?.split(':')[0]}`,
    ),
  };
}

/** Writes to the source while its triggers do nothing: each begins with `idle`. */
const untracked = (sql: string) =>
  installation.shop.query(
    `set shop.idle = 'on'; ${sql.replaceAll('ACCOUNT', String(account()))}; reset shop.idle`,
  );
const idle = `BEGIN IF current_setting('shop.idle', true) = 'on' THEN RETURN coalesce(NEW, OLD); END IF; `;

atNight.each(['Parquet', 'JSONLines', 'CSV'])(
  'verify replays elements of %s and finds what a trigger did not see',
  async (format) => {
    for (const [id, name] of Object.entries(['Ada', 'Bob', 'Cleo', 'Dan', 'Eve'])) {
      await write(Number(id), name);
    }
    await installation.shop.query(
      `update public.customers set paid = 12.50, seen = '2024-02-29 23:59:59.123456+02', tags = '{a,"b c"}',
      more = '{"a": [1.0, null]}' where account = $1 and id > 1`,
      [account()],
    );
    const id = await createChanges({ config: { file_format: format } });
    await take(id, 0);
    await write(1, 'Robert');
    await remove(0);
    await take(id, 1);
    const proven = { failures: [], breaches: [], leftOut: [], unproven: [], remarks: [], gone: 0 };
    expect(await verify(id)).toMatchObject({ ...proven, intervals: 2, pending: 0 });

    // What came since is of the next element.
    await write(2, 'Cleopatra');
    await write(7, 'Gus');
    await remove(3);
    expect(await verify(id)).toMatchObject({ ...proven, pending: 3 });

    await untracked(`update public.customers set name = 'Eva' where account = ACCOUNT and id = 4`);
    await untracked(
      `insert into public.customers (account, id, name, version) values (ACCOUNT, 8, 'Hal', '3')`,
    );
    await untracked('delete from public.customers where account = ACCOUNT and id = 1');
    const { breaches } = await verify(id);
    expect(breaches).toEqual([
      'I11 1 row with the same version as in the source, but with other values, at element 1: 4 model.version_without_trigger',
      expect.stringMatching(/^I11 1 row of the source missing at element 1: 8 Raise new_base/),
      'I11 1 row gone from the source without a word: 1 model.version_without_trigger',
    ]);
    expect((await side.verify(['--export', id])).code).not.toBe(0);

    // A new base heals all of it.
    await installation.client.patch(`${projectPath(installation)}/batch_exports/${id}/`, {
      new_base: 1,
    });
    await take(id, 2);
    expect(await verify(id)).toMatchObject({ ...proven, intervals: 3, pending: 0 });
  },
  120_000,
);

test('verify finds a row that an element should have, whatever its receipt says', async () => {
  const { pool, s3 } = installation;
  for (const number of [1, 2, 3]) await write(number, `Customer ${number}`);
  const id = await createChanges();
  await take(id, 0);
  await remove(2);
  await write(3, 'Cy');
  await take(id, 1);
  const [, second] = await elementsOf(id);
  const { key } = second?.files[0] ?? { key: '' };
  const forge = async (text: string) => {
    const facts = {
      rows: text.split('\n').length - 1,
      bytes: text.length,
      sha256: createHash('sha256').update(text).digest('hex'),
    };
    await side.put(key, text);
    const { rows: receipts } = await pool.query(
      `update receipts set files = jsonb_build_array(files->0 || $2::jsonb) where export_id = $1 and element->>'number' = '1'
       returning files, manifest_key as manifest`,
      [id, facts],
    );
    const [{ manifest }] = receipts;
    const body = JSON.parse(String(await s3.body(bucket, manifest)));
    await side.put(manifest, JSON.stringify({ ...body, files: [{ ...body.files[0], ...facts }] }));
  };
  const whole = String(await s3.body(bucket, key));
  const without = (part: string) =>
    whole
      .split('\n')
      .filter((line) => !line.includes(part))
      .join('\n');
  await forge(without('"d"'));
  expect((await verify(id)).breaches).toEqual([
    expect.stringContaining('1 row deleted in the source, but not at element 1: 2'),
  ]);
  await forge(without('Cy'));
  expect((await verify(id)).breaches).toEqual([
    expect.stringContaining('1 row of the source missing at element 1: 3'),
  ]);
  await forge(whole.replace('Cy', 'Xi'));
  expect((await verify(id)).breaches).toEqual([
    expect.stringContaining('with other values, at element 1: 3'),
  ]);
  await forge(`${whole}${whole.split('\n')[0]}\n`);
  expect((await verify(id)).breaches).toEqual([
    expect.stringContaining('with the key of another row'),
  ]);
  await forge(whole);
  expect((await verify(id)).breaches).toEqual([]);
}, 120_000);
