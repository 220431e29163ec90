import { describe, expect, test } from 'vitest';
import { startApiUnderTest } from '../../support/api-under-test.ts';
import { createKey } from '../../support/tenants.ts';
import { useStage } from '../../support/use-stage.ts';

const api = useStage(startApiUnderTest);

interface Operation {
  readonly operationId: string;
  readonly requestBody?: {
    readonly content: Record<string, { readonly schema: { additionalProperties?: unknown } }>;
  };
}

test('every body is described as closed', async () => {
  const { body } = await api.client.get('/api/openapi.json');
  const paths = Object.values(body.paths as Record<string, Record<string, Operation>>);
  const operations = paths.flatMap((methods) => Object.values(methods));
  const open = operations.flatMap(({ operationId, requestBody }) => {
    const schema = requestBody?.content['application/json']?.schema;
    return schema && schema.additionalProperties !== false ? [operationId] : [];
  });
  expect(open).toEqual([]);
});

/** Every body that is taken, with a field too many on each level. */
describe('an unknown field of a given operation', () => {
  const destination = { type: 'NoOp', config: {} };
  const whole = { name: 'n', interval: 'hour', destination };
  const surprise = 'This field is unknown. Remove it.';
  test.each([
    ['', { ...whole, surprise: 1 }, 'surprise'],
    ['', { ...whole, destination: { ...destination, surprise: 1 } }, 'destination__surprise'],
    ['', { ...whole, filters: [{ key: 'a', value: 'b', surprise: 1 }] }, 'filters__0__surprise'],
    ['/ID/backfill', { start_at: '2024-01-01T00:00:00Z', surprise: 1 }, 'surprise'],
    ['/ID/unpause', { surprise: 1 }, 'surprise'],
    ['/preview', { destination: { config: { surprise: [] } } }, 'destination__config__surprise'],
  ])('%s %j is 400', async (path, sent, attr) => {
    const exports = `${api.project}/batch_exports`;
    const { body: made } = await api.client.post(exports, whole);
    const answer = await api.client.post(`${exports}${path.replace('ID', made.id)}`, sent);
    expect([answer.status, answer.body.attr, answer.body.detail]).toEqual([400, attr, surprise]);
  });

  test('of a change, of a pause and of a step is 400', async () => {
    const exports = `${api.project}/batch_exports`;
    const { body: made } = await api.client.post(exports, whole);
    const changed = await api.client.patch(`${exports}/${made.id}`, { intervall: 'day' });
    expect([changed.status, changed.body.attr]).toEqual([400, 'intervall']);
    expect(changed.body.detail).toContain('Did you mean interval?');
    const paused = await api.client.post(`${exports}/${made.id}/pause`, { surprise: 1 });
    expect([paused.status, paused.body.attr]).toEqual([400, 'surprise']);
    const steps = `${api.project}/pipeline_transformation_configs`;
    const step = await api.client.post(steps, { plugin: 2, order: 1, filters: [] });
    expect([step.status, step.body.attr]).toEqual([400, 'filters']);
    const job = { type: 'sample', surprise: 1 };
    const { body: added } = await api.client.post(steps, {
      plugin: 2,
      order: 1,
      config: { events: 'a' },
    });
    const started = await api.client.post(`${steps}/${added.id}/job`, { job });
    expect([started.status, started.body.attr]).toEqual([400, 'job__surprise']);
  });
});

test('what an operation answered can be sent back, and changes nothing', async () => {
  const exports = `${api.project}/batch_exports`;
  const made = await api.client.post(exports, {
    ...{ name: 'n', interval: 'day', destination: { type: 'NoOp', config: {} }, offset_hour: 3 },
    filters: [{ key: 'plan', value: 'pro' }],
  });
  expect(made.status, made.text).toBe(201);
  const sent = { ...made.body, id: 'another', team_id: 77, created_at: 'never' };
  const path = `${exports}/${made.body.id}`;
  const changed = await api.client.patch(path, sent);
  expect(changed.status, changed.text).toBe(200);
  expect({ ...changed.body, last_updated_at: '' }).toEqual({ ...made.body, last_updated_at: '' });
  for (const operation of ['pause', 'unpause']) {
    const answer = await api.client.post(`${path}/${operation}`, { ...made.body, backfill: false });
    expect(answer.status, `${operation}: ${answer.text}`).toBe(operation === 'pause' ? 400 : 200);
  }
  expect((await api.client.post(`${path}/pause`, made.body)).status).toBe(200);
  const steps = `${api.project}/pipeline_transformation_configs`;
  const step = await api.client.post(steps, { plugin: 2, order: 1, config: { events: 'a' } });
  const again = await api.client.patch(`${steps}/${step.body.id}`, step.body);
  expect(again.status, again.text).toBe(200);
});

