import { useStage } from '../support/use-stage.ts';
import type pg from 'pg';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { createPostgresSource } from '../../src/rows/sources/index.ts';
import { markOwnTransaction } from '../../src/rows/sources/postgres/live-transactions.ts';
import { createEmptyDatabase, type TestDatabase } from '../support/database.ts';
import { startOwnPostgres } from '../support/postgres-server.ts';
import {
  endSessions,
  insertEvent,
  isVirtual,
  openSession as openSessionOf,
  timeOf,
} from '../support/source-sessions.ts';
import { columnBytes, createEvents, readAll, hourRequest } from '../support/source-tables.ts';
import { until } from '../support/until.ts';
import { atNight } from '../support/nightly.ts';
import { asRole } from '../support/template-database.ts';

/** It lets sessions prepare transactions, which is off by default. */
const postgres = useStage(startOwnPostgres);
let database: TestDatabase;
const never = new AbortController().signal;

beforeAll(async () => {
  database = await createEmptyDatabase(postgres.server);
  await database.pool.query(createEvents);
});

beforeEach(async () => {
  await endSessions();
  const { rows } = await database.sql<{ gid: string }>`
    SELECT gid FROM pg_prepared_xacts WHERE database = current_database()`;
  for (const { gid } of rows) await database.pool.query(`ROLLBACK PREPARED '${gid}'`);
  await database.sql`TRUNCATE events`;
});

afterAll(async () => {
  await endSessions();
  await database?.drop();
});

const sourceOf = (settleTimeoutMs: number, url = database.url) =>
  createPostgresSource({ connectionString: url, settleTimeoutMs, settlePollMs: 20 });

const openSession = (url = database.url) => openSessionOf(url);
/** A session within a transaction. */
async function begin(first = '') {
  const session = await openSession();
  await session.query(`BEGIN; ${first}`);
  return session;
}
const settle = (source = sourceOf(30_000)) => source.settle(hourTo(Date.now()), never);

const hourTo = (end: number) => ({ start: end - 3_600_000, end });

const now = () => timeOf(database.pool);

/** How many messages a session is at work on. */
async function alive(session: pg.Client): Promise<number> {
  const { processID } = session as unknown as { processID: number };
  const { rowCount } = await database.sql`
    SELECT FROM pg_stat_activity WHERE pid = ${processID} AND state = 'active' AND wait_event = 'PgSleep'`;
  return rowCount ?? 0;
}

async function eventsBefore(end: number): Promise<string[]> {
  const source = sourceOf(1000);
  const interval = { start: end - 3_600_000, end };
  const snapshot = await source.open(hourRequest({ interval }), never);
  const blocks = await readAll(snapshot, never);
  await snapshot.close();
  return columnBytes(blocks, 'event').map(String).sort();
}

/** Whether a promise has been kept so far. */
function watch<T>(promise: Promise<T>): { readonly isDone: () => boolean } {
  let done = false;
  const note = () => (done = true);
  promise.then(note, note);
  return { isDone: () => done };
}

/** Waits until the settling session has looked several times. */
async function looks(times: number): Promise<void> {
  for (let look = 0; look < times; look += 1) {
    const last = await lastLook();
    await until(async () => (await lastLook()) !== last, { message: 'another look' });
  }
}

async function lastLook(): Promise<string | undefined> {
  const { rows } = await database.sql<{ at: string }>`
    SELECT max(query_start)::text AS at FROM pg_stat_activity
      WHERE application_name = 'sluice-export' AND datname = current_database()`;
  return rows[0]?.at;
}

