import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  backfill,
  createS3Export,
  insertEvents,
  projectPath,
  readRuns,
} from '../support/exported-events.ts';
import { type Installation, startInstallation } from '../support/installation.ts';
import { expectInvariants } from '../support/invariants.ts';
import { until } from '../support/until.ts';

const hours = 4;
const range = { start: '2024-03-01T00:00:00Z', end: '2024-03-01T04:00:00Z' };
const before = { start: '2024-02-29T23:00:00Z', end: '2024-03-01T00:00:00Z' };
const forever = Number.POSITIVE_INFINITY;

let installation: Installation;
beforeAll(async () => {
  installation = await startInstallation({
    workers: 2,
    env: { RETRY_MAX_ATTEMPTS: '2', UPLOAD_STALL_SECONDS: '1' },
  });
  const team = installation.tenant.projectIds[0];
  await insertEvents(installation.pool, { team, rows: 400, ...range });
});
afterAll(() => installation?.close());

const count = async (sql: string): Promise<number> =>
  Number(
    (await installation.pool.query<{ n: number }>(`select count(*)::int as n from ${sql}`)).rows[0]
      ?.n,
  );
const holes = () => count('holes');
/** The times of all next attempts come now. */
const tryNow = async () => {
  await installation.pool.query(
    'update batch_exports set heal_after = now() where heal_after > now()',
  );
  await installation.pool.query('update holes set next_try_at = now() where next_try_at > now()');
};

async function exportsWithHoles(number: number): Promise<string[]> {
  const ids: string[] = [];
  for (let index = 0; index < number; index += 1) {
    ids.push(await createS3Export(installation, { name: `heals ${index}` }));
  }
  for (const id of ids) await backfill(installation, id, before);
  await until(async () => (await count('receipts')) === number, { message: 'the store is known' });
  await installation.s3.faults.add({
    match: {},
    times: forever,
    effect: { status: 503, code: 'ServiceUnavailable' },
  });
  for (const id of ids) await backfill(installation, id, range);
  await until(
    async () => (await count("runs where status = 'FailedRetryable'")) >= number * hours,
    { timeoutMs: 60_000, message: 'all attempts have failed' },
  );
  return ids;
}

test('exports that a dead store left without data get it when the store works, also if a worker dies meanwhile', async () => {
  const { s3, client } = installation;
  const ids = await exportsWithHoles(3);
  expect(await holes()).toBe(3 * hours);

  const path = `${projectPath(installation)}/batch_exports/${ids[0]}/`;
  const shown = await client.get(`${path}coverage?from=${range.start}&to=${range.end}`);
  expect(shown.body).toMatchObject({
    healing: { intervals: hours, code: 'destination.unavailable', turn: 'customer' },
    ranges: [{ state: 'healing', intervals: hours }],
  });

  await s3.faults.clear();
  await s3.faults.add({ match: {}, times: forever, effect: { delayMs: 300 } });
  await tryNow();
  await until(async () => (await holes()) < 3 * hours, { message: 'healing has begun' });
  const victim = installation.workers[0];
  victim?.kill('SIGKILL');
  await victim?.waitForExit();
  await until(
    async () => {
      await tryNow();
      return (await holes()) === 0;
    },
    { timeoutMs: 90_000, message: 'no hole is left' },
  );
  await until(async () => (await count("runs where status in ('Starting', 'Running')")) === 0, {
    message: 'all runs have ended',
  });
  for (const id of ids) {
    const completed = (await readRuns(installation, id)).filter(
      ({ status }) => status === 'Completed',
    );
    expect(completed).toHaveLength(1 + hours);
  }
  await s3.faults.clear();
  expect(await expectInvariants(installation)).toMatchObject({
    exports: 3,
    intervals: 3 * (1 + hours),
  });
}, 240_000);
