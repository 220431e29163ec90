import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readConfig } from '../../../src/foundation/config/config.ts';
import type { SourcedModel } from '../../../src/foundation/config/models-file.ts';
import type { Model } from '../../../src/foundation/domain/model.ts';
import { checkQueryOf, describeQueryOf } from '../../../src/main/api-process.ts';
import { previewsOf } from '../../../src/main/preview-rows.ts';
import { ConnectionLimit } from '../../../src/rows/sources/index.ts';
import { buildApi } from '../../../src/service/api/build-api.ts';
import type { DescribeQuery } from '../../../src/service/api/options.ts';
import { type ApiClient, createApiClient } from '../../support/api-client.ts';
import { useApi } from '../../support/api-under-test.ts';
import { exportBody, s3 } from '../../support/batch-export-bodies.ts';
import { testApiOptions } from '../../support/test-api-options.ts';
import { atNight } from '../../support/nightly.ts';
import { plainColumns, plainModel } from '../../support/plain-model.ts';

const orders = plainModel(
  'orders',
  { id: 'integer', kind: 'public.mood', word: 'text', note: 'json', total: 'numeric' },
  { tenantColumn: 'team_id', eventColumn: 'kind' },
);
const models: readonly Model[] = [
  orders,
  { ...orders, name: 'without_events', eventColumn: null },
  { ...orders, name: 'changed', columns: plainColumns({ id: 'integer', kind: 'text' }) },
  { ...orders, name: 'unordered', keyColumns: ['note'] },
  { ...orders, name: 'wrong_tenant', tenantColumn: 'owner' },
  { ...orders, name: 'dated', intervalColumn: 'day' },
  { ...orders, name: 'local', intervalColumn: 'seen' },
  { ...orders, name: 'missing', relation: { schema: 'public', name: 'nowhere' } },
];
let client: ApiClient;
let stop: (() => Promise<void>) | undefined;
/** The requests that reached the source. */
const described: string[] = [];

const api = useApi();
beforeAll(async () => {
  await api.sql`create type mood as enum ('calm', 'cross')`;
  await api.sql`create table orders (id int primary key, team_id int not null, owner uuid, kind mood, word text,
       total numeric, "Word" text, note json, at timestamptz not null,
       day date, seen timestamp)`;
  ({ client, stop } = await serve(null));
});
afterAll(() => stop?.());

/** An API over the test's database, from which its models are read too unless they have another one. */
async function serve(sourceUrl: string | null) {
  const sourced = models.map((model): SourcedModel => ({ model, sourceUrl, primaryUrl: null }));
  const options = testApiOptions(api.db, api.databaseUrl);
  const previews = previewsOf({
    config: readConfig({}),
    models: sourced,
    context: options.context,
    databases: { sourceUrl: api.databaseUrl },
    sourceConnections: new ConnectionLimit(8),
  });
  const counted: typeof previews.sourceOf = (model) => {
    described.push(model);
    return previews.sourceOf(model);
  };
  const describeQuery: DescribeQuery = describeQueryOf(counted, async (id) => String(id), 3_000);
  const checkQuery = checkQueryOf(models);
  const served = await buildApi({ ...options, models, checkQuery, describeQuery });
  const baseUrl = await served.listen({ port: 0, host: '127.0.0.1' });
  return { client: createApiClient(baseUrl, api.tenant.key), stop: () => served.close() };
}

const create = (changes: object, by = client) =>
  by.post(api.exports, exportBody({ model: 'orders', ...changes }));

const refusals = [
  ['an operator that the types do not have', 'id + word', /operator does not exist/],
  [
    'a function that the type does not have',
    'upper(id)',
    /function .*upper\(integer\) does not exist/,
  ],
  ['a constant that cannot be', 'id, chr(0)', /null character/],
] as const;

