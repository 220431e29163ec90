/** Requests of all rows of a tenant, of a table without a time of arrival. */

import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import type { Model } from '../../../src/foundation/domain/model.ts';
import { createPostgresSource, planModels } from '../../../src/rows/sources/index.ts';
import type { Source, SourceRequest } from '../../../src/rows/sources/source.ts';
import { createEmptyDatabase, type TestDatabase } from '../../support/database.ts';

const never = new AbortController().signal;
const hourMs = 3_600_000;

const people: Model = {
  name: 'people',
  relation: { schema: 'public', name: 'people' },
  tenantColumn: 'team',
  intervalColumn: null,
  keyColumns: ['id'],
  eventColumn: null,
  columns: [
    { name: 'id', expression: null, sourceType: 'bigint', json: false },
    { name: 'name', expression: null, sourceType: 'text', json: false },
  ],
};

let database: TestDatabase;
let source: Source;

beforeAll(async () => {
  database = await createEmptyDatabase();
  await database.pool.query(
    'create table people (team int, id bigint, name text, primary key (team, id))',
  );
  const plan = planModels([people]);
  source = createPostgresSource({ connectionString: database.url, plan });
});
beforeEach(async () => {
  await database.pool.query(`truncate people; insert into people select 1, n, 'p' || n from generate_series(1, 5) n;
    insert into people values (2, 9, 'of another')`);
});
afterAll(() => database?.drop());

const request = (endMs: number, more: Partial<SourceRequest> = {}): SourceRequest => ({
  ...{ model: 'people', tenantKey: '1', dslQuery: null, includeEvents: null, excludeEvents: null },
  interval: { start: endMs - hourMs, end: endMs },
  whole: true,
  ...more,
});

async function clockOf(): Promise<number> {
  const { rows } = await database.pool.query<{ ms: string }>(
    'select floor(extract(epoch from clock_timestamp()) * 1000)::text as ms',
  );
  return Number(rows[0]?.ms);
}

test('all rows of the tenant come in one slice, and the snapshot says when it was taken', async () => {
  const before = await clockOf();
  const snapshot = await source.openSmall(request(before), never, 2 ** 20);
  const after = await clockOf();
  expect([snapshot.totalCount, snapshot.slices.length]).toEqual([5, 1]);
  expect(snapshot.takenAt).toBeGreaterThanOrEqual(before);
  expect(snapshot.takenAt).toBeLessThanOrEqual(after);
  // Rows that are written while it is read are not in it.
  await database.pool.query(`update people set name = 'changed'; delete from people where id = 1`);
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
  try {
    await client.query(`begin; insert into people values (1, 77, 'late')`);
    const { interval } = request(await clockOf());
    expect(await source.settle(interval, never, { onlyEnd: true })).toMatchObject({
      settled: true,
    });
    expect(await source.settle(interval, never, { patienceMs: 10 })).toMatchObject({
      settled: false,
    });
  } finally {
    await client.query('rollback');
    client.release();
  }
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
