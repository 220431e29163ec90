import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ensureEventsTable } from '../../../src/rows/sources/index.ts';
import { type ApiUnderTest, startApiUnderTest } from '../../support/api-under-test.ts';
import { exportBody, s3 } from '../../support/batch-export-bodies.ts';
import { readDocument } from '../../support/openapi.ts';

let api: ApiUnderTest;
let environment: string;
let exports: string;

beforeAll(async () => {
  api = await startApiUnderTest();
  environment = api.project.replace('/projects/', '/environments/');
  exports = `${environment}/batch_exports`;
  await ensureEventsTable(api.databaseUrl);
});
afterAll(() => api.stop());

const noOp = { type: 'NoOp', config: {} };
const nowhere = 'http://127.0.0.1:1/';

const create = async (changes: Readonly<Record<string, unknown>> = {}) => {
  const { status, body } = await api.client.post(`${exports}/`, exportBody(changes));
  expect(status, JSON.stringify(body)).toBe(201);
  return body;
};
const refused = async (destination: unknown, path = `${exports}/`, method = 'POST') => {
  const answer = await api.client.send(method, path, { body: exportBody({ destination }) });
  return [answer.status, answer.body.attr, answer.body.detail];
};
const address = 'destination__config__endpoint_url';

/** What shows each line of the table in docs/posthog.md. */
const lines: Readonly<Record<string, () => Promise<void>>> = {
  '`/api/environments/{id}/…`': async () => {
    const { id } = await create();
    await create();
    expect((await api.client.get(`${api.project}/batch_exports/${id}`)).body.id).toBe(id);
    const page = await api.client.get(`${exports}/?limit=1`);
    const next = new URL(page.body.next ?? '');
    expect(next.pathname).toBe(`${exports}/`);
    expect((await api.client.get(next.pathname + next.search)).body.results).toHaveLength(1);
    const current = await api.client.get('/api/environments/@current/batch_exports/');
    expect(current.status).toBe(403);
    expect((await api.client.send('DELETE', exports)).headers.get('allow')).toContain('POST');
    expect((await api.client.get('/api/environments/999999/batch_exports/')).status).toBe(403);
    for (const list of ['runs', 'logs', 'backfills']) {
      expect((await api.client.get(`${exports}/${id}/${list}/`)).status).toBe(200);
    }
  },
  '`POST …/batch_exports/{id}/backfills/`': async () => {
    const { id } = await create();
    const bounds = { start_at: '2024-03-01T00:00:00Z', end_at: '2024-03-01T02:30:00Z' };
    const { status, body } = await api.client.post(`${exports}/${id}/backfills/`, bounds);
    expect([status, body]).toEqual([
      201,
      {
        backfill_id: expect.any(String),
        start_at: '2024-03-01T00:00:00.000000Z',
        end_at: '2024-03-01T03:00:00.000000Z',
        total_runs: 3,
      },
    ]);
    const backfill = await api.client.get(`${exports}/${id}/backfills/${body.backfill_id}/`);
    expect(backfill.body).toMatchObject({ total_runs: 3 });
    const future = await api.client.post(`${exports}/${id}/backfills/`, {
      ...bounds,
      end_at: '2999-01-01T00:00:00Z',
    });
    expect([future.status, future.body.attr]).toEqual([400, 'end_at']);
    const open = await api.client.post(`${exports}/${id}/backfills/`, {});
    expect(open.body.errors.map(({ attr }) => attr)).toEqual(['start_at', 'end_at']);
  },
  'a date as a bound of that backfill': async () => {
    const zone = { timezone: 'Europe/Berlin', offset_hour: 5 };
    const bounds = { start_at: '2024-03-30', end_at: '2024-04-01' };
    const day = await create({ interval: 'day', ...zone });
    const daily = await api.client.post(`${exports}/${day.id}/backfills/`, bounds);
    expect(daily.body).toMatchObject({
      start_at: '2024-03-30T04:00:00.000000Z',
      end_at: '2024-04-01T03:00:00.000000Z',
      total_runs: 2,
    });
    const hour = await create();
    const { status, body } = await api.client.post(`${exports}/${hour.id}/backfills/`, bounds);
    expect([status, body.errors.map(({ attr }) => attr)]).toEqual([400, ['start_at', 'end_at']]);
    expect((await api.client.post(`${exports}/${day.id}/backfill/`, bounds)).status).toBe(400);
  },
  '`type: AwsS3`': async () => {
    const sent = { ...s3(), type: 'AwsS3' };
    const { id, destination } = await create({ destination: sent });
    expect(destination.type).toBe('S3');
    for (const method of ['PUT', 'PATCH']) {
      for (const again of [destination, sent]) {
        const body = exportBody({ destination: again });
        const answer = await api.client.send(method, `${exports}/${id}/`, { body });
        expect([answer.status, answer.body.destination.type]).toEqual([200, 'S3']);
      }
    }
    const regional = { endpoint_url: 'https://s3.eu-west-1.amazonaws.com' };
    await create({ destination: { ...s3(regional), type: 'AwsS3' } });
    const elsewhere = { ...s3({ endpoint_url: 'https://amazonaws.com.example' }), type: 'AwsS3' };
    const says = [400, address, expect.stringContaining('S3Compatible')];
    expect(await refused(elsewhere)).toEqual(says);
    expect(await refused(elsewhere, `${exports}/${id}/`, 'PATCH')).toEqual(says);
  },
  '`type: S3Compatible`': async () => {
    const store = { endpoint_url: 'https://store.example' };
    const { id, destination } = await create({
      destination: { ...s3(store), type: 'S3Compatible' },
    });
    expect(destination).toMatchObject({ type: 'S3', config: store });
    const change = { destination: { type: 'S3Compatible', config: { prefix: 'a/' } } };
    const changed = await api.client.patch(`${exports}/${id}/`, change);
    expect(changed.body.destination.config).toMatchObject({ ...store, prefix: 'a/' });
    const says = [400, address, expect.stringContaining('type S3')];
    expect(await refused({ ...s3(), type: 'S3Compatible' })).toEqual(says);
    const gone = { ...s3({ endpoint_url: null }), type: 'S3Compatible' };
    expect(await refused(gone, `${exports}/${id}/`, 'PUT')).toEqual(says);
    expect(await refused({ ...s3(), type: 'AzureBlob' })).toEqual([
      400,
      'destination__type',
      expect.any(String),
    ]);
  },
  '`GET …/batch_exports/test/?destination=S3`': async () => {
    const { status, body } = await api.client.get(`${exports}/test/?destination=S3`);
    expect([status, body.steps]).toEqual([
      200,
      [{ name: expect.any(String), description: expect.any(String), result: null }],
    ]);
    for (const [type, code] of [
      ['AwsS3', 200],
      ['Snowflake', 400],
    ] as const) {
      const answer = await api.client.get(`${exports}/test/?destination=${type}`);
      expect(answer.status, type).toBe(code);
    }
  },
  '`POST …/batch_exports/run_test_step_new/`': async () => {
    const path = `${exports}/run_test_step_new/`;
    const passed = await api.client.post(path, { ...exportBody({ destination: noOp }), step: 0 });
    expect([passed.status, passed.body]).toEqual([
      200,
      {
        name: expect.any(String),
        description: expect.any(String),
        result: { status: 'Passed', message: 'Nothing is ever written.' },
      },
    ]);
    const destination = { ...s3({ endpoint_url: nowhere }), type: 'S3Compatible' };
    const failed = await api.client.post(path, exportBody({ destination }));
    expect(failed.body.result).toEqual({ status: 'Failed', message: expect.any(String) });
    const other = await api.client.post(path, { ...exportBody({ destination: noOp }), step: 1 });
    expect([other.status, other.body.attr]).toEqual([400, 'step']);
  },
  '`POST …/batch_exports/{id}/run_test_step/`': async () => {
    const { id } = await create({ destination: s3({ endpoint_url: nowhere }) });
    const path = `${exports}/${id}/run_test_step/`;
    const stored = await api.client.post(path, { step: 0 });
    expect(stored.body.result).toMatchObject({ status: 'Failed' });
    const other = await create({ destination: noOp });
    const changed = await api.client.post(`${exports}/${other.id}/run_test_step/`, {
      ...other,
      step: 0,
    });
    expect(changed.body.result).toMatchObject({ status: 'Passed' });
  },
  '`timezone: null`': async () => {
    const made = await create({ interval: 'day', timezone: null });
    expect(made.timezone).toBe('UTC');
    const path = `${exports}/${made.id}/`;
    await api.client.patch(path, { timezone: 'Europe/Berlin' });
    expect((await api.client.patch(path, { timezone: null })).body.timezone).toBe('UTC');
  },
  '`integration_id`': async () => {
    for (const field of ['integration_id', 'integration']) {
      const destination = { ...s3(), type: 'AwsS3', [field]: 7 };
      const says = [400, `destination__${field}`, expect.stringContaining('aws_access_key_id')];
      expect(await refused(destination)).toEqual(says);
      expect(await refused(destination, `${exports}/run_test_step_new/`)).toEqual(says);
    }
  },
  '`hogql_query`': async () => {
    const { dsl_query } = await create({ hogql_query: 'select event from events' });
    expect(dsl_query).toMatch(/select event from events/i);
  },
  '`filters`': async () => {
    const exact = { key: '$browser', operator: 'exact', type: 'event', value: ['Firefox'] };
    expect((await create({ filters: [exact] })).dsl_query).toMatch(/\$browser/);
    const filters = [{ key: 'id', type: 'cohort', value: 1 }];
    const { status, body } = await api.client.post(exports, exportBody({ filters }));
    expect([status, body.attr]).toEqual([400, expect.stringMatching(/^filters__0/)]);
  },
};

describe('a client of PostHog', () => {
  test.each(Object.entries(lines))('%s', (_line, show) => show());
});

test('the page has a line for each, and no other', () => {
  const page = readFileSync(new URL('../../../docs/posthog.md', import.meta.url), 'utf8');
  const firstCells = [...page.matchAll(/^\| (.+?) \|/gm)].map(([, cell]) => cell);
  expect(firstCells.slice(2)).toEqual(Object.keys(lines));
});

test('the OpenAPI document has their operations under a tag of their own', async () => {
  const { operations } = await readDocument(api.client);
  const paths = operations.map(({ method, path }) => `${method} ${path}`);
  const family = '/api/environments/{project_id}/batch_exports';
  expect(paths).toEqual(
    expect.arrayContaining([`GET ${family}`, `POST ${family}/{batch_export_id}/backfills`]),
  );
  const other = operations.filter(({ path }) => path.startsWith('/api/environments/'));
  expect(other.length).toBeGreaterThan(30);
});
