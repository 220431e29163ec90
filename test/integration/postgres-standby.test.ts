import { timeOf } from '../support/source-sessions.ts';
import { Client } from 'pg';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { eventsModel } from '../../src/foundation/domain/events-model.ts';
import { checkModel, createPostgresSource } from '../../src/rows/sources/index.ts';
import { readLook } from '../../src/rows/sources/postgres/live-transactions.ts';
import { openDatabase } from '../../src/state/store/database/database.ts';
import { isDatabaseUnavailable } from '../../src/state/store/database/unavailable.ts';
import { mayHaveLateRows } from '../support/late-rows.ts';
import { createEvents, readAll, hourRequest } from '../support/source-tables.ts';
import { type Replication, startReplication } from '../support/standby.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';
import { atNight } from '../support/nightly.ts';
import { until } from '../support/until.ts';

let replication: Replication;
let writer: Client;
/** Within a transaction the writer would see the sessions of one moment only. */
let observer: Client;
const never = new AbortController().signal;

beforeAll(async () => {
  replication = await startReplication();
  writer = new Client(replication.primary.adminUrl);
  await writer.connect();
  observer = new Client(replication.primary.adminUrl);
  await observer.connect();
  await writer.query(createEvents);
  await replication.untilReplayed();
});
afterAll(async () => {
  await writer?.end();
  await observer?.end();
  await replication?.stop();
});

const sourceOf = (changes: Parameters<typeof createPostgresSource>[0] | object = {}) =>
  createPostgresSource({
    connectionString: replication.standbyUrl,
    primaryUrl: replication.primary.adminUrl,
    settleTimeoutMs: 30_000,
    settlePollMs: 20,
    ...changes,
  });
const insert = () =>
  writer.query('insert into events (uuid, team_id) values (gen_random_uuid(), 1)');
const sourceNow = () => timeOf(writer);
/** The hour that ends now. */
const hourToNow = async () => {
  const end = await sourceNow();
  return { start: end - 3_600_000, end };
};

it('a walsender counts with its message, unless it streams', async () => {
  const config = { connectionString: replication.primary.adminUrl, replication: 'database' };
  const walsender = new Client(config);
  await walsender.connect();
  onTestFinished(() => walsender.end());
  const { rows } = await walsender.query<{ pid: number }>('select pg_backend_pid() as pid');
  await observer.query('select pg_advisory_lock(7)');
  const message = walsender.query('begin; commit; select pg_advisory_xact_lock(7)');
  const seen = await until(
    async () => {
      const { sessions } = await readLook(observer, never);
      const isThere = sessions.some(
        ({ pid, messageAt }) => pid === rows[0]?.pid && messageAt !== null,
      );
      return isThere ? sessions : null;
    },
    { message: 'the walsender waits for the lock' },
  );
  await observer.query('select pg_advisory_unlock(7)');
  await message;
  const counted = seen.filter(({ messageAt }) => messageAt !== null);
  expect(counted.map(({ pid }) => pid)).toEqual([rows[0]?.pid]);
  // That of the standby.
  expect(seen.length).toBeGreaterThan(1);
});

it('a standby is settled once it shows what its primary had written when the last transaction ended', async () => {
  await replication.pauseReplay();
  await writer.query('begin');
  await insert();
  const interval = await hourToNow();
  const source = sourceOf();
  let isDone = false;
  const settled = source.settle(interval, never).finally(() => (isDone = true));
  await untilLooked();
  await writer.query('commit');
  await untilLooked();
  expect(isDone).toBe(false);
  await replication.resumeReplay();
  const { settled: isSettled, position } = await settled;
  expect(isSettled).toBe(true);
  expect(position).toMatch(/^[0-9A-F]+\/[0-9A-F]+@[\d.]+$/);
  const request = hourRequest({ interval });
  const snapshot = await source.open(request, never, position);
  await readAll(snapshot, never);
  expect(snapshot.keySet()?.count).toBe(1);
  await snapshot.close();
});

it('a standby that stays behind is named with the position, and settles once it has passed it', async () => {
  await replication.pauseReplay();
  await insert();
  const interval = await hourToNow();
  const source = sourceOf({ settleTimeoutMs: 500 });
  const { reason, pending } = await source.settle(interval, never);
  expect([reason, pending]).toEqual([
    'replay',
    [expect.stringMatching(/^replay:/), expect.stringMatching(/^at:/)],
  ]);
  expect(await source.recheck(interval, pending, never)).toMatchObject({ settled: false, pending });
  const request = hourRequest({ interval });
  const position = pending[0]?.replace('replay:', '') ?? '';
  await expect(source.open(request, never, position)).rejects.toMatchObject({
    code: 'source.unavailable',
  });
  await replication.resumeReplay();
  await until(async () => (await source.recheck(interval, pending, never)).settled);
});

it('a standby without its primary is refused, or allowed and never settled', async () => {
  const interval = await hourToNow();
  const refused = sourceOf({ primaryUrl: null });
  await expect(refused.settle(interval, never)).rejects.toMatchObject({ code: 'source.standby' });
  const allowed = sourceOf({ primaryUrl: null, allowUnsettledStandby: true });
  const settlement = { settled: false, reason: 'standby', pending: ['standby'] };
  expect(await allowed.settle(interval, never)).toMatchObject(settlement);
  expect(await allowed.recheck(interval, ['standby'], never)).toMatchObject(settlement);
  // Its primary was named since.
  expect(await sourceOf().recheck(interval, ['standby'], never)).toMatchObject({ settled: true });
});

