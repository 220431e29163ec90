import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { ensureEventsTable } from '../../../src/rows/sources/index.ts';
import { startApiBeside, useApi } from '../../support/api-under-test.ts';
import { exportBody, s3 } from '../../support/batch-export-bodies.ts';
import { allowBriefReceipts } from '../../support/brief-receipts.ts';
import { checkQueryOf } from '../../../src/main/api-process.ts';
import { shopModels } from '../../support/stranger-shop.ts';

const api = useApi();
beforeAll(async () => {
  await allowBriefReceipts(api.db);
  await ensureEventsTable(api.databaseUrl);
  await api.sql`insert into events (uuid, team_id, event, distinct_id, inserted_at)
     select gen_random_uuid(), ${api.teamId}, 'event ' || n, 'user', now() - n * interval '1 minute'
       from generate_series(1, 3) n`;
});

const dsl_query = 'select event from events';

describe('an export that is not saved', () => {
  test('is tested by the body of create; only what matters is needed', async () => {
    const passed = await api.post(`${api.exports}/test`, {
      destination: { type: 'NoOp', config: {} },
    });
    expect([passed.status, passed.body.passed]).toEqual([200, true]);
    const failed = await api.post(
      `${api.exports}/test`,
      exportBody({ destination: s3({ endpoint_url: 'http://127.0.0.1:1/' }) }),
    );
    expect(failed.body).toMatchObject({ passed: false, steps: [{ step: 'address' }] });
    expect((await api.get(api.exports)).body.count).toBe(0);
  });

  test('with a prefix of another program has a warning, in its test and once it is stored', async () => {
    const destination = { type: 'NoOp', config: { prefix: 'a/%Y/%m' } };
    const says = /%Y is not filled in.*\{year\}, \{month\}/;
    const tested = await api.post(`${api.exports}/test`, exportBody({ destination }));
    expect(tested.body.steps).toContainEqual(
      expect.objectContaining({ passed: true, warning: expect.stringMatching(says) }),
    );
    const created = await api.post(api.exports, exportBody({ destination }));
    expect([created.status, created.headers.get('sluice-warning')]).toEqual([
      201,
      expect.stringMatching(says),
    ]);
    const path = `${api.exports}/${created.body.id}`;
    const changed = await api.patch(path, { destination });
    expect(changed.headers.get('sluice-warning')).toMatch(says);
  });

  test('is previewed by its query and filters, without a destination', async () => {
    const destination = { config: { exclude_events: ['event 2'] } };
    const { status, body } = await api.post(`${api.exports}/preview`, {
      dsl_query,
      destination,
    });
    expect([status, body.rows]).toEqual([200, [['event 3'], ['event 1']]]);
    const wrong = await api.post(`${api.exports}/preview`, {
      dsl_query: 'select nothing from events',
      destination: { config: { include_events: [''] } },
    });
    expect([wrong.status, wrong.body.attr]).toEqual([
      400,
      'destination__config__include_events__0',
    ]);
  });
});

test('a change that is not saved is previewed with the fields that it leaves out', async () => {
  const saved = await api.create({ dsl_query, destination: s3({ include_events: ['event 1'] }) });
  const path = `${api.exports}/preview`;
  const { id } = saved;
  expect((await api.post(path, { id })).body.rows).toEqual([['event 1']]);
  const changed = await api.post(path, {
    id,
    dsl_query: 'select distinct_id, event from events',
    destination: { config: { include_events: ['event 3'] } },
  });
  expect(changed.body.rows).toEqual([['user', 'event 3']]);
  const model = await api.post(path, { id, model: 'events', dsl_query: 'select 1 from nowhere' });
  expect(model.body).toMatchObject({ attr: 'dsl_query' });
  expect((await api.get(`${api.exports}/${saved.id}/preview`)).body.rows).toEqual([['event 1']]);
});

describe('the capabilities', () => {
  test('are what this installation has', async () => {
    const { status, body } = await api.get('/api/capabilities');
    expect(status).toBe(200);
    expect(body).toMatchObject({
      destinations: ['S3', 'NoOp'],
      models: [
        { name: 'events', event_filters: true, modes: ['append', 'snapshot'] },
        ...shopModels.map(({ name }) => ({
          name,
          event_filters: name === 'orders',
          modes: expect.any(Array),
        })),
      ],
      default_model: 'events',
      own_credentials: false,
      private_endpoints: false,
    });
    expect(body.intervals).not.toContain('every 1 minutes');
    expect(body.intervals).toEqual(expect.arrayContaining(['every 5 minutes', 'week']));
    expect(body.file_formats).toEqual(
      expect.arrayContaining([
        { format: 'Parquet', compressions: expect.arrayContaining(['snappy']) },
      ]),
    );
  });

  test('have the only model as the default, and none among several without events', async () => {
    const besideWith = (...names: string[]) =>
      startApiBeside(api, ({ models: all }) => {
        const models = all.filter(({ name }) => names.includes(name));
        return { models, checkQuery: checkQueryOf(models) };
      });
    const only = await besideWith('user');
    const { default_model: preset } = (await only.client.get('/api/capabilities')).body;
    expect(preset).toBe('user');
    const made = await only.client.post(api.exports, exportBody());
    expect(made).toMatchObject({ status: 201, body: { model: 'user' } });

    const others = await besideWith('orders', 'line_items');
    const refused = await others.client.post(api.exports, exportBody({ interval: 'x' }));
    const attrs = refused.body.errors.map(({ attr }) => attr);
    expect(attrs.toSorted()).toEqual(['interval', 'model']);
    expect(refused.body.errors.find(({ attr }) => attr === 'model')).toMatchObject({
      code: 'required',
      detail: 'Name the model to export: orders, line_items.',
    });
    const near = await others.client.post(api.exports, exportBody({ model: 'ordres' }));
    expect(near.body).toMatchObject({
      ...{ code: 'invalid_choice', attr: 'model' },
      detail: 'Must be one of orders, line_items. Did you mean orders?',
    });
    // The model of an export may be gone.
    const path = `${api.exports}/${made.body.id}`;
    expect((await others.client.patch(path, { name: 'Renamed' })).status).toBe(200);
    for (const change of [
      { dsl_query: 'SELECT 1 AS one FROM "user"' },
      { filters: [{ key: 'a', value: 'b' }] },
    ]) {
      const { status, body } = await others.client.patch(path, change);
      expect({ status, attr: body.attr }).toEqual({ status: 400, attr: 'model' });
      expect(body.detail).toContain('no longer has the model user');
    }
    await only.stop();
    await others.stop();
  });

  test('follow its settings', async () => {
    const beside = await startApiBeside(api, ({ context, destinationContext }) => ({
      context: { ...context, policy: { ...context.policy, minIntervalMinutes: 60 } },
      destinationContext: {
        ...destinationContext,
        fileDestinationRoot: '/tmp/sluice',
        allowAmbientCredentials: true,
      },
      privateEndpoints: true,
    }));
    onTestFinished(() => beside.stop());
    expect((await beside.client.get('/api/capabilities')).body).toMatchObject({
      destinations: ['S3', 'File', 'NoOp'],
      intervals: ['hour', 'day', 'week'],
      own_credentials: true,
      private_endpoints: true,
    });
  });
});
