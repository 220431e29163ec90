import { randomBytes } from 'node:crypto';
import { expect, onTestFinished, test } from 'vitest';
import { examineFirstDay } from '../../../src/clients/cli/examine-first-day.ts';
import { readConfig } from '../../../src/foundation/config/config.ts';
import { createApiClient } from '../../support/api-client.ts';
import { startApiUnderTest } from '../../support/api-under-test.ts';
import { exportBody } from '../../support/batch-export-bodies.ts';
import { runCli } from '../../support/cli.ts';
import { createEmptyDatabase } from '../../support/database.ts';
import { senderTo } from '../../support/notified.ts';
import { startReceiver } from '../../support/receiver.ts';
import { createKey } from '../../support/tenants.ts';

/** What `sluice doctor` finds of one check, a line for each. */
async function examine(databaseUrl: string, check: string, more = {}): Promise<string> {
  const env = { DATABASE_URL: databaseUrl, ...more };
  const { out } = await runCli(['doctor', '--json'], { env });
  const all = JSON.parse(out) as readonly Record<'check' | 'result' | 'detail', string>[];
  const found = all.filter((one) => one.check === check);
  return found.map(({ result, detail }) => `${result}: ${detail}`).join('\n');
}

test('one worker, and a target of the installation that has never received a message, are not done', async () => {
  const receiver = await startReceiver();
  const own = await startApiUnderTest({ notifications: senderTo([receiver]) });
  onTestFinished(() => Promise.all([own.stop(), receiver.close()]).then(() => {}));
  const open = () => examine(own.databaseUrl, 'production');
  const addWorker = (id: string) =>
    own.db.query(`insert into workers (id, capacity, small_capacity) values ('${id}', 4, 4)`);
  await addWorker('one');
  const { key } = await createKey(own.db, { organizationId: null, scopes: ['*'] });
  const operator = createApiClient(own.baseUrl, key);
  const targets = '/api/admin/notification_targets';
  // A target of a customer does not hear of dead workers.
  await own.client.post(`${own.project}/notification_targets`, { url: receiver.url });
  expect(await open()).toMatch(
    /Only one worker .*\n[\s\S]*No enabled notification target of the in/,
  );
  const { id } = (await operator.post(targets, { url: receiver.url })).body;
  await addWorker('two');
  const untested = await open();
  expect(untested).toContain('No notification target of the installation has received a message');
  expect(untested).not.toContain('API and workers');
  await operator.post(`${targets}/${id}/test`);
  expect(receiver.received).toHaveLength(1);
  expect(await open()).not.toContain('A notification target');
});

test('names the role that reads the rows: on the embedded server it is not the owner', async () => {
  const own = await startApiUnderTest();
  onTestFinished(() => own.stop());
  const first = async (env: Record<string, string>) =>
    (await examineFirstDay(readConfig(env), own.db))[0]?.detail;
  expect(await first({ DATABASE_URL: own.databaseUrl })).toMatch(/with the role that owns/);
  expect(await first({})).toMatch(/^Database and roles: DATABASE_URL is not set/);
  const SOURCE_DATABASE_URL = 'postgres://reader@a/db';
  expect(await first({ DATABASE_URL: own.databaseUrl, SOURCE_DATABASE_URL })).not.toContain(
    'roles',
  );
});

test('without a worker the doctor fails, because exports wait', async () => {
  const own = await startApiUnderTest();
  onTestFinished(() => own.stop());
  const workers = () => examine(own.databaseUrl, 'workers');
  expect(await workers()).toBe('warning: No worker has reported in the last minute. Start two.');
  const body = exportBody({ destination: { type: 'NoOp', config: {} } });
  expect((await own.client.post(`${own.project}/batch_exports`, body)).status).toBe(201);
  expect(await workers()).toBe(
    'failed: No worker has reported in the last minute: 1 export waits. Start one.',
  );
  expect((await runCli(['doctor'], { env: { DATABASE_URL: own.databaseUrl } })).code).toBe(1);
  await own.db.query(`insert into workers (id, capacity, small_capacity) values ('one', 4, 4)`);
  expect(await workers()).toBe('ok: 1 reported in the last minute');
  await own.db.query(`update workers set heartbeat_at = now() - interval '2 minutes'`);
  expect(await workers()).toMatch(/^failed: /);
});

test('a database that was restored from a dump is held', async () => {
  const own = await startApiUnderTest();
  onTestFinished(() => own.stop());
  expect(await examine(own.databaseUrl, 'era')).toBe('ok: accepted');
  await own.db.query("update eras set system_identifier = '1'");
  expect(await examine(own.databaseUrl, 'era')).toMatch(
    /^failed: .*restored from a dump, or copied.*`sluice eras accept`/,
  );
});

test('the default settings fit a server with its defaults, and a lower limit is a warning', async () => {
  const own = await startApiUnderTest();
  const url = new URL(own.databaseUrl);
  const { admin } = await createEmptyDatabase();
  const role = `few_${randomBytes(6).toString('hex')}`;
  await admin.query(`create role ${role} login password 'x' in role "${url.username}"`);
  onTestFinished(async () => {
    await admin.query(`drop role ${role}`);
    await own.stop();
  });
  [url.username, url.password] = [role, 'x'];
  for (const id of ['one', 'two']) {
    await own.db.query(`insert into workers (id, capacity, small_capacity) values ('${id}', 4, 4)`);
  }
  const limitTo = (most: number) => admin.query(`alter role ${role} connection limit ${most}`);
  await limitTo(97);
  expect(await examine(url.href, 'connections')).toBe('ok: the servers have room for all');
  await limitTo(92);
  expect(await examine(url.href, 'connections')).toBe(
    'warning: An API and 2 workers open up to 93 connections (36 to DATABASE_URL, 57 to SOURCE_DATABASE_URL), ' +
      `and the role "${role}" (CONNECTION LIMIT 92) has room for 92. With fewer everything becomes slow: ` +
      `raise it (ALTER ROLE "${role}" CONNECTION LIMIT), or lower DATABASE_POOL_SIZE, WORKER_CONCURRENCY or WORKER_SMALL_RUNS.`,
  );
  const away = { SOURCE_DATABASE_URL: 'postgres://x@127.0.0.1:1/none' };
  expect(await examine(own.databaseUrl, 'connections', away)).toBe(
    'warning: SOURCE_DATABASE_URL: its limits could not be read, so nothing was compared with them.',
  );
});
