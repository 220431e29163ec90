import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Model } from '../../src/domain/model.ts';
import { createPostgresSource, planModels } from '../../src/sources/index.ts';
import { createEmptyDatabase, type TestDatabase } from '../support/database.ts';
import { columnBytes, eventsRequest, readAll } from '../support/source-tables.ts';

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

it.each(['parts', 'shown'])('late rows of %s are found, and none if nothing came', async (name) => {
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
  const see = async () => {
    const opened = await source.open(request, signal);
    await readAll(opened, signal);
    await opened.close();
    return { snapshot: opened.snapshot, ...(opened.keySet() ?? { digest: null, count: -1 }) };
  };
  const earlier = await see();
  const late = () => source.hasLateRows(request, earlier, null, signal);
  expect(await late()).toBe(false);
  await database.pool.query(`insert into parts values (2, 2, '2024-03-01T00:31:00Z')`);
  expect(await late(), 'another project').toBe(false);
  await database.pool.query(`insert into parts values (3, 1, '2024-03-01T00:31:00Z')`);
  expect(await late()).toBe(true);
  const then = await see();
  await database.pool.query(`delete from parts where id = 1`);
  await database.pool.query(`insert into parts values (4, 1, '2024-03-01T00:32:00Z')`);
  expect(await source.hasLateRows(request, then, null, signal), 'one for one').toBe(true);
  await database.pool.query(`insert into parts select * from parts`);
  const twice = await see();
  expect(twice.count).toBe(6 - 2);
  expect(await source.hasLateRows(request, twice, null, signal), 'keys that repeat').toBe(false);
});

it('rows of an attached partition are found though their writer is older than the snapshot', async () => {
  await database.pool.query(`
    create table spread (id int, team int, at timestamptz) partition by range (at);
    create table spread_old (id int, team int, at timestamptz);
    insert into spread_old values (1, 1, '2024-03-01T00:30:00Z')`);
  const source = createPostgresSource({
    connectionString: database.url,
    plan: planModels([modelOf('spread')]),
  });
  const request = {
    ...eventsRequest(1, '2024-03-01T00:00:00Z', '2024-03-01T01:00:00Z'),
    model: 'spread',
  };
  const opened = await source.open(request, signal);
  await readAll(opened, signal);
  await opened.close();
  const earlier = {
    snapshot: opened.snapshot,
    ...(opened.keySet() ?? { digest: null, count: -1 }),
  };
  await database.pool.query(
    `alter table spread attach partition spread_old for values from ('2024-01-01') to ('2025-01-01')`,
  );
  expect(await source.hasLateRows(request, earlier, null, signal)).toBe(true);
});

it('keys that the query does not select are read all the same, and no encoder sees them', async () => {
  await database.pool.query(`
    create table pairs (id int, part numeric, note text, team int, at timestamptz);
    insert into pairs select n, n / 3.0, 'note ' || n, 1, '2024-03-01T00:30:00Z' from generate_series(1, 700) n`);
  const column = (name: string, sourceType: string) => ({
    name,
    expression: null,
    sourceType,
    json: false,
  });
  const model: Model = {
    ...modelOf('pairs'),
    keyColumns: ['part', 'id'],
    columns: [column('id', 'integer'), column('note', 'text')],
  };
  const source = createPostgresSource({
    connectionString: database.url,
    plan: planModels([model]),
    blockBytes: 4_096,
  });
  const whole = {
    ...eventsRequest(1, '2024-03-01T00:00:00Z', '2024-03-01T01:00:00Z'),
    model: 'pairs',
  };
  const see = async (dslQuery: string | null) => {
    const request = { ...whole, dslQuery };
    const opened = await source.open(request, signal);
    const blocks = await readAll(opened, signal);
    await opened.close();
    const set = opened.keySet() ?? { digest: null, count: -1 };
    const earlier = { snapshot: opened.snapshot, ...set };
    expect(await source.hasLateRows(request, earlier, null, signal)).toBe(false);
    return { columns: opened.columns.map(({ name }) => name), blocks, set };
  };
  const all = await see(null);
  const some = await see('SELECT note FROM pairs');
  const filtered = await see(`SELECT note, id AS number FROM pairs WHERE note <> 'no note'`);
  expect(some.columns).toEqual(['note']);
  expect(filtered.columns).toEqual(['note', 'number']);
  expect(some.set).toEqual(all.set);
  expect(filtered.set).toEqual(all.set);
  expect(columnBytes(some.blocks, 'note')).toEqual(columnBytes(all.blocks, 'note'));
  expect(some.blocks.length).toBeGreaterThan(2);
});