it('a settle_url that is no primary, or of another cluster, is refused', async () => {
  const interval = await hourToNow();
  const itself = sourceOf({ primaryUrl: replication.standbyUrl });
  await expect(itself.settle(interval, never)).rejects.toMatchObject({
    code: 'source.standby',
    detail: expect.stringContaining('names a standby'),
  });
});

atNight('a check of the model says what a standby lacks', async () => {
  const check = (settling: object) =>
    checkModel(replication.standbyUrl, eventsModel, ['1'], settling).then(({ findings }) =>
      findings.map(({ severity, detail }) => `${severity}: ${detail}`).join(),
    );
  expect(await check({})).toMatch(/error: The source is a standby, .*settle_url/);
  expect(await check({ allowUnsettledStandby: true })).toMatch(/warning: .*never settle/);
  expect(await check({ primaryUrl: replication.standbyUrl })).toMatch(
    /error: .*Correct settle_url/,
  );
  expect(await check({ primaryUrl: replication.primary.adminUrl })).not.toMatch(/standby/);
});

/** One address that leads to the server that `lead` chose last, and a source behind it. */
async function behindOneAddress(options: object = {}) {
  const portOf = (url: string) => Number(new URL(url).port);
  const ports = {
    primary: portOf(replication.primary.adminUrl),
    standby: portOf(replication.standbyUrl),
  };
  const target = { port: ports.primary };
  const proxy = await startTcpProxy({ target });
  const url = new URL(replication.primary.adminUrl);
  url.host = `${proxy.host}:${proxy.port}`;
  const source = sourceOf({ connectionString: url.href, primaryUrl: null, ...options });
  const lead = (to: keyof typeof ports) => (target.port = ports[to]);
  return { source, proxy, lead, url: url.href };
}

atNight('our own database is not a standby, even if its address leads there', async () => {
  const { proxy, lead, url } = await behindOneAddress();
  const db = openDatabase({
    connectionString: url,
    applicationName: 'sluice-own',
    maxConnections: 1,
    writes: true,
    onError: () => {},
  });
  const pidOf = async (sql: Pick<typeof db, 'query'>) => {
    const [row] = await sql.query<{ pid: number }>('select pg_backend_pid() as pid');
    return row?.pid;
  };
  onTestFinished(async () => {
    await db.close();
    await proxy.close();
    await writer.query('drop table if exists own');
  });
  await db.query('create table own (n int)');
  await replication.untilReplayed();
  lead('standby');
  proxy.cut();
  // Without the refusal this connection would stay in the pool, and give answers of before.
  await until(async () => {
    const answer = await db.query('select n from own').catch((error: Error) => error);
    if (!(answer instanceof Error)) throw new Error('a standby was asked');
    return isDatabaseUnavailable(answer) && 'code' in answer && answer.code === '25006';
  });
  lead('primary');
  await db.transaction((tx) => tx.query('insert into own values (1)'));

  // A server that ceases to take writes does not end its connections.
  const last = await pidOf(db);
  const refused = db.transaction(async (tx) => {
    await tx.query('set transaction read only');
    await tx.query('insert into own values (2)');
  });
  expect(isDatabaseUnavailable(await refused.catch((error: unknown) => error))).toBe(true);
  expect(await pidOf(db)).not.toBe(last);
});

atNight('rows are read only from the server that settled, wherever the address leads', async () => {
  const { source, proxy, lead } = await behindOneAddress();
  onTestFinished(async () => {
    await proxy.close();
    await replication.resumeReplay();
  });
  const from = await sourceNow();
  await replication.pauseReplay();
  await insert();
  const interval = { start: from, end: await sourceNow() };
  const { settled, position, server } = await source.settle(interval, never);
  expect(settled).toBe(true);
  const request = hourRequest({ interval });
  const nothing = { snapshot: '1:1:', digest: null, count: 0 };
  lead('standby');
  await expect(source.open(request, never, position, server)).rejects.toMatchObject({
    code: 'source.unavailable',
  });
  await expect(
    mayHaveLateRows(source, request, nothing, position, never, server),
  ).rejects.toMatchObject({ code: 'source.unavailable' });
  lead('primary');
  const snapshot = await source.open(request, never, position, server);
  expect(snapshot.totalCount).toBe(1);
  await snapshot.close();
  expect(await mayHaveLateRows(source, request, nothing, position, never, server)).toBe(true);
});

atNight('a wait does not go on at another server', async () => {
  const { source, proxy, lead } = await behindOneAddress({ settlePollMs: 200 });
  onTestFinished(async () => {
    await writer.query('rollback');
    await proxy.close();
  });
  await writer.query('begin');
  await insert();
  const settling = source.settle(await hourToNow(), never);
  const outcome = settling.then(
    ({ settled }) => `settled: ${settled}`,
    ({ code }) => code,
  );
  await untilLooked();
  lead('standby');
  proxy.cut();
  expect(await outcome).toBe('source.unavailable');
});

/** Waits until the settling session on the primary has looked again. */
async function untilLooked(): Promise<void> {
  const lastLook = async () => {
    const { rows } = await observer.query<{ at: string }>(
      `select max(query_start)::text as at from pg_stat_activity where application_name = 'sluice-export'`,
    );
    return rows[0]?.at;
  };
  const last = await lastLook();
  await until(async () => (await lastLook()) !== last, { message: 'another look' });
}
