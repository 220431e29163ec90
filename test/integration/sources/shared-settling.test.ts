/** Intervals of one source that settle at the same time, or one after the other. */

import { endSessions, openSession } from '../../support/source-sessions.ts';
import { useStage } from '../../support/use-stage.ts';
import { afterAll, afterEach, beforeAll, expect, onTestFinished, test } from 'vitest';
import { createPostgresSource } from '../../../src/rows/sources/index.ts';
import { lookSql } from '../../../src/rows/sources/postgres/live-transactions.ts';
import type { SettleWait } from '../../../src/rows/sources/source.ts';
import type { PostgresSourceOptions } from '../../../src/rows/sources/postgres/postgres-source.ts';
import { createEmptyDatabase, type TestDatabase } from '../../support/database.ts';
import { startOwnPostgres } from '../../support/postgres-server.ts';
import { openTestPool } from '../../support/run-side.ts';
import { createEvents } from '../../support/source-tables.ts';
import { until } from '../../support/until.ts';

const never = new AbortController().signal;
const applicationName = 'shared settling';

/** It lets sessions prepare transactions, which is off by default. */
const postgres = useStage(startOwnPostgres);
let database: TestDatabase;

beforeAll(async () => {
  database = await createEmptyDatabase(postgres.server);
  await database.pool.query(createEvents);
});
afterEach(endSessions);
afterAll(() => database?.drop());

async function openTransaction() {
  const session = await openSession(database.url);
  await session.query('BEGIN');
  await session.query('INSERT INTO events (uuid, team_id) VALUES (gen_random_uuid(), 1)');
  return session;
}

function watchedSource(options: Partial<PostgresSourceOptions> = {}) {
  let looks = 0;
  const source = createPostgresSource({
    ...{ connectionString: database.url, applicationName, settlePollMs: 20 },
    ...{ settleTimeoutMs: 60_000, onSettleLook: () => (looks += 1), ...options },
  });
  return { source, looks: () => looks };
}

/** The hour that ends a second ago, by the database's clock. */
async function lastHour() {
  const { rows } = await database.sql<{ ms: number }>`
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::float8 AS ms`;
  const end = rows[0]?.ms ?? 0;
  return { start: end - 3_600_000, end };
}

async function connections(name = applicationName): Promise<number> {
  const { rowCount } = await database.sql`
    SELECT FROM pg_stat_activity WHERE application_name = ${name} AND datname = current_database()`;
  return rowCount ?? 0;
}

test('two hundred intervals that wait share one connection and its looks; an abort of one leaves the others', async () => {
  const writer = await openTransaction();
  const { source, looks } = watchedSource();
  const interval = await lastHour();
  const leaver = new AbortController();
  const left = source.settle(interval, leaver.signal);
  const waiting = Array.from({ length: 200 }, () => source.settle(interval, never));
  let done = 0;
  for (const one of waiting) void one.then(() => (done += 1));
  await until(() => looks() > 12, { message: 'twelve looks' });
  const before = looks();
  leaver.abort(new Error('the run was cancelled'));
  await expect(left).rejects.toThrow('the run was cancelled');
  await until(() => looks() > before + 5, { message: 'looks after the abort' });
  expect([await connections(), done]).toEqual([1, 0]);
  await writer.query('COMMIT');
  for (const settlement of await Promise.all(waiting)) {
    expect(settlement).toMatchObject({ settled: true, pending: [] });
  }
  // Each by itself would have looked several times.
  expect(looks()).toBeLessThan(300);
  await until(async () => (await connections()) === 0, { message: 'the connection is closed' });
});

test('a transaction that was waited for in vain is named at once by the next interval, others are waited for', async () => {
  const late = await openTransaction();
  const { source, looks } = watchedSource({ settleTimeoutMs: 1_000 });
  const first = await source.settle(await lastHour(), never);
  expect(first).toMatchObject({ settled: false, reason: 'transactions' });
  const before = looks();
  const second = await source.settle(await lastHour(), never);
  expect(second).toMatchObject({ settled: false, reason: 'transactions' });
  expect(second.pending).toEqual(first.pending);
  expect(looks() - before).toBeLessThanOrEqual(6);

  const other = await openTransaction();
  const third = source.settle(await lastHour(), never);
  let isDone = false;
  void third.then(() => (isDone = true));
  const from = looks();
  await until(() => looks() > from + 5, { message: 'it waits for the other' });
  expect(isDone).toBe(false);
  await other.query('COMMIT');
  expect((await third).pending).toEqual(first.pending);
  await late.query('COMMIT');
  expect(await source.settle(await lastHour(), never)).toMatchObject({ settled: true });
});

