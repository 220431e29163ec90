import fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';
import { SluiceError } from '../../src/foundation/domain/errors.ts';
import { eventsModel } from '../../src/foundation/domain/events-model.ts';
import type { Model } from '../../src/foundation/domain/model.ts';
import { maxBytes } from '../../src/rows/query/bounds.ts';
import { parseQuery } from '../../src/rows/query/parse-query.ts';
import {
  createPostgresSource,
  type PostgresSourceOptions,
  planModels,
} from '../../src/rows/sources/index.ts';
import { errorOf } from '../conformance/destination-suite.ts';
import { createEmptyDatabase } from '../support/database.ts';
import { createEvents, eventsRequest } from '../support/source-tables.ts';
import { useStage } from '../support/use-stage.ts';
import { hostileExpression, hostileTexts } from './hostile-queries.ts';

const model: Model = {
  ...eventsModel,
  columns: [
    ...eventsModel.columns,
    { name: 'price', expression: null, sourceType: 'numeric', json: false },
  ],
};
const day = '2024-03-01T00:00:00Z';
const key = '01234567-89ab-cdef-0123-456789abcdef';
const never = new AbortController().signal;
const database = useStage(createEmptyDatabase);
beforeAll(() => database.pool.query(`${createEvents}; ALTER TABLE events ADD price numeric`));

async function insert(team: number, row: Readonly<Record<string, unknown>>): Promise<void> {
  const all = { uuid: key, team_id: team, inserted_at: day, ...row };
  const names = Object.keys(all);
  await database.pool.query('DELETE FROM events');
  await database.pool.query(
    `INSERT INTO events (${names.join(', ')}) VALUES (${names.map((_, n) => `$${n + 1}`).join(', ')})`,
    Object.values(all),
  );
}

/** The bytes of all rows of a team's query, and the types of its columns. */
async function run(team: number, dslQuery: string, options: Partial<PostgresSourceOptions> = {}) {
  const source = createPostgresSource({
    connectionString: database.url,
    plan: planModels([model]),
    // The only bound of time: what a query may take at most, and more than a busy machine needs.
    statementTimeoutMs: 60_000,
    ...options,
  });
  const request = eventsRequest(team, day, '2024-03-01T01:00:00Z', { dslQuery });
  const snapshot = await source.open(request, never);
  try {
    let bytes = 0;
    let rows = 0;
    for (const slice of snapshot.slices) {
      for await (const block of snapshot.read(slice, never)) {
        bytes += block.bytes.length;
        rows += block.rowCount;
      }
    }
    return { bytes, rows, types: snapshot.columns.map(({ sourceType }) => sourceType) };
  } finally {
    await snapshot.close();
  }
}

describe('a guard', () => {
  test('lets a row through at its limit and fails one byte above, for good', async () => {
    const query = `SELECT strpos(elements_chain, distinct_id) AS x FROM events`;
    await insert(1, { elements_chain: 'a'.repeat(97_656), distinct_id: 'b' });
    expect(await run(1, query)).toMatchObject({ rows: 1, types: ['integer'] });
    await insert(1, { elements_chain: 'a'.repeat(97_657), distinct_id: 'b' });
    const error = await errorOf(run(1, query));
    expect(error.code).toBe('query.invalid');
    expect(error.spec.retryable).toBe(false);
    expect(error.detail).toBe(
      'value too large: elements_chain may have at most 97656 bytes here, a row has 97657',
    );
  });

  test('leaves null and the type of its value as they are', async () => {
    await insert(2, { properties: { a: ['x'], n: '12.50' }, price: '3' });
    expect(
      await run(
        2,
        `SELECT replace(event, 'a', '0123456789') AS a, properties @> '{"a":["x"]}' AS b,
                properties.n::numeric * price AS c, (properties || '{"z":1}') AS d
         FROM events WHERE event IS NULL AND NOT event LIKE properties.none IS TRUE`,
      ),
    ).toMatchObject({ rows: 1, types: ['text', 'boolean', 'numeric', 'jsonb'] });
  });

  test('is never reached by a row that the query itself leaves out', async () => {
    await insert(3, { event: 'a'.repeat(200_000), distinct_id: 'a' });
    const query = `SELECT CASE WHEN length(event) < 1000 THEN strpos(event, distinct_id) END AS x FROM events`;
    expect(await run(3, query)).toMatchObject({ rows: 1 });
  });

  test('stops numbers that are short to write and long to divide', async () => {
    await insert(4, { event: '1e131071', distinct_id: '7e65000' });
    const error = await errorOf(
      run(4, `SELECT div(event::numeric, distinct_id::numeric) AS x FROM events`),
    );
    expect(error.code).toBe('query.invalid');
    expect(error.detail).toContain('CAST(event AS numeric) may have at most');
  });
});

