import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import type { Reconciliation } from '../../src/foundation/domain/statement.ts';
import { copyPlace, expectRight, makeStatement } from '../support/checked-place.ts';
import { runCli } from '../support/cli.ts';
import {
  backfill,
  createS3Export,
  hour,
  insertEvents,
  projectPath,
  quiet,
  readRuns,
  type S3ExportChanges,
  slowDown,
  untilEnded,
} from '../support/exported-events.ts';
import { bucket, startInstallation } from '../support/installation.ts';
import { atNight } from '../support/nightly.ts';
import { folderOfTests } from '../support/own-folder.ts';
import { projectRoot, startBundled } from '../support/processes.ts';
import { checkers, runChecker } from '../support/run-checker.ts';
import { until } from '../support/until.ts';
import { useStage } from '../support/use-stage.ts';

const folder = folderOfTests();

const installation = useStage(() =>
  startInstallation({ workers: 1, env: { UPLOAD_STALL_SECONDS: '1' } }),
);
beforeAll(async () => {
  const team = installation.tenant.projectIds[0];
  await insertEvents(installation.pool, { team, rows: 100, ...hour });
  await insertEvents(installation.pool, { team, rows: 50, ...quiet });
});

const statementsOf = (id: string) => `${projectPath(installation)}/batch_exports/${id}/statements`;

const copyBucket = (id: string) => copyPlace(installation, id, folder);

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
  await makeStatement(installation, id);
  await backfill(installation, id, quiet);
  await untilEnded(installation, id, { count: 2 });
  await makeStatement(installation, id);
  const { body: head } = await installation.client.get(`${statementsOf(id)}/head/`);
  const copy = await copyBucket(id);
  for (const [, name] of checkers) {
    const put = await readFile(path.join(copy, '_sluice', path.basename(name)));
    expect(put).toEqual(await readFile(path.join(projectRoot, name)));
  }
  const keys = await fetch(new URL('/api/signing_keys/', installation.client.baseUrl));
  expect(await readFile(path.join(copy, '_sluice/keys.json'), 'utf8')).toBe(await keys.text());
  const right = `0: Right. The head is ${head.number}:${head.sha256}`;
  // What they say of another byte: `every-byte.test.ts`.
  expect(await checkAll(copy)).toEqual([right, right]);
});

atNight(
  'rows that are rejected, a move and an erasure are in statements that the checkers find right',
  async () => {
    const { client, pool, tenant } = installation;
    const team = tenant.projectIds[0];
    // No other test has this hour.
    const odd = { start: '2024-03-03T00:00:00Z', end: '2024-03-03T01:00:00Z' };
    await insertEvents(pool, { team, rows: 20, ...odd });
    const change = (what: string, count: number) =>
      pool.query(
        `update events set ${what} where uuid in (select uuid from events where team_id = $1 and inserted_at >= $2 and inserted_at < $3 order by uuid limit $4)`,
        [team, odd.start, odd.end, count],
      );
    await change(`distinct_id = 'erase me'`, 5);
    await change(`created_at = 'infinity'`, 3);
    const id = await createS3Export(installation, {
      config: { prefix: 'before', file_format: 'Parquet', infinity: 'reject' },
    });
    await backfill(installation, id, odd);
    expect(await untilEnded(installation, id)).toMatchObject([{ status: 'Completed', rows: 17 }]);
    await makeStatement(installation, id);
    await expectRight(installation, 'before');

    const at = `${projectPath(installation)}/batch_exports/${id}/`;
    const moved = { destination: { config: { prefix: 'after' } } };
    expect((await client.patch(at, moved)).status).toBe(200);
    await backfill(installation, id, odd);
    await untilEnded(installation, id, { count: 2 });
    await until(async () => {
      const keys = (await installation.s3.objects(bucket)).map(({ key }) => key);
      return !keys.some((key) => /^before\/\d.*\.(parquet|jsonl)$/.test(key));
    });
    // What is left at the former place is signed, and newer than its statements.
    await expectRight(installation, 'before');
    const booked = async () => (await makeStatement(installation, id)).bookings;
    expect(await booked()).toMatchObject([
      {
        kind: 'moved',
        before: { place: expect.stringMatching(/exports\/before$/), rows: 17 },
        after: { place: expect.stringMatching(/exports\/after$/), rows: 17 },
        note: null,
      },
    ]);

    await pool.query(`delete from events where distinct_id = 'erase me'`);
    const person = ['--export', id, '--key', 'erase me', '--column', 'distinct_id'];
    const { code, output } = await runCli(['erase', 'rewrite', ...person], {
      env: installation.env,
    });
    expect(code, output).toBe(0);
    expect(await booked()).toMatchObject([
      {
        kind: 'erased',
        before: { rows: 17 },
        after: { rows: 15 },
        note: { request: expect.any(String) },
      },
    ]);
    await expectRight(installation, 'after');
  },
);

