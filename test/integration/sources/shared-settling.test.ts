/** Intervals of one source that settle at the same time, or one after the other. */

import { endSessions, openSession, timeOf } from '../../support/source-sessions.ts';
import { useStage } from '../../support/use-stage.ts';
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { createPostgresSource } from '../../../src/rows/sources/index.ts';
import { lookSql } from '../../../src/rows/sources/postgres/live-transactions.ts';
import type { SettleWait, Source, SourceRequest } from '../../../src/rows/sources/source.ts';
import type { PostgresSourceOptions } from '../../../src/rows/sources/postgres/postgres-source.ts';
import { createEmptyDatabase, type TestDatabase } from '../../support/database.ts';
import { type OwnPostgres, startOwnPostgres } from '../../support/postgres-server.ts';
import { openRunSide, openTestPool, type RunSide } from '../../support/run-side.ts';
import { createEvents, eventsRequest, insertEvents, readAll } from '../../support/source-tables.ts';
import { atNight, isNightly } from '../../support/nightly.ts';
import { until } from '../../support/until.ts';
import pg from 'pg';
import { readConfig } from '../../../src/foundation/config/config.ts';
import { eventsModel } from '../../../src/foundation/domain/events-model.ts';
import { createLogger } from '../../../src/foundation/telemetry/logger.ts';
import { createMetrics } from '../../../src/foundation/telemetry/metrics.ts';
import { joinSources } from '../../../src/main/models.ts';
import { watchSources } from '../../../src/main/watch-sources.ts';
import { asRole } from '../../support/template-database.ts';

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