describe('what a query does to the server is its own fault', () => {
  test.each([
    ['22012, a division by zero', 'SELECT 1 / (length(event) - 1) AS x FROM events'],
    ['42883, an operator that does not exist', 'SELECT event + uuid AS x FROM events'],
    [
      '54000, an array of too many dimensions',
      `SELECT ${'ARRAY['.repeat(7)}event${']'.repeat(7)} AS x FROM events`,
    ],
  ])('%s', async (_, query) => {
    await insert(5, { event: 'a' });
    const error = await errorOf(run(5, query));
    expect(error.code).toBe('query.invalid');
    expect(error.spec.retryable).toBe(false);
  });

  const properties = { n: 'abc', day: '2024-13-01' };
  test.each([
    ['SELECT uuid, properties.n::int AS n FROM events', 'type integer: "abc"'],
    [
      'SELECT event, coalesce(properties.day::timestamptz, inserted_at) AS x FROM events',
      '"2024-13-01"',
    ],
    ['SELECT event FROM events WHERE distinct_id::numeric > 5', 'type numeric: "x\'"'],
    ['SELECT elements_chain::int AS n FROM events', 'value "99999999999" is out of range'],
  ])('a value that it fails on is named: %s', async (query, text) => {
    await insert(5, { event: 'a', distinct_id: "x'", elements_chain: '99999999999', properties });
    const error = await errorOf(run(5, query));
    expect(error.code).toBe('query.invalid');
    expect(error.detail).toContain(text);
  });

  test('but a relation that is gone is not', async () => {
    await database.pool.query('ALTER TABLE events RENAME TO elsewhere');
    try {
      const error = await errorOf(run(5, 'SELECT event FROM events'));
      expect(error.code).toBe('source.relation_missing');
    } finally {
      await database.pool.query('ALTER TABLE elsewhere RENAME TO events');
    }
  });
});

describe('a row that is larger than the reader takes', () => {
  const limit = { maxRowBytes: 2 ** 20 };

  test.each([
    ['before the large field', 'SELECT uuid, event FROM events'],
    ['behind the large field', 'SELECT event, uuid FROM events'],
    ['that the query does not select', 'SELECT event FROM events'],
  ])('fails for good and is named by its key %s', async (_, query) => {
    await insert(6, { event: 'a'.repeat(2 ** 20) });
    const error = await errorOf(run(6, query, limit));
    expect(error.code).toBe('source.row_too_large');
    expect(error.spec).toMatchObject({ fault: 'customer', retryable: false });
    expect(error.detail).toBe(`the row with uuid ${key} has more than 1 MiB`);
    await insert(6, { event: 'a'.repeat(2 ** 20 - 1_000) });
    expect(await run(6, query, limit)).toMatchObject({ rows: 1 });
  });

  test('is never held: the process stays as small as it is', async () => {
    await database.sql`INSERT INTO events (uuid, team_id, event, inserted_at)
       VALUES (${'00000000-0000-0000-0000-000000000007'}, 7, repeat('a', 240000000), ${day})`;
    let most = 0;
    const before = process.memoryUsage().rss;
    const watch = setInterval(() => {
      most = Math.max(most, process.memoryUsage().rss);
    }, 5);
    const error = await errorOf(run(7, 'SELECT event FROM events')).finally(() =>
      clearInterval(watch),
    );
    await database.pool.query('DELETE FROM events WHERE team_id = 7');
    expect(error.code).toBe('source.row_too_large');
    // V8 frees the buffers that it has read only once there are about 64 MiB of them.
    expect(most - before).toBeLessThan(110 * 2 ** 20);
  });
});

test('whatever is accepted stays within its bounds of time and bytes on hostile values', async () => {
  const hostile = fc.constantFrom(...hostileTexts);
  const tried = 1_000;
  let ran = 0;
  await fc.assert(
    fc.asyncProperty(
      hostileExpression,
      fc.tuple(hostile, hostile, hostile, hostile, hostile),
      async (expression, [event, distinctId, chain, a, c]) => {
        const query = `SELECT ${expression} AS x FROM events`;
        const parsed = parseQuery(query, model);
        if ('problems' in parsed) return;
        const properties = { a, b: { c } };
        const own = Buffer.byteLength(JSON.stringify([event, distinctId, chain, properties]));
        await insert(8, {
          event,
          distinct_id: distinctId,
          elements_chain: chain,
          properties,
          price: '1e130000',
        });
        try {
          const { bytes } = await run(8, query);
          ran += 1;
          expect(bytes).toBeLessThanOrEqual(maxBytes + 4 * (own + 131_072));
        } catch (error) {
          // A guard, a cast that its value can't take, a type that does not fit; never a time-out.
          if (!(error instanceof SluiceError)) throw error;
          expect(error.code).toBe('query.invalid');
        }
      },
    ),
    { numRuns: tried },
  );
  expect(ran).toBeGreaterThan(tried / 8);
});
