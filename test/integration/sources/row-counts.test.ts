/** When a snapshot knows how many rows it has. */

import { afterAll, beforeAll, expect, test } from 'vitest';
import { createPostgresSource } from '../../../src/sources/index.ts';
import { manyRows, type SourceSnapshot } from '../../../src/sources/source.ts';
import { createEmptyDatabase, type TestDatabase } from '../../support/database.ts';
import { createEvents, eventsRequest, insertEvents } from '../../support/source-tables.ts';

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

/** Reads its slices, and what it says of all rows before each of them and at the end. */
async function follow(snapshot: SourceSnapshot) {
  const said: (number | null)[] = [];
  let rows = 0;
  try {
    for (const slice of snapshot.slices) {
      said.push(snapshot.totalCount);
      for await (const { rowCount } of snapshot.read(slice, never)) rows += rowCount;
    }
    said.push(snapshot.totalCount);
  } finally {
    await snapshot.close();
  }
  return { said, rows };
}

const open = (team: number, more: Parameters<typeof eventsRequest>[3] = {}) =>
  createPostgresSource({ connectionString: database.url }).open(
    eventsRequest(team, day, end, more),
    never,
  );

test('many rows are not read twice: they are known once all were sent', async () => {
  const { said, rows } = await follow(await open(many.team));
  expect(rows).toBe(many.rows);
  expect(said).toEqual([null, null, null, null, null, null, many.rows]);
});

test('fewer rows are known from the start', async () => {
  const { said, rows } = await follow(await open(few.team));
  expect(rows).toBe(few.rows);
  expect(new Set(said)).toEqual(new Set([few.rows]));
});

test('keys are counted in any number: a reader may compare that alone', async () => {
  const snapshot = await open(many.team, { select: 'keys' });
  await snapshot.close();
  expect(snapshot.totalCount).toBe(many.rows);
});

test('the rows of a condition are counted as far as those of an interval', async () => {
  const { said, rows } = await follow(
    await open(many.team, { dslQuery: `SELECT event FROM events WHERE event <> 'event 1'` }),
  );
  expect(rows).toBeLessThan(manyRows);
  expect(new Set(said)).toEqual(new Set([rows]));
});
