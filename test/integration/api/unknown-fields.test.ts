import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type ApiUnderTest, startApiUnderTest } from '../../support/api-under-test.ts';
import { createKey } from '../../support/tenants.ts';

let api: ApiUnderTest;

beforeAll(async () => {
  api = await startApiUnderTest();
});
afterAll(() => api?.stop());

interface Operation {
  readonly operationId: string;
  readonly requestBody?: {
    readonly content: Record<string, { readonly schema: { additionalProperties?: unknown } }>;
  };
}

/** The operations that the specification has given: they ignore unknown fields. */
const given = [
  'createBatchExport',
  'updateBatchExport',
  'backfillBatchExport',
  'unpauseBatchExport',
].flatMap((name) => [name, `${name}OfOrganization`]);
const givenOfSteps = [
  'createTransformationConfig',
  'updateTransformationConfig',
  'rearrangeTransformationConfigs',
  'startTransformationJob',
];

test('every body but those of the given operations is described as closed', async () => {
  const { body } = await api.client.get('/api/openapi.json');
  const paths = Object.values(body.paths as Record<string, Record<string, Operation>>);
  const operations = paths.flatMap((methods) => Object.values(methods));
  const open = operations.flatMap(({ operationId, requestBody }) => {
    const schema = requestBody?.content['application/json']?.schema;
    return schema && schema.additionalProperties !== false ? [operationId] : [];
  });
  expect(open.toSorted()).toEqual([...given, ...givenOfSteps].toSorted());
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
      'pipeline_transformation_configs/lab',
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

  test('of a change is refused, and nothing changes', async () => {
    const targets = `${api.project}/notification_targets`;
    const { body: made } = await api.client.post(targets, { url: 'https://example.com/' });
    const change = { enabled: false, event: ['export.late'] };
    const { status, body } = await api.client.patch(`${targets}/${made.id}`, change);
    expect([status, body.attr]).toEqual([400, 'event']);
    const { body: after } = await api.client.get(`${targets}/${made.id}`);
    expect(after.enabled).toBe(true);
  });

  test('comes with the other problems of the body', async () => {
    const { body } = await api.client.post(`${api.project}/notification_targets`, {
      kind: 'pigeon',
      evnts: [],
    });
    expect(body.errors.map(({ attr }) => attr).toSorted()).toEqual(['evnts', 'kind']);
  });

  test('of a free object is not looked at: rows have any columns', async () => {
    const rows = [{ event: 'paid', anything: { nested: true } }];
    const configs = [{ plugin: 2, config: { events: 'spam' } }];
    const lab = `${api.project}/pipeline_transformation_configs/lab`;
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
  const { organizationId } = api.tenant;
  const { key } = await createKey(api.db, { organizationId, isAdmin: true });
  const admin = api.client.withKey(key);
  const { status, body } = await admin.get('/admin/offboardings?status=completed');
  expect([status, body.attr]).toEqual([400, 'status']);
  expect((await admin.get('/admin/offboardings')).status).toBe(200);
});
