import { beforeAll, expect, test } from 'vitest';
import { ensureEventsTable } from '../../../src/rows/sources/index.ts';
import { createTestDatabase } from '../../support/database.ts';
import {
  backfill,
  createS3Export,
  insertEvents,
  projectPath,
} from '../../support/exported-events.ts';
import { startInstallation } from '../../support/installation.ts';
import { expectInvariants } from '../../support/invariants.ts';
import { startReceiver } from '../../support/receiver.ts';
import { startTcpProxy } from '../../support/tcp-proxy.ts';
import { until } from '../../support/until.ts';
import { useStage } from '../../support/use-stage.ts';

/** Stores and sources that are dead: what they are asked, and what a customer reads of it, is counted. */

const exportsThere = 12;
const hourOf = (n: number) => ({
  start: `2024-03-01T${String(n).padStart(2, '0')}:00:00Z`,
  end: `2024-03-01T${String(n + 1).padStart(2, '0')}:00:00Z`,
});
let exportIds: readonly string[];

const database = useStage(createTestDatabase);
const proxy = useStage(() =>
  startTcpProxy({ target: { port: Number(new URL(database.url).port) } }),
);
const receiver = useStage(startReceiver);
const installation = useStage(async () => {
  await ensureEventsTable(database.url);
  const source = Object.assign(new URL(database.url), { port: String(proxy.port) });
  return startInstallation({
    databaseUrl: database.url,
    workers: 2,
    env: {
      SOURCE_DATABASE_URL: source.href,
      RETRY_MAX_ATTEMPTS: '2',
      UPLOAD_STALL_SECONDS: '1',
      ALLOWED_PRIVATE_ENDPOINTS: '127.0.0.1',
    },
  });
});
beforeAll(async () => {
  const [team] = installation.tenant.projectIds;
  await insertEvents(installation.pool, {
    ...{ team, rows: 60, start: hourOf(0).start, end: hourOf(5).end },
  });
  const { client } = installation;
  const target = { url: receiver.url, events: ['healing.started', 'healing.ended'] };
  const made = await client.post(`${projectPath(installation)}/notification_targets`, target);
  expect(made.status, made.text).toBe(201);
  exportIds = await Promise.all(
    Array.from({ length: exportsThere }, (_, n) =>
      createS3Export(installation, { name: `Export ${n}` }),
    ),
  );
  await runAll(hourOf(0));
  await untilCount('receipts', exportsThere);
});

const count = async (rows: string): Promise<number> => {
  const { rows: found } = await installation.pool.query(`select count(*)::int as n from ${rows}`);
  return found[0].n;
};
const untilCount = (rows: string, wanted: number) =>
  until(async () => (await count(rows)) === wanted, { message: `${wanted} in ${rows}` });
const query = (sql: string) => installation.pool.query(sql);

async function runAll(range: { start: string; end: string }): Promise<void> {
  await Promise.all(exportIds.map((id) => backfill(installation, id, range)));
}

/** The times of all next attempts come, again and again, until nothing is missing. */
const untilHealed = () =>
  until(
    async () => {
      await query('update batch_exports set heal_after = now() where heal_after > now()');
      await query('update holes set next_try_at = now() where next_try_at > now()');
      return (await count('holes')) === 0;
    },
    { timeoutMs: 90_000, message: 'all has healed' },
  );

/** Sweeps should look for uploads of each export, and remove a file of each. */
async function leaveWork(): Promise<void> {
  await query(
    `insert into upload_places (export_id, destination_version)
     select c.export_id, c.destination_version from receipts c where c.data_interval_start = '${hourOf(0).start}'
     on conflict do nothing`,
  );
  await query(
    `insert into leftover_files (export_id, data_interval_start, data_interval_end, destination_version, key, generation, uncommitted)
     select c.export_id, c.data_interval_start, c.data_interval_end, c.destination_version, 'left/' || c.export_id, c.generation - 1, false
       from receipts c where c.data_interval_start = '${hourOf(0).start}'
     on conflict (export_id, destination_version, key) do nothing`,
  );
  await makeDue();
}
async function makeDue(): Promise<void> {
  await query('update upload_places set look_at = now()');
  await query('update leftover_files set tried_at = null, tries = 0');
}
async function restartWorkers(): Promise<void> {
  for (const worker of installation.workers) worker.kill('SIGKILL');
  await Promise.all(installation.workers.map((worker) => worker.waitForExit()));
  await Promise.all([installation.startWorker(), installation.startWorker()]);
}

const messages = (type: string) =>
  receiver.received.map(({ body }) => JSON.parse(body)).filter((body) => body.type === type);

test('exports heal without a hand when their dead store works, also after a restart; one message', async () => {
  const { s3 } = installation;
  const [started, ended] = [messages('healing.started').length, messages('healing.ended').length];
  const effect = { status: 503, code: 'ServiceUnavailable' } as const;
  await s3.faults.add({ match: {}, times: Number.POSITIVE_INFINITY, effect });
  await runAll({ start: hourOf(1).start, end: hourOf(2).end });
  await untilCount('holes where heals_since is not null', 2 * exportsThere);
  await leaveWork();
  await restartWorkers();
  await query(`update batch_exports set failing_since = failing_since - interval '2 minutes'`);
  await until(() => messages('healing.started').length > started);
  expect(await count('holes')).toBe(2 * exportsThere);

  await s3.faults.clear();
  await untilHealed();
  await untilCount(`receipts`, 3 * exportsThere);
  await makeDue();
  // Those that were deleted stay for an hour, to be deleted once more.
  await untilCount('leftover_files where deleted_at is null', 0);
  await untilCount('upload_places', 0);
  await until(() => messages('healing.ended').length > ended);
  expect(messages('healing.started').slice(started)).toMatchObject([
    { data: { turn: 'customer' } },
  ]);
  expect(messages('healing.ended').slice(ended)).toHaveLength(1);
}, 240_000);

test('exports heal without a hand when their dead source answers, also after a restart', async () => {
  const done = await count('receipts');
  proxy.hangUp();
  await runAll({ start: hourOf(3).start, end: hourOf(4).end });
  await untilCount('holes where heals_since is not null', 2 * exportsThere);
  await restartWorkers();
  const [api] = installation.processes;
  api?.kill('SIGTERM');
  await api?.waitForExit();
  const again = await installation.startApi();
  await until(() => again.output().includes('The source is unreachable'));

  await proxy.accept();
  await untilHealed();
  await untilCount('receipts', done + 2 * exportsThere);
  await expectInvariants(installation);
}, 240_000);

test('the API says once that no worker lives, and that one lives again', async () => {
  for (const each of installation.processes) each.kill('SIGKILL');
  await Promise.all(installation.processes.map((each) => each.waitForExit()));
  const api = await installation.startApi();
  const said = (text: string) => api.output().split(text).length - 1;
  const none = 'No worker has reported for 30 s';
  await until(() => said(none) > 0, { timeoutMs: 150_000, message: 'the API says it' });
  await installation.startWorker();
  await until(() => said('workers are alive again') > 0, { timeoutMs: 60_000 });
  expect(said(none)).toBe(1);
}, 300_000);