it('waits for each transaction that began before the end, and no row of theirs is missed', async () => {
  const [late, savepoint, inTime] = [await begin(), await begin(), await begin()];
  await insertEvent(late, 'committed late');
  // Reads only so far: it has a virtual id and no transaction id.
  const writesLater = await begin('SELECT count(*) FROM events');
  await savepoint.query('SAVEPOINT before_row');
  await insertEvent(savepoint, 'under a savepoint');
  await insertEvent(inTime, 'in time');
  await inTime.query('COMMIT');
  const end = await now();

  const settled = settle();
  const { isDone } = watch(settled);
  await looks(2);
  expect([isDone(), await eventsBefore(end)]).toEqual([false, ['in time']]);

  await late.query('COMMIT');
  await looks(2);
  expect(isDone()).toBe(false);
  await insertEvent(writesLater, 'began before, wrote after');
  await writesLater.query('COMMIT');
  await looks(2);
  expect(isDone()).toBe(false);
  await savepoint.query('RELEASE before_row; COMMIT');

  expect(await settled).toMatchObject({ settled: true, pending: [] });
  expect(await eventsBefore(end)).toEqual([
    'began before, wrote after',
    'committed late',
    'in time',
    'under a savepoint',
  ]);
});

it('waits for a prepared transaction, also one that is prepared while it waits', async () => {
  const session = await begin();
  const name = `settle ${database.url.slice(-12)}`;
  await insertEvent(session, 'prepared');
  const end = await now();
  const settled = settle();
  const { isDone } = watch(settled);
  await looks(1);
  await session.query(`PREPARE TRANSACTION '${name}'`);
  await looks(3);
  expect(isDone()).toBe(false);
  await session.query(`COMMIT PREPARED '${name}'`);
  expect(await settled).toMatchObject({ settled: true, pending: [] });
  expect(await eventsBefore(end)).toEqual(['prepared']);
});

it('does not wait for transactions that begin afterwards', async () => {
  const before = await begin();
  await insertEvent(before, 'before');
  const settled = settle();
  await looks(2);
  const after = await begin();
  await insertEvent(after, 'after');
  await before.query('COMMIT');
  expect(await settled).toMatchObject({ settled: true, pending: [] });
});

it('waits for a message that holds two transactions: the second has the time of the message', async () => {
  const session = await openSession();
  const message = session.query(
    `BEGIN; SELECT pg_sleep(0.6); COMMIT; BEGIN; SELECT pg_sleep(0.6);
     INSERT INTO events (uuid, team_id, event) VALUES (gen_random_uuid(), 1, 'second'); COMMIT`,
  );
  await until(async () => (await alive(session)) === 1, { message: 'it is at work' });
  const end = await now();
  const settled = sourceOf(30_000).settle(hourTo(end), never);
  expect(await settled).toMatchObject({ settled: true, pending: [] });
  expect(await eventsBefore(end)).toEqual(['second']);
  await message;
});

it('waits until the clock of the source has passed the end', async () => {
  const end = (await now()) + 700;
  const settled = await sourceOf(30_000).settle(hourTo(end), never);
  expect(await now()).toBeGreaterThanOrEqual(end);
  expect(settled).toMatchObject({ settled: true });
});

it('says so if the clock of the source stays behind, and lists what is alive once it has passed', async () => {
  const source = sourceOf(100);
  const session = await begin('SELECT 1');
  const end = (await now()) + 800;
  const { reason, pending } = await source.settle(hourTo(end), never);
  expect([reason, pending]).toEqual(['clock', ['unlisted']]);
  const named = await until(async () => {
    const found = await source.recheck(hourTo(end), pending, never);
    return found.reason === 'clock' ? null : found;
  });
  expect(named).toMatchObject({ settled: false, reason: 'transactions' });
  await session.query('COMMIT');
  expect(await source.recheck(hourTo(end), named.pending, never)).toMatchObject({
    settled: true,
  });
});

