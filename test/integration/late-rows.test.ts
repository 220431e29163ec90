import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Model } from '../../src/domain/model.ts';
import { createPostgresSource, planModels } from '../../src/sources/index.ts';
import { createEmptyDatabase, type TestDatabase } from '../support/database.ts';
import { eventsRequest } from '../support/source-tables.ts';

let database: TestDatabase;
const signal = new AbortController().signal;

const modelOf = (name: string): Model => ({
  name,
  relation: { schema: 'public', name },
  tenantColumn: 'team',
  intervalColumn: 'at',
  keyColumns: ['id'],
  eventColumn: null,
  columns: [{ name: 'id', expression: null, sourceType: 'integer', json: false }],
});

beforeAll(async () => {
  database = await createEmptyDatabase();
  await database.pool.query(`
    create table parts (id int, team int, at timestamptz) partition by range (at);
    create table parts_1 partition of parts default;
    create view shown as select id, team, at from parts`);
});

afterAll(() => database.drop());

it.each(['parts', 'shown'])(
  'late rows of %s are found, and none where nothing came',
  async (name) => {
    await database.pool.query('truncate parts');
    await database.pool.query(`insert into parts values (1, 1, '2024-03-01T00:30:00Z')`);
    const source = createPostgresSource({
      connectionString: database.url,
      plan: planModels([modelOf(name)]),
    });
    const request = {
      ...eventsRequest(1, '2024-03-01T00:00:00Z', '2024-03-01T01:00:00Z'),
      model: name,
    };
    const earlier = await source.open(request, signal);
    const { snapshot, totalCount } = earlier;
    await earlier.close();
    const late = () => source.hasLateRows(request, snapshot, totalCount, signal);
    expect(await late()).toBe(false);
    await database.pool.query(`insert into parts values (2, 2, '2024-03-01T00:31:00Z')`);
    expect(await late(), 'another project').toBe(false);
    await database.pool.query(`insert into parts values (3, 1, '2024-03-01T00:31:00Z')`);
    expect(await late()).toBe(true);
  },
);