atNight(
  'while the signing key is lost, runs wait, and are delivered with the next key',
  async () => {
    const { pool, client } = installation;
    const id = await deliver();
    await makeStatement(installation, id);
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
    await makeStatement(installation, id);
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
  },
);

const headOf = async (id: string) =>
  (await installation.client.get(`${statementsOf(id)}/head/`)).body as unknown as {
    readonly number: number;
    readonly put_number: number;
    readonly put_fault: string | null;
  };
const keyOf = (id: string, number: number) =>
  new RegExp(`^${id}/_sluice/statements/${number}\\.json$`);

/** Makes the statement of the schedule due. @returns what it says, once it is made */
async function stateNow(id: string): Promise<Reconciliation> {
  const { number } = await headOf(id);
  await installation.sql`update batch_exports set statement_at = now() where id = ${id}`;
  await until(async () => (await headOf(id)).number > number, { timeoutMs: 120_000 });
  const { body } = await installation.client.get(`${statementsOf(id)}/${number + 1}/`);
  return body.reconciliation as Reconciliation;
}

async function untilPut(id: string): Promise<void> {
  const isPut = async () => {
    // The next try is now.
    await installation.sql`update batch_exports set statement_after = now() where id = ${id}`;
    const { number, put_number } = await headOf(id);
    return put_number === number;
  };
  await until(isPut, { timeoutMs: 120_000, everyMs: 500 });
}

atNight(
  'a list that never ends keeps no statement back, and a store that never answers no other tenant',
  async () => {
    const [slow, other] = [await deliver(), await deliver()];
    const added = await installation.addTenant();
    await installation.sql`update batch_exports set team_id = ${added.projectIds[0]}
      where id = ${other}`;
    await slowDown(installation, 'ListObjectsV2', 600_000);
    const found = await stateNow(slow);
    expect(found).toMatchObject({ state: 'not_listed', at: null });
    expect(found.reason).toMatch(/took too long|destination/);
    await installation.s3.faults.clear();
    await installation.s3.faults.add({
      match: { operation: 'PutObject', key: keyOf(slow, 2) },
      ...{ times: Number.POSITIVE_INFINITY, effect: { halfOpen: true } },
    });
    await stateNow(slow);
    await installation.sql`update batch_exports set statement_at = now() where id = ${other}`;
    const isThere = async (id: string, number: number) =>
      (await installation.s3.objects(bucket)).some(({ key }) => keyOf(id, number).test(key));
    await until(() => isThere(other, 1), { timeoutMs: 120_000 });
    expect(await isThere(slow, 2)).toBe(false);
    await until(async () => (await headOf(slow)).put_fault !== null, { timeoutMs: 120_000 });
    await installation.s3.faults.clear();
    await untilPut(slow);
    await expectRight(installation, slow);
  },
  600_000,
);

atNight(
  'a store that refuses a free number with 412 gets its statement, and one who asks on gets ten an hour',
  async () => {
    const id = await deliver();
    await installation.s3.faults.add({
      match: { operation: 'PutObject', key: keyOf(id, 1) },
      ...{ times: 5, effect: { status: 412, code: 'PreconditionFailed' } },
    });
    await stateNow(id);
    await untilPut(id);
    const nothing = { missing: [], changed: [], stray: [] };
    expect(await stateNow(id)).toMatchObject({ state: 'listed', ...nothing });
    await untilPut(id);
    await expectRight(installation, id);
    const { client } = installation;
    let answer = await client.post(`${statementsOf(id)}/`);
    for (let asked = 1; asked <= 10 && answer.status === 201; asked += 1) {
      answer = await client.post(`${statementsOf(id)}/`);
    }
    expect(answer.status).toBe(429);
    expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(3_000);
  },
  400_000,
);
