import { beforeAll, describe, expect, it } from 'vitest';
import { createPostgresSource, planModels } from '../../src/rows/sources/index.ts';
import type { SourceRequest } from '../../src/rows/sources/source.ts';
import { createEmptyDatabase } from '../support/database.ts';
import {
  columnBytes,
  createEvents,
  eventsRequest,
  insertEvents,
  readAll,
} from '../support/source-tables.ts';
import { useStage } from '../support/use-stage.ts';
import { firstByDay } from '../support/nightly.ts';
import { plainModel } from '../support/plain-model.ts';

const day = '2024-03-01T00:00:00Z';
const hour = eventsRequest(1, day, '2024-03-01T01:00:00Z');
const never = new AbortController().signal;

const database = useStage(createEmptyDatabase);
beforeAll(async () => {
  await database.pool.query(createEvents);
  await insertEvents(database.pool, { team: 1, start: day, count: 20, everyMs: 500 });
});

const sourceOf = () => createPostgresSource({ connectionString: database.url });

async function read(request: SourceRequest) {
  const snapshot = await sourceOf().open(request, never);
  try {
    return { blocks: await readAll(snapshot, never), snapshot };
  } finally {
    await snapshot.close();
  }
}

it('describes the columns as the server does', async () => {
  const { snapshot } = await read(eventsRequest(9, day, '2024-03-01T01:00:00Z'));
  expect(snapshot.columns.map(({ name, type }) => `${name} ${type}`)).toEqual([
    'uuid uuid',
    'event text',
    'properties jsonb',
    'distinct_id text',
    'person_id uuid',
    'person_properties jsonb',
    'elements_chain text',
    'timestamp timestamptz',
    'created_at timestamptz',
    'inserted_at timestamptz',
  ]);
  expect(snapshot.columns[7]?.sourceType).toBe('timestamp with time zone');
});

describe('a query', () => {
  it('chooses, computes and filters columns, each with the type that the server gives it', async () => {
    const { blocks, snapshot } = await read({
      ...hour,
      dslQuery:
        "SELECT event, properties.n AS n, created_at::date AS day, 1.10 AS price FROM events WHERE properties.n::int < 5 AND event <> 'event 0'",
    });
    expect(snapshot.columns).toEqual([
      { name: 'event', type: 'text', sourceType: 'text' },
      { name: 'n', type: 'text', sourceType: 'text' },
      { name: 'day', type: 'date', sourceType: 'date' },
      { name: 'price', type: 'as_json', sourceType: 'numeric' },
    ]);
    const texts = (name: string) => columnBytes(blocks, name).map(String);
    expect(texts('n')).toEqual(['1', '2', '4']);
    expect(texts('event')).toEqual(['event 1', 'event 2', 'event 1']);
    expect(texts('price')).toEqual(['1.10', '1.10', '1.10']);
    expect(snapshot.totalCount).toBe(3);
  });

  it('that is not allowed (any more) is query.invalid and says where', async () => {
    const refused = { ...hour, dslQuery: 'SELECT pg_sleep(9) AS x FROM events' };
    await expect(sourceOf().open(refused, never)).rejects.toMatchObject({
      code: 'query.invalid',
      detail: expect.stringContaining('pg_sleep() (position 8) is not supported'),
    });
  });

  it('of a model that is not defined is source.unknown_model', async () => {
    await expect(sourceOf().open({ ...hour, model: 'users' }, never)).rejects.toMatchObject({
      code: 'source.unknown_model',
    });
  });
});

it('a value of 60 MB comes through whole, among small rows', async () => {
  await insertEvents(database.pool, { team: 5, start: day, count: 20, everyMs: 1000 });
  await database.sql`UPDATE events SET elements_chain = repeat('0123456789', 6000000)
        WHERE team_id = 5 AND inserted_at = ${'2024-03-01T00:00:07Z'}`;
  const { blocks } = await read(eventsRequest(5, day, '2024-03-01T00:01:00Z'));
  const lengths = columnBytes(blocks, 'elements_chain').map((bytes) => bytes?.length ?? null);
  expect(lengths).toHaveLength(20);
  expect(lengths[7]).toBe(60_000_000);
});

describe('rows that share their moment with others', () => {
  const about = { tenantColumn: 'team_id', onSchemaChange: 'follow' } as const;
  const plan = planModels([plainModel('visits', { account: '', id: '' }, about)]);
  const accounts = 'SELECT account FROM visits WHERE account % 3 = 0';

  beforeAll(async () => {
    await database.sql`CREATE TABLE visits (id bigint, account int, team_id int, at timestamptz)`;
    // Ids fall, so that no order but that of the key sorts them.
    await database.sql`INSERT INTO visits SELECT 5000 - n, n, 1 + n % 2, timestamptz '2024-03-01T00:00:00Z'
         + CASE WHEN n % 2 = 0 THEN n / 7 ELSE least(n / 7, 100) END * interval '1 s'
         FROM generate_series(1, 4000) n`;
  });

  const cases = firstByDay(2, [
    ['very many', 2, null],
    ['few, which a query chooses', 1, accounts],
    ['few', 1, null],
    ['very many, which a query chooses', 2, accounts],
  ]);
  it.each(cases)('come by key: %s', async (_, team, dslQuery) => {
    const request = { ...hour, model: 'visits', tenantKey: String(team), dslQuery };
    const source = createPostgresSource({ connectionString: database.url, plan, blockBytes: 4096 });
    const { rows } = await database.sql<{ account: number }>`
      SELECT account FROM visits WHERE team_id = ${team} AND (${dslQuery === null} OR account % 3 = 0) ORDER BY at, id`;
    const snapshot = await source.open(request, never);
    const found = columnBytes(await readAll(snapshot, never), 'account');
    expect(found.map((bytes) => bytes?.readInt32BE())).toEqual(rows.map((row) => row.account));
    await snapshot.close();
  });
});
