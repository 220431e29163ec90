import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ApiClient } from '../../support/api-client.ts';
import { type ApiUnderTest, startApiUnderTest } from '../../support/api-under-test.ts';
import { exportBody } from '../../support/batch-export-bodies.ts';
import { createKey } from '../../support/tenants.ts';

let api: ApiUnderTest;
let client: ApiClient;
let exports: string;
let path: string;

beforeAll(async () => {
  api = await startApiUnderTest();
  client = api.client;
  exports = `${api.project}/batch_exports`;
  path = `${exports}/${(await client.post(exports, exportBody())).body.id}`;
});
afterAll(() => api.stop());

describe('a value that no database can hold is an error of the request', () => {
  test.each([
    ['2024-99-99T00:00:00.000000Z'],
    ['2023-02-29T00:00:00.000000Z'],
    ['0000-01-01T00:00:00.000000Z'],
  ])('a cursor at %s', async (at) => {
    const parts = ['-created_at', 'next', at, crypto.randomUUID()];
    const cursor = Buffer.from(JSON.stringify(parts)).toString('base64url');
    for (const list of ['runs', 'backfills']) {
      const { status, body } = await client.get(`${path}/${list}?cursor=${cursor}`);
      expect([list, status, body.attr]).toEqual([list, 400, 'cursor']);
    }
  });

  test.each(['-9999y', '-1000y', '-7000y'])(
    'a span back to before the calendar: %s',
    async (span) => {
      for (const list of ['runs', 'logs']) {
        const { status, body } = await client.get(`${path}/${list}?after=${span}`);
        expect([list, status, body.attr]).toEqual([list, 400, 'after']);
      }
      expect((await client.get(`${path}/runs?after=-999y`)).status).toBe(200);
    },
  );

  test('offsets and limits beyond what a number holds', async () => {
    for (const digits of [16, 19, 30, 300]) {
      const huge = '9'.repeat(digits);
      for (const list of ['', `/${path.split('/').at(-1)}/logs`]) {
        const { status, body } = await client.get(`${exports}${list}?offset=${huge}&limit=${huge}`);
        expect([list, digits, status]).toEqual([list, digits, 200]);
        expect(body.results).toEqual([]);
      }
    }
  });

  const firstDay = { start_at: '0001-01-01T00:00:00Z', end_at: '2024-03-02T00:00:00Z' };

  test.each(['week', 'day', 'hour', 'every 5 minutes'])(
    'a backfill from the first day of the calendar, by %s',
    async (interval) => {
      const timezone = interval === 'week' || interval === 'day' ? 'Asia/Tokyo' : 'UTC';
      const { body } = await client.post(exports, exportBody({ interval, timezone }));
      for (const dry_run of [true, false]) {
        const bounds = { ...firstDay, dry_run };
        const refused = await client.post(`${exports}/${body.id}/backfill`, bounds);
        expect([refused.status, refused.body.attr]).toEqual([400, 'start_at']);
      }
    },
  );

  test('a backfill of local days from the first day of 1970', async () => {
    const settings = { interval: 'day', timezone: 'Asia/Tokyo' };
    const { body } = await client.post(exports, exportBody(settings));
    const path = `${exports}/${body.id}/backfill`;
    const bounds = { start_at: '1970-01-01T00:00:00Z', end_at: '2024-03-01T15:00:00Z' };
    const preview = await client.post(path, { ...bounds, dry_run: true });
    expect([preview.status, preview.body.total_runs]).toEqual([200, 19_784]);
    const started = await client.post(path, { ...bounds, dry_run: false });
    expect([started.status, started.body.backfill_id]).toEqual([200, expect.any(String)]);
  });

  test('a schedule at the last day of the calendar', async () => {
    const body = exportBody({ interval: 'week', start_at: '9999-12-31T23:59:59Z' });
    const created = await client.post(exports, body);
    expect(created.status).toBe(201);
    expect((await client.get(`${exports}/${created.body.id}/schedule`)).status).toBe(200);
    expect((await client.get(`${exports}/${created.body.id}`)).body).toEqual(created.body);
  });
});

