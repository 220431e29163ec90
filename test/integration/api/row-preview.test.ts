import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { readConfig } from '../../../src/foundation/config/config.ts';
import { loadModels } from '../../../src/main/models.ts';
import { previewsOf } from '../../../src/main/preview-rows.ts';
import { ConnectionLimit, ensureEventsTable } from '../../../src/rows/sources/index.ts';
import { buildApi } from '../../../src/service/api/build-api.ts';
import { startApiBeside, useApi } from '../../support/api-under-test.ts';
import { exportBody, s3 } from '../../support/batch-export-bodies.ts';
import { createEmptyDatabase, testServer } from '../../support/database.ts';
import { testApiOptions } from '../../support/test-api-options.ts';
import { inTest } from '../../support/use-stage.ts';
import { testSecrets } from '../../support/test-secrets.ts';
import { allowBriefReceipts } from '../../support/brief-receipts.ts';
import { checkQueryOf } from '../../../src/main/api-process.ts';
import { atNight } from '../../support/nightly.ts';
import { shopModels } from '../../support/stranger-shop.ts';

const api = useApi();
beforeAll(() => ensureEventsTable(api.databaseUrl));

/** `count` events of a project, a second apart, the last one so long ago. */
async function insertEvents(teamId: number, event: string, count: number, agoMinutes = 1) {
  await api.sql`insert into events (uuid, team_id, event, distinct_id, properties, inserted_at)
     select gen_random_uuid(), ${teamId}, ${event}, 'user ' || n, '{"n": 9007199254740993, "half": 0.5}',
            date_trunc('second', now()) - ${agoMinutes} * interval '1 minute' - (${count} - n) * interval '1 second'
       from generate_series(1, ${count}::int) n`;
}

async function preview(changes: Readonly<Record<string, unknown>> = {}) {
  const body = await api.create(changes);
  const answer = await api.get(`${api.exports}/${body.id}/preview`);
  const columns = answer.body.columns as readonly { name: string; type: string }[];
  const rows = answer.body.rows as readonly (readonly unknown[])[];
  const valuesOf = (name: string) =>
    rows.map((row) => row[columns.findIndex((column) => column.name === name)]);
  return { ...answer, columns, rows, valuesOf };
}

/** An API beside whose previews read from this source. @returns its answer to the preview of a new export */
async function previewBeside(sourceUrl: string, timeoutMs?: number) {
  const { db, databaseUrl, client, tenant } = api;
  const options = {
    config: readConfig({}),
    models: loadModels(readConfig({})),
    context: { db, secrets: testSecrets() },
    databases: { sourceUrl },
    sourceConnections: new ConnectionLimit(8),
  };
  const { previewRows } = previewsOf(options, timeoutMs);
  const beside = await inTest(buildApi(testApiOptions(db, databaseUrl, { previewRows })));
  const made = await client.post(api.exports, exportBody());
  return () =>
    beside.inject({
      url: `${api.exports}/${made.body.id}/preview`,
      headers: { authorization: `Bearer ${tenant.key}` },
    });
}

