/** When a snapshot knows how many rows it has. */

import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createPostgresSource } from '../../../src/rows/sources/index.ts';
import { manyRows, type SourceSnapshot } from '../../../src/rows/sources/source.ts';
import { createEmptyDatabase, type TestDatabase, testServer } from '../../support/database.ts';
import { createEvents, eventsRequest, insertEvents } from '../../support/source-tables.ts';
import { until } from '../../support/until.ts';

const never = new AbortController().signal;
const day = '2024-03-01T00:00:00Z';
const end = '2024-03-01T01:00:00Z';
const many = { team: 1, rows: manyRows + 500 };
const few = { team: 2, rows: manyRows - 1 };
/** Two for each moment, so that rows of one moment meet the ends of slices too. */
const times = { start: day, everyMs: 340, perInstant: 2 };

let database: TestDatabase;

beforeAll(async () => {
  database = await createEmptyDatabase();
  await database.pool.query(createEvents);
  for (const { team, rows } of [many, few]) {
    await insertEvents(database.pool, { team, count: rows, ...times });
  }
  await database.pool.query('VACUUM ANALYZE events');
});

afterAll(() => database?.drop());

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
  const { rows } = await database.pool.query<{ count: number }>(
    `select count(*)::int as count from pg_stat_activity
      where datname = current_database() and xact_start is not null and pid <> pg_backend_pid()`,
  );
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
  try {
    expect(snapshot.totalCount).toBeNull();
    const start = '2024-03-01T00:59:00Z';
    await insertEvents(database.pool, { ...times, team: many.team, count: 3, start });
    expect(await snapshot.countRows(never)).toBe(many.rows);
    expect(snapshot.totalCount).toBe(many.rows);
    // The count has taken neither the connection of the rows nor kept its own.
    // The server takes a moment to end a session.
    await until(async () => (await countSessions()) === 1);
    expect(await readAll(snapshot)).toBe(many.rows);
  } finally {
    await snapshot.close();
    await database.pool.query(
      `delete from events where team_id = ${many.team} and inserted_at >= '2024-03-01T00:59:00Z'`,
    );
  }
});

test('many rows can be counted after they were read, without another connection', async () => {
  const snapshot = await open(many.team);
  try {
    await allowConnections(false);
    await expect(snapshot.countRows(never)).rejects.toMatchObject({
      code: 'source.access_refused',
    });
    expect(await readAll(snapshot)).toBe(many.rows);
    expect(await snapshot.countRows(never)).toBe(many.rows);
  } finally {
    await allowConnections(true);
    await snapshot.close();
  }
});

test('a count that nothing waits for ends with its snapshot', async () => {
  const snapshot = await open(many.team);
  const ended = expect(snapshot.countRows(never)).rejects.toMatchObject({ name: 'AbortError' });
  await snapshot.close();
  await ended;
});

test('fewer rows are known from the start', async () => {
  const snapshot = await open(few.team);
  try {
    expect(snapshot.totalCount).toBe(few.rows);
    expect(await readAll(snapshot)).toBe(few.rows);
  } finally {
    await snapshot.close();
  }
});

test('keys are counted in any number: a reader may compare that alone', async () => {
  const snapshot = await open(many.team, { select: 'keys' });
  await snapshot.close();
  expect(snapshot.totalCount).toBe(many.rows);
});

test('the rows of a condition are counted as far as those of an interval', async () => {
  const snapshot = await open(many.team, {
    dslQuery: `SELECT event FROM events WHERE event <> 'event 1'`,
  });
  try {
    expect(snapshot.totalCount).toBeLessThan(manyRows);
    expect(await readAll(snapshot)).toBe(snapshot.totalCount);
  } finally {
    await snapshot.close();
  }
});