test('a thousand runs that wait for one transaction cost the source few looks, and all settle once it has ended', async () => {
  const writer = await openTransaction();
  const { source, looks } = watchedSource({ keepConnectionMs: 60_000 });
  const interval = await lastHour();
  const runs = Array.from({ length: 1_000 });
  const settle = (wait: SettleWait) =>
    Promise.all(runs.map(() => source.settle(interval, never, wait)));
  const waited = await settle({ patienceMs: 500 });
  for (const { settled, leftMs } of waited)
    expect([settled, (leftMs ?? 0) > 0]).toEqual([false, true]);
  // One every 20 ms, a few of them for the first short pauses.
  expect(looks()).toBeLessThan(60);
  const before = looks();
  const { pending } = waited[0] ?? { pending: [] };
  // What others have waited for already is not waited for now.
  expect((await settle({ patienceMs: 500 })).every(({ settled }) => !settled)).toBe(true);
  const again = await settle({ patienceMs: 500, waitedMs: 1_000, pending });
  expect(again.every((one) => !one.settled && one.pending.join() === pending.join())).toBe(true);
  expect(looks() - before).toBeLessThan(10);

  const later = await openTransaction();
  await writer.query(`PREPARE TRANSACTION 'while it waits'`);
  const prepared = await settle({ waitedMs: 2_000, pending });
  const names = prepared[0]?.pending ?? [];
  expect(names[0]).toMatch(/^prepared:/);
  await database.sql`COMMIT PREPARED 'while it waits'`;
  const done = await settle({ waitedMs: 3_000, pending: names });
  expect(done.every(({ settled }) => settled)).toBe(true);
  await later.query('COMMIT');
});

test('a session to our own tables is waited for only if its transaction is from before the end', async () => {
  const store = openTestPool(database.url, 1);
  const { source } = watchedSource({ settleTimeoutMs: 500 });
  onTestFinished(() => store.close());
  await store.transaction(async (tx) => {
    await tx.query('INSERT INTO events (uuid, team_id) VALUES (gen_random_uuid(), 1)');
    const { end } = await lastHour();
    expect(await source.settle({ start: 0, end: 3_600_000 }, never)).toMatchObject({
      settled: true,
    });
    const found = await source.settle({ start: end, end: end + 1 }, never);
    expect(found).toMatchObject({ settled: false, reason: 'transactions' });
  });
});

test('an idle connection that was lost is replaced', async () => {
  const name = 'lost while idle';
  const { source } = watchedSource({ keepConnectionMs: 60_000, applicationName: name });
  const long = { start: 0, end: 3_600_000 };
  await source.settle(long, never);
  expect(await connections(name)).toBe(1);
  await database.sql`
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = ${name}`;
  expect(await source.settle({ start: 0, end: 7_200_000 }, never)).toMatchObject({ settled: true });
});

/** A node of EXPLAIN's JSON; of a nested loop the first part runs before the second. */
interface PlanNode {
  readonly 'Node Type': string;
  readonly 'Function Name'?: string;
  readonly Plans?: readonly PlanNode[];
}

const functionsOf = (node: PlanNode | undefined): readonly string[] => [
  ...(node?.['Function Name'] === undefined ? [] : [node['Function Name']]),
  ...(node?.Plans ?? []).flatMap(functionsOf),
];

test('the server reads ids of prepared transactions, then sessions, then virtual ids, then prepared transactions', async () => {
  const { rows } = await database.pool.query<{ 'QUERY PLAN': readonly [{ Plan: PlanNode }] }>(
    `EXPLAIN (FORMAT JSON) ${lookSql}`,
  );
  const order: (readonly string[])[] = [];
  let node = rows[0]?.['QUERY PLAN'][0].Plan;
  while (node?.['Node Type'] === 'Nested Loop') {
    order.unshift(functionsOf(node.Plans?.[1]));
    node = node.Plans?.[0];
  }
  const parts = ['pg_stat_get_activity', 'pg_lock_status', 'pg_prepared_xact'];
  expect(order).toEqual(parts.map((part) => [part]));
  expect(functionsOf(node)).toEqual(['pg_prepared_xact']);
});
