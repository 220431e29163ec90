/** Requests of all rows of a tenant, of a table without a time of arrival. */

import { beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import pg from 'pg';
import { createPostgresSource, planModels } from '../../../src/rows/sources/index.ts';
import {
  manyRows,
  type Source,
  type SourceRequest,
  type SourceSnapshot,
} from '../../../src/rows/sources/source.ts';
import { createEmptyDatabase, testServer } from '../../support/database.ts';
import {
  createEvents,
  eventsRequest,
  insertEvents,
  hourRequest,
} from '../../support/source-tables.ts';
import { until } from '../../support/until.ts';
import { inTest, useStage } from '../../support/use-stage.ts';
import { atNight } from '../../support/nightly.ts';
import { plainModel } from '../../support/plain-model.ts';

const never = new AbortController().signal;
const hourMs = 3_600_000;

const people = plainModel('people', { id: 'bigint', name: 'text' }, { intervalColumn: null });
let source: Source;

const database = useStage(createEmptyDatabase);
beforeAll(async () => {
  await database.sql`create table people (team int, id bigint, name text, primary key (team, id))`;
  const plan = planModels([people]);
  source = createPostgresSource({ connectionString: database.url, plan });
});
beforeEach(async () => {
  await database.sql`truncate people; insert into people select 1, n, 'p' || n from generate_series(1, 5) n;
    insert into people values (2, 9, 'of another')`;
});

const request = (end: number, more: Partial<SourceRequest> = {}): SourceRequest =>
  hourRequest({ model: 'people', interval: { start: end - hourMs, end }, whole: true, ...more });

async function clockOf(): Promise<number> {
  const { rows } = await database.sql<{ ms: number }>`
    select floor(extract(epoch from clock_timestamp()) * 1000)::float8 as ms`;
  return rows[0]?.ms ?? 0;
}

test('all rows of the tenant come in one slice, and the snapshot says when it was taken', async () => {
  const before = await clockOf();
  const snapshot = await source.openSmall(request(before), never, 2 ** 20);
  const after = await clockOf();
  expect([snapshot.totalCount, snapshot.slices.length]).toEqual([5, 1]);
  expect(snapshot.takenAt).toBeGreaterThanOrEqual(before);
  expect(snapshot.takenAt).toBeLessThanOrEqual(after);
  // Rows that are written while it is read are not in it.
  await database.sql`update people set name = 'changed'; delete from people where id = 1`;
  let rows = 0;
  for (const slice of snapshot.slices) {
    for await (const { rowCount, bytes } of snapshot.read(slice, never)) {
      rows += rowCount;
      expect(Buffer.from(bytes).toString('latin1')).not.toMatch(/changed|of another/);
    }
  }
  expect(rows).toBe(5);
  await snapshot.close();
});

test('an interval that has not ended by the clock of the source has no snapshot', async () => {
  const future = (await clockOf()) + hourMs;
  const wait = { onlyEnd: true, patienceMs: 10 };
  const { interval } = request(future);
  expect(await source.settle(interval, never, wait)).toMatchObject({ reason: 'clock' });
  await expect(source.open(request(future), never)).rejects.toMatchObject({
    code: 'source.unavailable',
    detail: expect.stringContaining('has not ended'),
  });
});

test('an open transaction is not waited for', async () => {
  const client = await database.pool.connect();
  onTestFinished(async () => {
    await client.query('rollback');
    client.release();
  });
  await client.query(`begin; insert into people values (1, 77, 'late')`);
  const { interval } = request(await clockOf());
  expect(await source.settle(interval, never, { onlyEnd: true })).toMatchObject({ settled: true });
  expect(await source.settle(interval, never, { patienceMs: 10 })).toMatchObject({
    settled: false,
  });
});

test.each([
  ['nothing', 'select 1', false],
  ['a row of another tenant', `update people set name = 'x' where team = 2`, false],
  ['an update', `update people set name = 'x' where team = 1 and id = 3`, true],
  ['a deletion', 'delete from people where team = 1 and id = 3', true],
  ['a swap', 'delete from people where id = 3; insert into people values (1, 3, null)', true],
])('whether rows have changed since: %s', async (_, sql, changed) => {
  const asked = request(await clockOf());
  const snapshot = await source.open(asked, never);
  const earlier = { snapshot: snapshot.snapshot, digest: null, count: 5 };
  await snapshot.close();
  await database.pool.query(sql);
  expect(await source.hasChanged(asked, earlier, never)).toBe(changed);
});

test('a request by interval is refused with the remedy', async () => {
  const byInterval = request(await clockOf(), { whole: false });
  await expect(source.open(byInterval, never)).rejects.toMatchObject({
    code: 'source.model_invalid',
    detail: expect.stringContaining('interval_column'),
  });
});

/** When a snapshot knows how many rows it has. */
describe('counts of rows', () => {
  const day = '2024-03-01T00:00:00Z';
  const end = '2024-03-01T01:00:00Z';
  const many = { team: 1, rows: manyRows + 500 };
  const few = { team: 2, rows: manyRows - 1 };
  /** Two for each moment, so that rows of one moment meet the ends of slices too. */
  const times = { start: day, everyMs: 340, perInstant: 2 };

  beforeAll(async () => {
    await database.pool.query(createEvents);
    for (const { team, rows } of [many, few]) {
      await insertEvents(database.pool, { team, count: rows, ...times });
    }
    await database.sql`VACUUM ANALYZE events`;
  });

  async function readAll(snapshot: SourceSnapshot): Promise<number> {
    let rows = 0;
    for (const slice of snapshot.slices) {
      for await (const { rowCount } of snapshot.read(slice, never)) rows += rowCount;
    }
    return rows;
  }

  const open = (team: number, more: Parameters<typeof eventsRequest>[3] = {}) =>
    createPostgresSource({ connectionString: database.url }).open(
      eventsRequest(team, day, end, more),
      never,
    );

  /** Sessions of the source in a transaction. */
  async function countSessions(): Promise<number> {
    const { rows } = await database.sql<{ count: number }>`
      select count(*)::int as count from pg_stat_activity
      where datname = current_database() and xact_start is not null and pid <> pg_backend_pid()`;
    return rows[0]?.count ?? 0;
  }

  async function allowConnections(allowed: boolean): Promise<void> {
    const admin = new pg.Client({ connectionString: testServer().adminUrl });
    await admin.connect();
    const name = new URL(database.url).pathname.slice(1);
    await admin
      .query(`alter database ${name} allow_connections ${allowed}`)
      .finally(() => admin.end());
  }

  test('many rows are counted beside those that read them, and include none that came later', async () => {
    const snapshot = await open(many.team);
    onTestFinished(async () => {
      await snapshot.close();
      await database.pool.query(
        `delete from events where team_id = ${many.team} and inserted_at >= '2024-03-01T00:59:00Z'`,
      );
    });
    expect(snapshot.totalCount).toBeNull();
    const start = '2024-03-01T00:59:00Z';
    await insertEvents(database.pool, { ...times, team: many.team, count: 3, start });
    expect(await snapshot.countRows(never)).toBe(many.rows);
    expect(snapshot.totalCount).toBe(many.rows);
    // The count has taken neither the connection of the rows nor kept its own.
    // The server takes a moment to end a session.
    await until(async () => (await countSessions()) === 1);
    expect(await readAll(snapshot)).toBe(many.rows);
  });

  atNight('many rows can be counted after they were read, without another connection', async () => {
    const snapshot = await open(many.team);
    onTestFinished(async () => {
      await allowConnections(true);
      await snapshot.close();
    });
    await allowConnections(false);
    await expect(snapshot.countRows(never)).rejects.toMatchObject({
      code: 'source.access_refused',
    });
    expect(await readAll(snapshot)).toBe(many.rows);
    expect(await snapshot.countRows(never)).toBe(many.rows);
  });

  atNight('a count that nothing waits for ends with its snapshot', async () => {
    const snapshot = await open(many.team);
    const ended = expect(snapshot.countRows(never)).rejects.toMatchObject({ name: 'AbortError' });
    await snapshot.close();
    await ended;
  });

  test('fewer rows are known from the start', async () => {
    const snapshot = await inTest(open(few.team));
    expect(snapshot.totalCount).toBe(few.rows);
    expect(await readAll(snapshot)).toBe(few.rows);
  });

  atNight('keys are counted in any number: a reader may compare that alone', async () => {
    const snapshot = await open(many.team, { select: 'keys' });
    await snapshot.close();
    expect(snapshot.totalCount).toBe(many.rows);
  });

  atNight('the rows of a condition are counted as far as those of an interval', async () => {
    const dslQuery = `SELECT event FROM events WHERE event <> 'event 1'`;
    const snapshot = await inTest(open(many.team, { dslQuery }));
    expect(snapshot.totalCount).toBeLessThan(manyRows);
    expect(await readAll(snapshot)).toBe(snapshot.totalCount);
  });
});