atNight('a thousand runs that wait for one transaction cost the source few looks', async () => {
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

atNight('a session to our tables is waited for only if it began before the end', async () => {
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

atNight('an idle connection that was lost is replaced', async () => {
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

const day = '2024-03-01T00:00:00Z';
const hourOf = (team: number) => eventsRequest(team, day, '2024-03-01T01:00:00Z');

/** What one interval costs the source's server: statements, counted by pg_stat_statements. */
describe.runIf(isNightly)('a server that counts statements', () => {
  let server: OwnPostgres;
  let admin: pg.Client;
  let source: Source;

  beforeAll(async () => {
    server = await startOwnPostgres({ shared_preload_libraries: 'pg_stat_statements' });
    admin = new pg.Client(server.adminUrl);
    await admin.connect();
    await admin.query(`CREATE EXTENSION pg_stat_statements; ${createEvents};
      CREATE ROLE reader LOGIN PASSWORD 'reader'; GRANT SELECT ON events TO reader;
      GRANT pg_read_all_stats TO reader`);
    await insertEvents(admin, { team: 2, start: day, count: 1_000, everyMs: 3_500 });
    await admin.query('ANALYZE events');
    const url = asRole(server.adminUrl, 'reader');
    source = createPostgresSource({ connectionString: url, keepConnectionMs: 60_000 });
  });

  afterAll(async () => {
    await admin?.end();
    await server?.stop();
  });

  /** Settles, opens, counts and reads. @returns how many rows came */
  async function readInterval(request: SourceRequest): Promise<number> {
    const settlement = await source.settle(request.interval, never);
    expect(settlement).toMatchObject({ settled: true });
    const snapshot = await source.open(request, never, settlement.position);
    const rows = (await readAll(snapshot, never)).reduce((sum, block) => sum + block.rowCount, 0);
    expect(rows).toBe(snapshot.totalCount);
    await snapshot.close();
    return rows;
  }

  /**
   * Statements of the source's role during `work`: all, and with their number of calls. A SET takes microseconds and no round trip,
   * so it does not count.
   */
  async function countStatements(work: () => Promise<void>) {
    await admin.query('SELECT pg_stat_statements_reset()');
    await work();
    const { rows } = await admin.query<{ calls: number; text: string }>(
      `SELECT s.calls::int, left(regexp_replace(s.query, '\\s+', ' ', 'g'), 100) AS text
         FROM pg_stat_statements s JOIN pg_roles r ON r.oid = s.userid
        WHERE r.rolname = 'reader' AND s.query !~* '^set ' ORDER BY s.calls DESC, s.query`,
    );
    return {
      total: rows.reduce((sum, { calls }) => sum + calls, 0),
      list: rows.map(({ calls, text }) => `${calls} × ${text}`).join('\n'),
    };
  }

  test.each([
    ['an empty interval', 1, 0, 6],
    ['an interval of 1,000 rows', 2, 1_000, 7],
  ])('%s takes few statements', async (_, team, rows, most) => {
    // The first read of a process also learns the names of types.
    await readInterval(hourOf(team));
    // A look is made again if it meets autovacuum, or a session that has just answered, as this test's own, and does not yet wait
    // for its client (`isStirring`): a busy machine shows it.
    const counts = [];
    for (let time = 0; time < 3; time++) {
      const count = await countStatements(async () => {
        expect(await readInterval(hourOf(team))).toBe(rows);
      });
      counts.push(count);
    }
    const { total, list } = counts.reduce((least, count) =>
      count.total < least.total ? count : least,
    );
    expect(total, list).toBeLessThanOrEqual(most);
    expect(total, list).toBeGreaterThan(0);
  });
});

/** Settling at a server on which no other transaction writes. */
describe.runIf(isNightly)('a quiet server', () => {
  let server: OwnPostgres;
  let reader: pg.Client;
  let writer: pg.Client;

  beforeAll(async () => {
    server = await startOwnPostgres({ fsync: 'off', autovacuum: 'off' });
    [reader, writer] = [new pg.Client(server.url), new pg.Client(server.url)];
    await Promise.all([reader.connect(), writer.connect()]);
  });
  afterAll(async () => {
    await Promise.all([reader?.end(), writer?.end()]);
    await server?.stop();
  });

  test('a transaction that was prepared before an interval is not what an open one without writes became', async () => {
    await writer.query('CREATE TABLE events (id int)');
    // From here on, no transaction with a later id completes.
    await writer.query(`BEGIN; INSERT INTO events VALUES (1); PREPARE TRANSACTION 'earlier'`);
    await reader.query('BEGIN; SELECT FROM events');
    const end = (await timeOf(writer)) + 1;
    let looks = 0;
    const source = createPostgresSource({
      ...{ connectionString: server.url, applicationName: 'quiet settling' },
      ...{ settlePollMs: 20, settleTimeoutMs: 5_000, onSettleLook: () => (looks += 1) },
    });
    const settling = source.settle({ start: end, end }, never);
    await until(() => looks > 3, { message: 'it waits for the reader' });
    await reader.query('COMMIT');
    expect(await settling).toMatchObject({ settled: true, pending: [] });
    await writer.query(`COMMIT PREPARED 'earlier'`);
  });
});

describe('a source that is looked at', () => {
  const source = useStage(createEmptyDatabase);
  const side = useStage(openRunSide);

  /** Sessions that were ever opened at the source. */
  async function countSessions(): Promise<number> {
    const name = new URL(source.url).pathname.slice(1);
    const [row] = await side.sql<{ sessions: number }>`
      select sessions from pg_stat_database where datname = ${name}`;
    return Number(row?.sessions);
  }

  test('a source is looked at once for all of its models, and again only while runs need it', async () => {
    const models = ['events', ...Array.from({ length: 10 }, (_, n) => `model_${n}`)].map(
      (name) => ({ model: { ...eventsModel, name }, sourceUrl: null, primaryUrl: null }),
    );
    const { url } = source;
    let looks = 0;
    // Each round begins with a look at our own database.
    const db: RunSide['db'] = {
      ...side.db,
      query: (text, values) => {
        if (text.startsWith('select distinct model')) looks += 1;
        return side.db.query(text, values);
      },
    };
    const metrics = createMetrics();
    const watch = watchSources(
      {
        ...{ db, models, metrics, logger: createLogger('silent', { role: 'test' }) },
        sourceOf: joinSources(readConfig({}), models, url),
      },
      50,
    );
    const untilRounds = (more: number) => {
      const wanted = looks + more;
      return until(() => looks >= wanted);
    };
    onTestFinished(() => watch.close());
    await untilRounds(2);
    expect(await countSessions()).toBe(1);
    expect((await metrics.source.clockOffsetSeconds.get()).values).toHaveLength(models.length);
    await untilRounds(5);
    expect(await countSessions()).toBe(1);
    await side.createExport();
    await side.decide();
    await until(async () => (await countSessions()) > 2);
    await side.sql`update runs set status = 'Cancelled', finished_at = now() - interval '1 hour'`;
    await untilRounds(2);
    const before = await countSessions();
    await untilRounds(5);
    expect(await countSessions()).toBe(before);
    expect(watch.fault()).toBe(null);
  });
});
