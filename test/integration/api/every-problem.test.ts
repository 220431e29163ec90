import { afterAll, beforeAll, expect, test } from 'vitest';
import { ensureEventsTable } from '../../../src/rows/sources/index.ts';
import { issueKey } from '../../../src/service/use-cases/tenants/issue-key.ts';
import type { ApiClient } from '../../support/api-client.ts';
import { type ApiUnderTest, startApiUnderTest } from '../../support/api-under-test.ts';
import { exportBody, s3 } from '../../support/batch-export-bodies.ts';

let api: ApiUnderTest;
let operator: ApiClient;
/** What the paths name. */
const ids: Record<string, string> = {};

beforeAll(async () => {
  api = await startApiUnderTest();
  await ensureEventsTable(api.databaseUrl);
  const key = { organizationId: null, projectIds: null, expiresAt: null };
  const issued = await issueKey(api.db, { ...key, name: 'operator', scopes: ['*'] });
  operator = api.client.withKey(issued.key);
  const create = async (path: string, body: object) => {
    const made = await api.client.post(`${api.project}/${path}`, body);
    expect(made.status, made.text).toBe(201);
    return String(made.body.id);
  };
  ids.organization = api.tenant.organizationId;
  ids.export = await create('batch_exports', exportBody());
  ids.step = await create('pipeline_transformation_configs', maskStep({ properties: 'email' }));
  ids.target = await create('notification_targets', { url: 'https://example.com/hook' });
});
afterAll(() => api.stop());

const mask = 10;
const maskStep = (config: object, others: object = {}) => ({
  plugin: mask,
  order: 1,
  config,
  ...others,
});
const badMask = { properties: ',', keep_first: 'x', keep_last: '-1', max_error_share: '2' };
const badMaskAttrs = ['keep_first', 'keep_last', 'max_error_share', 'properties'].map(
  (key) => `config__${key}`,
);
const [past, future] = ['1969-01-01T00:00:00Z', '2999-01-01T00:00:00Z'];
const badBucket = 'destination__config__bucket_name';
const unknownColumn = 'select event, colour from events';

test.each([
  [
    'batch_exports',
    exportBody({ interval: 'week', offset_day: 9, name: 5 }),
    ['name', 'offset_day'],
  ],
  [
    'batch_exports',
    exportBody({ destination: s3({ bucket_name: 'UPPER' }), dsl_query: unknownColumn }),
    [badBucket, 'dsl_query'],
  ],
  [
    'batch_exports',
    exportBody({ name: 5, destination: s3({ endpoint_url: 'http://[::ffff:10.0.0.1]:9000' }) }),
    ['destination__config__endpoint_url', 'name'],
  ],
  [
    'batch_exports/test',
    {
      destination: s3({ bucket_name: 'UPPER' }),
      filters: [{ key: 'x', type: 'none', operator: 'exact', value: 'a' }],
    },
    [badBucket, 'filters__0__type'],
  ],
  ['batch_exports/EXPORT/backfill', { start_at: past, end_at: future }, ['end_at', 'start_at']],
  ['batch_exports/EXPORT/backfill', {}, ['end_at', 'start_at']],
  [
    'batch_exports/EXPORT/backfill',
    { start_at: past, end_at: '2024-03-01T00:00:00', concurrency: 0 },
    ['concurrency', 'end_at', 'start_at'],
  ],
  ['batch_exports/EXPORT/backfill', { start_at: 'x', end_at: future }, ['end_at', 'start_at']],
  ['pipeline_transformation_configs', maskStep(badMask), badMaskAttrs],
  [
    'pipeline_transformation_configs',
    maskStep({ ...badMask, colour: 'red' }, { order: 'first', name: 7 }),
    [...badMaskAttrs, 'config__colour', 'name', 'order'],
  ],
  ['pipeline_transformation_configs', { plugin: 99_999, config: {} }, ['order', 'plugin']],
  [
    'notification_targets',
    { url: 'ftp://example.com', events: [], description: 7 },
    ['description', 'events', 'url'],
  ],
  [
    'notification_targets',
    { kind: 'email', recipients: ['no address'], url: 'https://example.com', enabled: 'yes' },
    ['enabled', 'kind', 'recipients', 'url'],
  ],
])('POST %s %j is refused with every problem at once', async (path, body, attrs) => {
  const { status, body: answer } = await api.client.post(urlOf(path), body);
  expect([status, answer.errors.map(({ attr }) => attr).sort()]).toEqual([400, attrs.toSorted()]);
});

test.each([
  [
    'pipeline_transformation_configs/STEP',
    { config: badMask, order: 'first', plugin: 5 },
    [...badMaskAttrs, 'order', 'plugin'],
  ],
  [
    'notification_targets/TARGET',
    { url: 'x', events: [], enabled: 1 },
    ['enabled', 'events', 'url'],
  ],
  [
    'batch_exports/EXPORT',
    { destination: { config: { bucket_name: 'UPPER' } }, dsl_query: unknownColumn },
    [badBucket, 'dsl_query'],
  ],
])('PATCH %s %j is refused with every problem at once', async (path, body, attrs) => {
  const { status, body: answer } = await api.client.patch(urlOf(path), body);
  expect([status, answer.errors.map(({ attr }) => attr).sort()]).toEqual([400, attrs.toSorted()]);
});

test.each([
  ['organizations', { name: ' ', size: 4 }, ['name', 'size']],
  ['organizations/ORGANIZATION/projects', { name: '', tenant_key: ' x' }, ['name', 'tenant_key']],
  ['organizations/ORGANIZATION/projects', { tenant_key: '' }, ['name', 'tenant_key']],
  [
    'organizations/ORGANIZATION/keys',
    { name: '', scopes: ['root'], project_ids: [2_000_000_000], expires_at: past },
    ['expires_at', 'name', 'project', 'scopes__0'],
  ],
  ['keys', { name: '', scopes: [], expires_at: past }, ['expires_at', 'name', 'scopes']],
])('an operator’s POST %s %j is refused with every problem at once', async (path, body, attrs) => {
  const { status, body: answer } = await operator.post(`/api/admin/${named(path)}`, body);
  expect([status, answer.errors.map(({ attr }) => attr).sort()]).toEqual([400, attrs]);
});

const named = (path: string) => path.replace(/[A-Z]{2,}/, (name) => ids[name.toLowerCase()] ?? '');
const urlOf = (path: string) => `${api.project}/${named(path)}`;