test.each([
  [{ dsl_query: 'select event from events' }, 'dsl_query'],
  [{ hogql_query: 'select event from events' }, 'dsl_query'],
  [{ filters: [{ key: 'a', value: 'b' }] }, 'filters'],
  [{ destination: { type: 'S3', config: {} } }, 'destination'],
  [{ model: 'persons' }, 'model'],
])('a backfill or an unpause that asks for other rows is refused: %j', async (other, attr) => {
  const exports = `${api.project}/batch_exports`;
  const { body: made } = await api.client.post(exports, {
    ...{ name: 'n', interval: 'hour', destination: { type: 'NoOp', config: {} } },
  });
  const range = { start_at: '2024-01-01T00:00:00Z', end_at: '2024-01-01T02:00:00Z' };
  for (const [operation, body] of [
    ['backfill', { ...range, ...other }],
    ['unpause', other],
  ] as const) {
    const answer = await api.client.post(`${exports}/${made.id}/${operation}`, body);
    expect([answer.status, answer.body.attr]).toEqual([400, attr]);
  }
});

test('an unknown query parameter is named in Sluice-Warning, with the one that may be meant', async () => {
  const { status, headers } = await api.client.get(
    `${api.project}/batch_exports?helth=late&x%0a=1`,
  );
  expect(status).toBe(200);
  const warning = headers.get('sluice-warning');
  expect(warning).toContain(
    'The query parameter helth is unknown and was ignored. Did you mean health?',
  );
  expect(warning).toContain('The query parameter x? is unknown and was ignored.');
  const known = await api.client.get(`${api.project}/batch_exports?limit=1`);
  expect(known.headers.get('sluice-warning')).toBe(null);
});

describe('a misspelled field', () => {
  test.each([
    [
      'notification_targets',
      { url: 'https://example.com/', event: ['export.late'] },
      'event',
      'events',
    ],
    ['notification_targets', { url: 'https://example.com/', surprise: 1 }, 'surprise', null],
    ['batch_exports/preview', { dsl_querry: 'select 1' }, 'dsl_querry', 'dsl_query'],
    ['batch_exports/test', { destination: { type: 'NoOp' }, modell: 'events' }, 'modell', 'model'],
    [
      'batch_exports/preview',
      { configs: [{ plugin: 1 }, { plugin: 2, confg: {} }], rows: [{ any: 'column' }] },
      'configs__1__confg',
      'config',
    ],
  ])('of %s is refused, with the field that may be meant', async (path, sent, attr, nearest) => {
    const { status, body } = await api.client.post(`${api.project}/${path}`, sent);
    expect([status, body.code, body.attr]).toEqual([400, 'invalid_input', attr]);
    const remedy =
      nearest === null ? 'Remove it.' : `Did you mean ${nearest}? Otherwise remove it.`;
    expect(body.detail).toBe(`This field is unknown. ${remedy}`);
  });

  test('of a free object is not looked at: rows have any columns', async () => {
    const rows = [{ event: 'paid', anything: { nested: true } }];
    const configs = [{ plugin: 2, config: { events: 'spam' } }];
    const lab = `${api.project}/batch_exports/preview`;
    const { status, text } = await api.client.post(lab, { configs, rows });
    expect(status, text).toBe(200);
  });
});

test('an operation without fields refuses a body that has some', async () => {
  const targets = `${api.project}/notification_targets`;
  const { body: made } = await api.client.post(targets, { url: 'https://example.com/' });
  const address = `${targets}/${made.id}/rotate_secret`;
  const { status, body } = await api.client.post(address, { overlap: 60 });
  expect([status, body.code, body.attr]).toEqual([400, 'invalid_input', 'overlap']);
  expect(body.detail).toBe('This operation takes no fields. Send no body.');
  expect((await api.client.post(address, {})).status).toBe(200);
});

test('an operation of operators refuses a query parameter that it does not know', async () => {
  const { key } = await createKey(api.db, { organizationId: null });
  const admin = api.client.withKey(key);
  const { status, body } = await admin.get('/admin/offboardings?status=completed');
  expect([status, body.attr]).toEqual([400, 'status']);
  expect((await admin.get('/admin/offboardings')).status).toBe(200);
});

/** The parser would keep the last of two fields, and round a number: then more or other rows are sent than were asked for. */
describe('a body that the parser of JSON would change', () => {
  const text = (fields: string) =>
    `{"name":"n","interval":"hour","destination":{"type":"NoOp","config":{}},${fields}}`;
  test.each([
    ['"filters":[{"key":"a","value":"b"}],"filters":[]', 'filters'],
    ['"filters":[{"key":"id","value":9007199254740993}]', 'filters__0__value'],
    ['"filters":[{"key":"id","value":1e400}]', 'filters__0__value'],
  ])('with %s is 400 for an export', async (fields, attr) => {
    const answer = await api.client.send('POST', `${api.project}/batch_exports`, {
      raw: text(fields),
    });
    expect([answer.status, answer.body.code, answer.body.attr]).toEqual([
      400,
      'invalid_input',
      attr,
    ]);
  });

  test.each([
    ['{"a":1,"a":2}', 'config__a'],
    ['{"a":9007199254740993}', 'config__a'],
    ['{"a":"\\u0000"}', 'config__a'],
  ])('as the text %s of a config is 400', async (config, attr) => {
    const steps = `${api.project}/pipeline_transformation_configs`;
    const answer = await api.client.post(steps, { plugin: 2, order: 1, config });
    expect([answer.status, answer.body.attr]).toEqual([400, attr]);
  });
});
