import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  backfill,
  createS3Export,
  hour,
  insertEvents,
  projectPath,
  quiet,
  readRuns,
  type S3ExportChanges,
  untilEnded,
} from '../support/exported-events.ts';
import { bucket, type Installation, startInstallation } from '../support/installation.ts';
import { projectRoot, startBundled } from '../support/processes.ts';
import { checkers, runChecker } from '../support/run-checker.ts';
import { until } from '../support/until.ts';

let installation: Installation;
let folder: string;

beforeAll(async () => {
  installation = await startInstallation({ workers: 1 });
  folder = await mkdtemp(path.join(tmpdir(), 'sluice-receipts-'));
  const team = installation.tenant.projectIds[0];
  await insertEvents(installation.pool, { team, rows: 100, ...hour });
  await insertEvents(installation.pool, { team, rows: 50, ...quiet });
});
afterAll(async () => {
  await installation?.close();
  await rm(folder, { recursive: true, force: true });
});

const statementsOf = (id: string) => `${projectPath(installation)}/batch_exports/${id}/statements`;

/** Makes a statement, and waits until a worker has put it. */
async function makeStatement(id: string) {
  const { client } = installation;
  const made = await client.post(`${statementsOf(id)}/`);
  expect(made.status, made.text).toBe(201);
  await until(async () => {
    const { number, put_number, put_fault } = (await client.get(`${statementsOf(id)}/head/`)).body;
    expect(put_fault).toBeNull();
    return put_number === number;
  });
  return (await client.get(`${statementsOf(id)}/${made.body.number}/`)).body;
}

/** Copies what is below the place of an export, as a customer does. */
async function copyBucket(id: string): Promise<string> {
  const copy = await mkdtemp(path.join(folder, 'copy-'));
  for (const { key } of await installation.s3.objects(bucket)) {
    if (!key.startsWith(`${id}/`)) continue;
    const file = path.join(copy, key.slice(id.length + 1));
    await mkdir(path.dirname(file), { recursive: true });
    await writeFile(file, await installation.s3.body(bucket, key));
  }
  return copy;
}

/** The answers of the checkers that are in a copy. */
const checkAll = (copy: string, ...more: readonly string[]) =>
  Promise.all(
    checkers.map(([program, name]) =>
      runChecker([program, path.join(copy, '_sluice', path.basename(name))], copy, ...more),
    ),
  );

async function deliver(changes: S3ExportChanges = {}) {
  const id = await createS3Export(installation, changes);
  await backfill(installation, id);
  const [run] = await untilEnded(installation, id);
  expect(run).toMatchObject({ status: 'Completed', rows: 100 });
  return id;
}

test('a customer checks a copy of the bucket with the checkers that are in it', async () => {
  const id = await deliver();
  await makeStatement(id);
  await backfill(installation, id, quiet);
  await untilEnded(installation, id, { count: 2 });
  await makeStatement(id);
  const { body: head } = await installation.client.get(`${statementsOf(id)}/head/`);
  const copy = await copyBucket(id);
  for (const [, name] of checkers) {
    const put = await readFile(path.join(copy, '_sluice', path.basename(name)));
    expect(put).toEqual(await readFile(path.join(projectRoot, name)));
  }
  const keys = await fetch(new URL('/api/signing_keys/', installation.client.baseUrl));
  expect(await readFile(path.join(copy, '_sluice/keys.json'), 'utf8')).toBe(await keys.text());
  const right = `0: Right. The head is ${head.number}:${head.sha256}`;
  expect(await checkAll(copy)).toEqual([right, right]);

  // One byte of each kind of object.
  const files = (await readdir(copy, { recursive: true })).filter((name) =>
    /(keys|statements\/[12]|_manifest)\.json$|\.(jsonl|parquet)/.test(name),
  );
  expect(files).toHaveLength(7);
  for (const name of files) {
    const bytes = await readFile(path.join(copy, name));
    const changed = Buffer.from(bytes);
    const middle = bytes.length >> 1;
    changed[middle] = (changed[middle] ?? 0) ^ 1;
    await writeFile(path.join(copy, name), changed);
    for (const answer of await checkAll(copy)) expect(answer, name).toMatch(/^1: WRONG/);
    await writeFile(path.join(copy, name), bytes);
  }
  expect(await checkAll(copy)).toEqual([right, right]);
});

test('an export without manifests has its deliveries in the statement', async () => {
  const id = await deliver({ config: { manifest: false } });
  const { bookings } = await makeStatement(id);
  expect(bookings).toMatchObject([
    { kind: 'delivered', after: { rows: 100, files: 1, manifest: null } },
  ]);
  for (const answer of await checkAll(await copyBucket(id))) expect(answer).toMatch(/^0: Right/);
});

test('a destination that keeps nothing has its statements in the API', async () => {
  const { client } = installation;
  const body = { name: 'Nothing', interval: 'hour', end_at: '2024-12-31T00:00:00Z' };
  const destination = { type: 'NoOp', config: {} };
  const path = `${projectPath(installation)}/batch_exports/`;
  const { id } = (await client.post(path, { ...body, destination })).body;
  await backfill(installation, id);
  await untilEnded(installation, id);
  expect(await makeStatement(id)).toMatchObject({
    place: { type: 'NoOp', bucket: null, prefix: '' },
    bookings: [{ kind: 'delivered', after: { rows: 100, place: 'noop://', manifest: null } }],
  });
});

test('while the signing key is lost, runs wait, and are delivered with the next key', async () => {
  const { pool, client } = installation;
  const id = await deliver();
  await makeStatement(id);
  const former = JSON.parse((await client.get('/api/signing_keys/')).text).keys.at(-1);
  await installation.stopWorkers();
  await pool.query(`update signing_keys set private_key = '\\x00' where private_key is not null`);
  await installation.startWorker();
  await backfill(installation, id, quiet);
  await until(async () => {
    const run = (await readRuns(installation, id)).at(-1);
    return run?.latestError?.includes('rotate-signing --lost') && run.attempt > 1;
  });
  const refused = await client.post(`${statementsOf(id)}/`);
  expect(refused.status).toBe(503);
  expect(refused.body.detail).toContain('rotate-signing --lost');
  const rotate = startBundled('clients/cli/sluice.js', ['keys', 'rotate-signing', '--lost'], {
    env: installation.env,
  });
  expect(await rotate.waitForExit(), rotate.output()).toMatchObject({ code: 0 });
  const runs = await untilEnded(installation, id, { count: 2 });
  expect(runs.map(({ status, rows }) => [status, rows])).toEqual([
    ['Completed', 100],
    ['Completed', 50],
  ]);
  await makeStatement(id);
  const copy = await copyBucket(id);
  for (const answer of await checkAll(copy)) expect(answer).toMatch(/^0: Right/);
  // Who trusts the former key must compare the new one, and gives it from then on.
  const next = JSON.parse((await client.get('/api/signing_keys/')).text).keys.at(-1);
  for (const answer of await checkAll(copy, '--key', next.public_key)) {
    expect(answer).toMatch(/^0: Right/);
  }
  for (const answer of await checkAll(copy, '--key', former.public_key)) {
    expect(answer).toMatch(/^1: WRONG: .* is signed by /);
  }
});