describe('a new export', () => {
  test.each(refusals)('with %s is refused', async (_, expression, detail) => {
    const { status, body } = await create({ dsl_query: `SELECT ${expression} AS n FROM orders` });
    expect([status, body.attr]).toEqual([400, 'dsl_query']);
    expect(body.detail).toMatch(/^query\.invalid: /);
    expect(body.detail).toMatch(detail);
  });

  test('is refused by the source and by the rules in one answer, also if its schema refuses it', async () => {
    const dsl_query = 'SELECT id + word AS n FROM orders';
    const destination = s3({ bucket_name: 'UPPER' });
    const found = async (changes: object) =>
      (await create({ dsl_query, destination, ...changes })).body.errors
        .map(({ attr }) => attr)
        .sort();
    const both = ['destination__config__bucket_name', 'dsl_query'];
    expect(await found({})).toEqual(both);
    expect(await found({ name: 7 })).toEqual([...both, 'name']);
    const { id } = (await create({})).body;
    const change = { dsl_query, destination: { config: { bucket_name: 'UPPER' } } };
    const changed = async (name: unknown) =>
      (await client.patch(`${api.exports}/${id}`, { ...change, name })).body.errors
        .map(({ attr }) => attr)
        .sort();
    expect(await changed('Orders')).toEqual(both);
    expect(await changed(7)).toEqual([...both, 'name']);
  });

  test.each([
    ['unordered', 'source.model_invalid', /ordering operator for type json/],
    [
      'wrong_tenant',
      'source.model_invalid',
      /owner is uuid, so the tenant_key of a project must be a UUID/,
    ],
    ['missing', 'source.relation_missing', /nowhere.* does not exist/],
  ] as const)('of the model %s is refused: %s', async (model, code, detail) => {
    for (const dsl_query of [null, 'SELECT id FROM orders']) {
      const query = dsl_query?.replace('orders', model) ?? null;
      const { status, body } = await create({ model, dsl_query: query });
      expect([status, body.attr]).toEqual([400, 'model']);
      expect(body.detail).toContain(`${code}: `);
      expect(body.detail).toMatch(detail);
    }
  });

  atNight('of a date is refused if its intervals end within a day, and else warned', async () => {
    const dated = (changes: object) => create({ model: 'dated', ...changes });
    for (const times of [
      { interval: 'hour' },
      { interval: 'day', timezone: 'Asia/Kolkata' },
      { interval: 'day', timezone: 'Europe/London' },
      { interval: 'week', offset_hour: 5 },
    ]) {
      const { status, body } = await dated(times);
      expect([times, status, body.attr]).toEqual([times, 400, 'model']);
      expect(body.detail).toMatch(/source\.model_invalid: .*the interval column is a date, .* UTC/);
    }
    const { status, body, headers } = await dated({ interval: 'day' });
    expect(status).toBe(201);
    expect(headers.get('sluice-warning')).toMatch(/day is date, .* midnight in UTC/);
    const hourly = await client.patch(`${api.exports}/${body.id}`, { interval: 'hour' });
    expect([hourly.status, hourly.body.attr]).toEqual([400, 'model']);
    const local = await create({ model: 'local' });
    expect(local.status).toBe(201);
    expect(local.headers.get('sluice-warning')).toMatch(/seen is timestamp without time zone/);
  });

  test('with filters on a model without events gets the refusal of each filter', async () => {
    const filters = { include_events: ['a'], exclude_events: ['b'] };
    const { body } = await create({ model: 'without_events', destination: s3(filters) });
    expect(body.errors.map(({ attr }) => attr)).toEqual([
      'destination__config__include_events',
      'destination__config__exclude_events',
    ]);
  });

  test('with the name of an event that the column cannot hold names the filter', async () => {
    const { status, body } = await create({
      dsl_query: 'SELECT id FROM orders',
      destination: s3({ exclude_events: ['furious'] }),
    });
    expect([status, body.attr]).toEqual([400, 'destination__config__exclude_events']);
    expect(body.detail).toMatch(/query\.invalid_events.*furious.*include_events or exclude_events/);
    const known = await create({ destination: s3({ include_events: ['calm'] }) });
    expect(known.status).toBe(201);
  });

  atNight('names a changed type if its query reads the column', async () => {
    const model = 'changed';
    const attrOf = async (changes: object) => {
      const { body } = await create({ model, ...changes });
      return [body.attr, /^\S+(?=: )/.exec(body.detail ?? '')?.[0]];
    };
    const changed = ['model', 'source.schema_changed'];
    expect(await attrOf({})).toEqual(changed);
    expect(await attrOf({ dsl_query: 'SELECT upper(kind) AS k FROM changed' })).toEqual(changed);
    const dsl_query = 'SELECT id FROM changed';
    const destination = s3({ exclude_events: ['furious'] });
    const event = ['destination__config__exclude_events', 'query.invalid_events'];
    expect(await attrOf({ dsl_query, destination })).toEqual(event);
    const invalid = ['dsl_query', 'query.invalid'];
    expect(await attrOf({ dsl_query: 'SELECT upper(id) AS n FROM changed' })).toEqual(invalid);
    expect((await create({ model, dsl_query })).status).toBe(201);
  });

  test('that makes a DECIMAL of a column without numerics is refused with those that it has', async () => {
    const attr = 'destination__config__decimal_columns';
    const made = (name: string, changes: object = {}) => {
      const config = { file_format: 'Parquet', decimal_columns: [`${name} decimal(18,4)`] };
      return create({ destination: s3(config), ...changes });
    };
    const dsl_query = 'SELECT id, total AS sum FROM orders';
    for (const transformations of [false, true]) {
      const changes = { dsl_query, transformations };
      const gone = await made('total', changes);
      expect([gone.status, gone.body.attr]).toEqual([400, attr]);
      expect(gone.body.detail).toBe(
        'decimal_columns: the rows have no column total. Columns of type numeric: sum.',
      );
      const whole = await made('id', changes);
      expect(whole.body.detail).toBe(
        'decimal_columns: id is integer, not numeric. Columns of type numeric: sum.',
      );
      expect((await made('sum', changes)).status).toBe(201);
    }
    const { body } = await made('total');
    const path = `${api.exports}/${body.id}`;
    const config = { decimal_columns: ['word decimal(9,2)'] };
    const other = await client.patch(path, { destination: { config } });
    expect([other.status, other.body.attr]).toEqual([400, attr]);
    const renamed = await client.patch(path, { dsl_query });
    expect([renamed.status, renamed.body.attr]).toEqual([400, attr]);
  });

  test('that divides its files by a column that the rows do not have is refused, whatever sends it', async () => {
    const attr = 'destination__config__partition_by';
    const by = (entry: string) => create({ destination: s3({ partition_by: [entry] }) });
    const { body } = await by('total');
    const path = `${api.exports}/${body.id}`;
    const created = await by('none');
    expect(created.body.detail).toContain('the rows have no column none');
    const destination = { config: { partition_by: ['none'] } };
    for (const { status, body: answer } of [
      created,
      await client.post(`${api.exports}/preview`, { id: body.id, destination }),
      await client.post(`${path}/test`, { destination }),
      await client.patch(path, { destination: { config: { partition_by: ['id', 'none'] } } }),
    ]) {
      expect([status, answer.attr, answer.detail]).toEqual([400, attr, created.body.detail]);
    }
    const renamed = await client.patch(path, { dsl_query: 'SELECT id, kind FROM orders' });
    expect([renamed.status, renamed.body.attr]).toEqual([400, attr]);
  });

  test('is described once for equal requests', async () => {
    const dsl_query = 'SELECT id, word AS once FROM orders';
    described.length = 0;
    for (let time = 0; time < 3; time += 1) expect((await create({ dsl_query })).status).toBe(201);
    expect(described).toEqual(['orders']);
  });

  test('with columns that differ only in case has a warning in the answer and in its log', async () => {
    const { status, body, headers } = await create({
      dsl_query: 'SELECT id, word, kind AS "Word" FROM orders',
    });
    expect(status).toBe(201);
    expect(headers.get('sluice-warning')).toMatch(/"word" and "Word".*Rename one/);
    const logs = await client.get(`${api.exports}/${body.id}/logs?level=WARNING`);
    expect(logs.body.results[0]?.message).toContain('differ only in upper and lower case');
  });
});

test('a change that cannot run is refused; one of the name is not checked', async () => {
  const { body } = await create({ dsl_query: 'SELECT id FROM orders' });
  const path = `${api.exports}/${body.id}`;
  described.length = 0;
  expect([(await client.patch(path, { name: 'other' })).status, described]).toEqual([200, []]);
  const refused = await client.patch(path, { dsl_query: 'SELECT upper(id) AS n FROM orders' });
  expect([refused.status, refused.body.attr]).toEqual([400, 'dsl_query']);
  const destination = { config: { include_events: ['furious'] } };
  const filtered = await client.patch(path, { destination });
  expect(filtered.body.attr).toBe('destination__config__include_events');
});

test('an export is accepted with a warning while its source is unreachable, which is asked once', async () => {
  const beside = await serve('postgres://nobody@127.0.0.1:1/none');
  described.length = 0;
  for (const word of ['a', 'b']) {
    const dsl_query = `SELECT id, '${word}' AS word FROM orders`;
    const { status, headers } = await create({ dsl_query }, beside.client);
    expect(status).toBe(201);
    expect(headers.get('sluice-warning')).toMatch(/accepted without a check.*source\.unavailable/);
  }
  expect(described).toEqual(['orders']);
  await beside.stop();
});