it('waits for the prepared transactions that were pending, and for no others', async () => {
  const source = sourceOf(100);
  const tag = database.url.slice(-12);
  const leaked = await begin();
  await insertEvent(leaked, 'leaked');
  await leaked.query(`PREPARE TRANSACTION 'leaked ${tag}'`);
  const start = await now();
  const pendingOne = await begin();
  await insertEvent(pendingOne, 'pending');
  const end = await now();
  // Prepared before the interval began: its rows are of an earlier one.
  const interval = { start, end };
  const { pending } = await source.settle(interval, never);
  expect(pending.filter(isVirtual)).toHaveLength(1);
  expect(pending.filter((name) => name.startsWith('prepared'))).toEqual([]);
  await pendingOne.query(`PREPARE TRANSACTION 'pending ${tag}'`);
  const other = await begin();
  await insertEvent(other, 'other');
  await other.query(`PREPARE TRANSACTION 'other ${tag}'`);
  const left = await source.recheck(interval, pending, never);
  expect(left.pending).toEqual([
    expect.stringMatching(/^prepared:\d+$/),
    expect.stringMatching(/^at:/),
  ]);
  await other.query(`COMMIT PREPARED 'pending ${tag}'`);
  expect(await source.recheck(interval, left.pending, never)).toMatchObject({ settled: true });
  await other.query(`ROLLBACK PREPARED 'other ${tag}'`);
  await other.query(`ROLLBACK PREPARED 'leaked ${tag}'`);
});

atNight('does not wait for our own exports, nor for other databases', async () => {
  const other = await createEmptyDatabase(postgres.server);
  const foreign = await openSession(other.url);
  await foreign.query('BEGIN; SELECT 1');
  const interval = { start: 0, end: 3_600_000 };
  const request = hourRequest({ interval });
  const running = await sourceOf(1000).open(request, never);
  expect(await settle(sourceOf(2000))).toMatchObject({ settled: true });
  await running.close();
  await foreign.query('ROLLBACK');
  await endSessions();
  await other.drop();
});

it('says so when the bound is hit', async () => {
  await begin('SELECT 1');
  expect(await settle(sourceOf(200))).toMatchObject({ settled: false });
});

atNight('sees every transaction also as a role without privileges', async () => {
  const role = `settler_${database.url.slice(-12)}`;
  await database.admin.query(`CREATE ROLE ${role} LOGIN PASSWORD 'settler'`);
  const url = asRole(database.url, role, 'settler');
  const session = await begin('SELECT 1');
  expect(await settle(sourceOf(200, url))).toMatchObject({ settled: false });
  await session.query('ROLLBACK');
  const interval = hourTo(Date.now());
  const given = { settleTimeoutMs: 5_000, settlePollMs: 20, unseenMs: 300 };
  const source = createPostgresSource({ connectionString: url, ...given });
  const { reason, pending } = await source.settle(interval, never);
  expect(reason).toBe('unseen');
  expect(await source.recheck(interval, pending, never)).toMatchObject({ pending });
  await until(async () => (await source.recheck(interval, pending, never)).settled);
  const { findings } = await source.inspect(never);
  expect(findings).toMatchObject([
    { severity: 'warning', detail: expect.stringContaining('pg_read_all_stats') },
  ]);

  await database.admin.query(`GRANT pg_read_all_stats TO ${role}`);
  expect(await settle(source)).toMatchObject({ settled: true });
  expect((await source.inspect(never)).findings).toEqual([]);

  // The lock that marks our own transactions says nothing of other roles: they may write.
  await session.query(`BEGIN; SELECT ${markOwnTransaction}`);
  const late = sourceOf(200, url).settle(hourTo(await now()), never);
  expect(await late).toMatchObject({ settled: false, reason: 'transactions' });
  await session.query('ROLLBACK');
  await database.admin.query(`DROP ROLE ${role}`);
});

it('ends at once when it is aborted', async () => {
  await begin('SELECT 1');
  const controller = new AbortController();
  const settled = sourceOf(60_000).settle(hourTo(Date.now()), controller.signal);
  await looks(1);
  controller.abort(new Error('the worker stops'));
  await expect(settled).rejects.toThrow('the worker stops');
});
