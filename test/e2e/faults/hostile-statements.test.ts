import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import type { Reconciliation } from '../../../src/foundation/domain/statement.ts';
import { expectRight } from '../../support/checked-place.ts';
import {
  backfill,
  createS3Export,
  insertEvents,
  projectPath,
  untilEnded,
} from '../../support/exported-events.ts';
import { bucket, type Installation, startInstallation } from '../../support/installation.ts';
import { until } from '../../support/until.ts';

let installation: Installation;

beforeAll(async () => {
  installation = await startInstallation({ workers: 1, env: { UPLOAD_STALL_SECONDS: '1' } });
  await insertEvents(installation.pool, { team: installation.tenant.projectIds[0], rows: 20 });
});
afterEach(() => installation?.s3.faults.clear());
afterAll(() => installation?.close());

const statementsOf = (id: string) => `${projectPath(installation)}/batch_exports/${id}/statements`;
const headOf = async (id: string) =>
  (await installation.client.get(`${statementsOf(id)}/head/`)).body as unknown as {
    readonly number: number;
    readonly put_number: number;
    readonly put_fault: string | null;
  };
const keyOf = (id: string, number: number) =>
  new RegExp(`^${id}/_sluice/statements/${number}\\.json$`);

async function delivered(): Promise<string> {
  const id = await createS3Export(installation);
  await backfill(installation, id);
  expect(await untilEnded(installation, id)).toMatchObject([{ status: 'Completed', rows: 20 }]);
  return id;
}

/** Makes the statement of the schedule due. @returns what it says, once it is made */
async function stateNow(id: string): Promise<Reconciliation> {
  const { number } = await headOf(id);
  await installation.sql`update batch_exports set statement_at = now() where id = ${id}`;
  await until(async () => (await headOf(id)).number > number, { timeoutMs: 120_000 });
  const { body } = await installation.client.get(`${statementsOf(id)}/${number + 1}/`);
  return body.reconciliation as Reconciliation;
}

async function untilPut(id: string): Promise<void> {
  await until(
    async () => {
      // The next try is now.
      await installation.sql`update batch_exports set statement_after = now() where id = ${id}`;
      const { number, put_number } = await headOf(id);
      return put_number === number;
    },
    { timeoutMs: 120_000, everyMs: 500 },
  );
}

test('a store that says 200 and stores nothing, or loses a statement, gets it again', async () => {
  const id = await delivered();
  const effect = { foreignAnswer: { status: 200, body: '', etag: '"0"' } };
  await installation.s3.faults.add({
    match: { operation: 'PutObject', key: keyOf(id, 1) },
    ...{ times: 1, effect },
  });
  await stateNow(id);
  // The tag is not that of the bytes, so they are read back.
  await untilPut(id);
  const first = `${id}/_sluice/statements/1.json`;
  const bytes = await installation.s3.body(bucket, first);
  await installation.s3.remove(bucket, first);
  expect(await stateNow(id)).toMatchObject({ state: 'listed', missing: [first] });
  await untilPut(id);
  expect(await installation.s3.body(bucket, first)).toEqual(bytes);
  await expectRight(installation, id);
}, 400_000);

test('a store that refuses a free number with 412 gets its statement in the end', async () => {
  const id = await delivered();
  await installation.s3.faults.add({
    match: { operation: 'PutObject', key: keyOf(id, 1) },
    ...{ times: 5, effect: { status: 412, code: 'PreconditionFailed' } },
  });
  await stateNow(id);
  await untilPut(id);
  expect(await stateNow(id)).toMatchObject({
    state: 'listed',
    missing: [],
    changed: [],
    stray: [],
  });
  await untilPut(id);
  await expectRight(installation, id);
}, 400_000);

test('a list that never ends keeps no statement back, and a store that never answers no other tenant', async () => {
  const [slow, other] = [await delivered(), await delivered()];
  const added = await installation.addTenant();
  await installation.sql`update batch_exports set team_id = ${added.projectIds[0]}
    where id = ${other}`;
  await installation.s3.faults.add({
    match: { operation: 'ListObjectsV2' },
    ...{ times: Number.POSITIVE_INFINITY, effect: { delayMs: 600_000 } },
  });
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
}, 600_000);

test('a tenant that asks again and again gets ten statements an hour', async () => {
  const id = await createS3Export(installation);
  const answers = [];
  for (let asked = 0; asked < 12; asked += 1) {
    answers.push(await installation.client.post(`${statementsOf(id)}/`));
  }
  expect(answers.map(({ status }) => status)).toEqual([...Array(10).fill(201), 429, 429]);
  expect(Number(answers.at(-1)?.headers.get('retry-after'))).toBeGreaterThan(3_000);
});