describe('what the contract ignores', () => {
  test.each([null, 'x', 1.5, {}])(
    'team_id %j in the body, although the path has the project',
    async (team_id) => {
      const created = await client.post(exports, exportBody({ team_id }));
      expect(created.status).toBe(201);
      expect(created.body.team_id).toBe(api.tenant.projectIds[0]);
      const changed = await client.patch(`${exports}/${created.body.id}`, { team_id, id: 'x' });
      expect([changed.status, changed.body.team_id]).toEqual([200, api.tenant.projectIds[0]]);
    },
  );

  test('the fields of an export in pause, unpause and backfill', async () => {
    const { body } = await client.post(exports, exportBody());
    for (const verb of ['pause', 'unpause']) {
      const answer = await client.post(
        `${exports}/${body.id}/${verb}`,
        exportBody({ name: 'other' }),
      );
      expect([verb, answer.status, answer.body.name]).toEqual([verb, 200, 'Events to S3']);
    }
  });
});

test.each(['paused', 'interval', 'transformations', 'model'])(
  'null is no value of %s',
  async (field) => {
    const { status, body } = await client.patch(path, { [field]: null });
    expect(status).toBe(400);
    expect(body).toMatchObject({ code: 'null', attr: field });
  },
);

describe("a transformation's config as JSON in a string", () => {
  const configs = () => `${api.project}/pipeline_transformation_configs`;
  const pluginId = async () => {
    const plugins = `/api/organizations/${api.tenant.organizationId}/plugins`;
    const made = await client.post(plugins, {
      name: 'Own',
      source: 'export function processEvent(event) { return event; }',
      config_schema: [{ key: 'word' }, { key: 'token', secret: true }],
    });
    return Number(made.body.id);
  };

  test.each([
    ['NUL', '{"word":"\\u0000"}'],
    ['half a surrogate pair', '{"word":"\\ud800"}'],
    ['__proto__', '{"__proto__":{"word":"x"}}'],
    ['a list', '["word"]'],
    ['no JSON', 'word'],
  ])('is refused with %s, in create and in PATCH', async (_what, config) => {
    const plugin = await pluginId();
    const refused = await client.post(configs(), { plugin, order: 1, config });
    expect([refused.status, refused.body.type.length > 0]).toEqual([400, true]);
    const made = await client.post(configs(), { plugin, order: 1, config: '{"word":"kept"}' });
    expect(made.status).toBe(201);
    const changed = await client.patch(`${configs()}/${made.body.id}`, { config });
    expect(changed.status).toBe(400);
    const { body } = await client.get(`${configs()}/${made.body.id}`);
    expect(JSON.parse(String(body.config))).toMatchObject({ word: 'kept' });
  });
});

test('an id that cannot be one is 404 on every path of an operator', async () => {
  const key = await createKey(api.db, { organizationId: null });
  const operator = client.withKey(key.key);
  const { body } = await operator.get('/api/openapi.json');
  const paths = Object.entries(body.paths as Record<string, Record<string, unknown>>);
  const asked = paths.flatMap(([path, operations]) =>
    path.startsWith('/api/admin/') && path.includes('{')
      ? Object.keys(operations).map((method) => [method, path] as const)
      : [],
  );
  expect(asked.length).toBeGreaterThan(15);
  // Bodies that each operation accepts.
  const bodies: Record<string, object> = {
    'patch /api/admin/organizations/{organization_id}': { disabled: true },
    'patch /api/admin/projects/{project_id}': { disabled: true },
    'post /api/admin/organizations/{organization_id}/projects': { name: 'X' },
    'post /api/admin/organizations/{organization_id}/keys': { name: 'X', scopes: ['*'] },
    'post /api/admin/exports/{export_id}/act': { action: 'probe' },
  };
  for (const [method, path] of asked) {
    for (const id of ['x', '-1', '1.5', '99999999999999999999', '%F0%9F%98%80']) {
      const answer = await operator.send(method.toUpperCase(), path.replaceAll(/\{\w+\}/g, id), {
        ...(method !== 'get' && method !== 'delete' && { body: bodies[`${method} ${path}`] ?? {} }),
      });
      expect([method, path, id, answer.status]).toEqual([method, path, id, 404]);
    }
  }
});