describe('the row preview', () => {
  test('of a project without rows has the columns and no row', async () => {
    const { status, columns, rows } = await preview();
    expect(status).toBe(200);
    expect(columns.map(({ name }) => name).join(' ')).toBe(
      'uuid event properties distinct_id person_id person_properties elements_chain timestamp created_at inserted_at',
    );
    expect(columns[0]).toEqual({ name: 'uuid', type: 'uuid' });
    expect(columns[2]).toEqual({ name: 'properties', type: 'jsonb' });
    expect(columns[9]).toEqual({ name: 'inserted_at', type: 'timestamp with time zone' });
    expect(rows).toEqual([]);
  });

  test('gives at most 100 rows, in order of arrival, and never one of another project', async () => {
    const [own, sibling] = api.tenant.projectIds;
    await insertEvents(own, 'ours', 130);
    await insertEvents(sibling, 'canary of a sibling', 200);
    const { rows, valuesOf, text } = await preview();
    expect(rows).toHaveLength(100);
    expect(new Set(valuesOf('event'))).toEqual(new Set(['ours']));
    expect(text).not.toContain('canary');
    const arrivals = valuesOf('inserted_at').map(String);
    expect(arrivals).toEqual(arrivals.toSorted());
    expect(arrivals[0]).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/);
    // As the file says it: a client's JSON.parse would round the number.
    expect(valuesOf('properties')[0]).toEqual({ n: '9007199254740993', half: 0.5 });
    expect(valuesOf('person_id')[0]).toBeNull();
  });

  atNight('shows the newest rows of a busy hour, not the first ones of it', async () => {
    const [teamId] = api.tenant.projectIds;
    await insertEvents(teamId, 'busy', 3_000, 0);
    const { valuesOf } = await preview({ destination: s3({ include_events: ['busy'] }) });
    const newest = Array.from({ length: 100 }, (_, n) => `user ${2_901 + n}`);
    expect(valuesOf('distinct_id')).toEqual(newest);
    // A step that drops most rows: older ones take their place.
    const path = `${api.project}/pipeline_transformation_configs`;
    const plugins = `/api/organizations/${api.tenant.organizationId}/plugins`;
    const source = `export function processEvent(event) { return Number(event.distinct_id.slice(5)) % 20 === 0 ? event : null; }`;
    const { body: plugin } = await api.post(plugins, { name: 'Each twentieth', source });
    const step = { plugin: plugin.id, order: 1, enabled: true };
    const { body: made } = await api.post(path, step);
    const destination = s3({ include_events: ['busy'] });
    const kept = await preview({ transformations: true, destination });
    const twentieth = Array.from({ length: 100 }, (_, n) => `user ${1_020 + 20 * n}`);
    expect(kept.valuesOf('distinct_id'), kept.text).toEqual(twentieth);
    await api.delete(`${path}/${made.id}`);
    await api.sql`delete from events where event = 'busy'`;
  });

  test('holds to the dsl_query and its columns', async () => {
    const { columns, rows } = await preview({
      dsl_query:
        "select upper(event) as loud, properties.half as half from events where distinct_id = 'user 7'",
    });
    expect(columns.map(({ name }) => name)).toEqual(['loud', 'half']);
    expect(rows).toEqual([['OURS', expect.anything()]]);
    expect(Number(rows[0]?.[1])).toBe(0.5);
  });

  atNight('has infinite times as the export writes them', async () => {
    await insertEvents(api.teamId, 'endless', 1);
    await api.sql`update events set timestamp = 'infinity' where event = 'endless'`;
    const shown = async (infinity: string) => {
      const chosen = { include_events: ['endless'], infinity };
      return (await preview({ destination: s3(chosen) })).valuesOf('timestamp');
    };
    expect(await shown('reject')).toEqual(['infinity']);
    expect(await shown('null')).toEqual([null]);
    expect(await shown('limit')).toEqual(['9999-12-31T23:59:59.999999Z']);
  });

  test('of JSON that is too deep is refused with the row and the remedy, alone and with a chain', async () => {
    const [teamId] = api.tenant.projectIds;
    await insertEvents(teamId, 'deep', 1);
    const deepen = (levels: number) =>
      api.sql`
        update events set properties = (repeat('{"a":', ${levels}) || '1' || repeat('}', ${levels}))::jsonb
          where event = 'deep'`;
    const shown = (transformations: boolean) =>
      preview({ transformations, destination: s3({ include_events: ['deep'] }) });
    await deepen(5_000);
    for (const transformations of [false, true]) {
      const { status, body } = await shown(transformations);
      expect(status).toBe(400);
      expect(body.detail).toMatch(
        /^source\.json_too_deep: .*column properties of the row with the key \{"uuid".*In dsl_query/,
      );
    }
    const lab = await api.post(`${api.exports}/preview`, {
      configs: [{ plugin: 1, config: { properties: 'x' } }],
      limit: 50,
      trace: true,
    });
    expect([lab.status, lab.body.detail]).toEqual([400, expect.stringMatching(/json_too_deep/)]);
    await deepen(999);
    expect((await shown(false)).status).toBe(200);
    await api.sql`delete from events where event = 'deep'`;
  });

  test('reaches back as far as the rows lie', async () => {
    const year = 365 * 24 * 60;
    await insertEvents(api.teamId, 'old', 2, 3 * year);
    const { valuesOf } = await preview({ destination: s3({ include_events: ['old'] }) });
    expect(valuesOf('event')).toEqual(['old', 'old']);
  });

  atNight('is stopped if the source takes too long', async () => {
    const preview = await previewBeside(api.databaseUrl, 300);
    await api.db.transaction(async (tx) => {
      await tx.query('lock table events in access exclusive mode');
      const { statusCode, body } = await preview();
      expect(statusCode).toBe(503);
      expect(body).toContain('source.timeout');
    });
  });

  atNight('of a source whose encoding is unknown is refused with the reason', async () => {
    const { url } = await inTest(
      createEmptyDatabase(testServer(), "encoding 'SQL_ASCII' locale 'C'"),
    );
    await ensureEventsTable(url);
    const answer = await (await previewBeside(url))();
    expect(answer.statusCode, answer.body).toBe(400);
    expect(answer.json().detail).toMatch(/^source\.unsupported: .*SQL_ASCII/);
  });

  test('says what is wrong with the source as a run would', async () => {
    await api.sql`alter table events rename column elements_chain to renamed`;
    onTestFinished(async () => {
      await api.sql`alter table events rename column renamed to elements_chain`;
    });
    expect(await preview()).toMatchObject({
      status: 400,
      body: {
        ...{ type: 'validation_error', code: 'invalid_input' },
        detail: expect.stringContaining('source.relation_missing'),
      },
    });
  });
});

describe('exports that are not saved', () => {
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
      const path = `${api.exports}/test`;
      const passed = await api.post(path, { destination: { type: 'NoOp', config: {} } });
      expect([passed.status, passed.body.passed]).toEqual([200, true]);
      const destination = s3({ endpoint_url: 'http://127.0.0.1:1/' });
      const failed = await api.post(path, exportBody({ destination }));
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
      expect(created.status).toBe(201);
      expect(created.headers.get('sluice-warning')).toMatch(says);
      const path = `${api.exports}/${created.body.id}`;
      expect((await api.patch(path, { destination })).headers.get('sluice-warning')).toMatch(says);
    });

    test('is previewed by its query and filters, without a destination', async () => {
      const destination = { config: { exclude_events: ['event 2'] } };
      const { status, body } = await api.post(`${api.exports}/preview`, { dsl_query, destination });
      expect([status, body.rows]).toEqual([200, [['event 3'], ['event 1']]]);
      const wrong = await api.post(`${api.exports}/preview`, {
        dsl_query: 'select nothing from events',
        destination: { config: { include_events: [''] } },
      });
      expect(wrong.status).toBe(400);
      expect(wrong.body.attr).toBe('destination__config__include_events__0');
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
          ...shopModels.map(({ name }) => {
            return { name, event_filters: name === 'orders', modes: expect.any(Array) };
          }),
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

    atNight('have the only model as the default, and none among several', async () => {
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
});
