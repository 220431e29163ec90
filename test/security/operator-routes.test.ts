import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readinessOf } from '../../src/main/readiness.ts';
import { createDashboard } from '../../src/state/queue/dashboard.ts';
import { openProducer, type Producer } from '../../src/state/queue/producer.ts';
import { openDatabase } from '../../src/state/store/database.ts';
import type { ApiClient } from '../support/api-client.ts';
import { type ApiUnderTest, startApiUnderTest } from '../support/api-under-test.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { queueBackends, type TestQueueBackend } from '../support/queue-backends.ts';
import { createKey } from '../support/tenants.ts';
import { plenty } from '../support/test-api-options.ts';
import { until } from '../support/until.ts';

const path = '/admin/queues/api/queues';
let backend: TestQueueBackend;
let producer: Producer;
let database: TestDatabase;
let api: ApiUnderTest;
let admin: ApiClient;
let basic: { readonly authorization: string };
let stopReading: () => Promise<void> = async () => {};

beforeAll(async () => {
  const [postgres] = queueBackends;
  if (!postgres) throw new Error('no queue');
  backend = await postgres.open();
  const queues = await backend.connect();
  producer = openProducer(queues, () => {});
  database = await createTestDatabase();
  const db = openDatabase({
    connectionString: database.url,
    applicationName: 'readiness',
    maxConnections: 2,
    onError: () => {},
  });
  const foundation = { context: { db }, queues, producer } as unknown as Parameters<
    typeof readinessOf
  >[0];
  api = await startApiUnderTest({
    queueBoard: createDashboard(producer, '/admin/queues'),
    readiness: readinessOf(foundation, () => null),
  });
  const { key } = await createKey(api.db, { organizationId: null });
  admin = api.client.withKey(key);
  basic = { authorization: `Basic ${Buffer.from(`admin:${key}`).toString('base64')}` };
  stopReading = () => db.close();
});
afterAll(async () => {
  await api?.stop();
  await producer?.close();
  await stopReading();
  await database?.drop();
  await backend?.stop();
});

describe('the queue board', () => {
  test.each(['/admin/queues', path])(
    '%s answers 401 without a valid key, 403 to tenants',
    async (at) => {
      expect((await api.client.withKey(null).get(at)).status).toBe(401);
      expect((await api.client.withKey('slc_wrong').get(at)).status).toBe(401);
      const refused = await api.client.get(at);
      expect(refused.status).toBe(403);
      expect(refused.body.code).toBe('permission_denied');
      expect((await admin.get(at)).status).toBe(200);
    },
  );

  const pause = (headers: Readonly<Record<string, string>>) =>
    api.client.withKey(null).put(`${path}/sluice-none/pause`, undefined, { headers });

  test.each([
    ['an Origin of another site', { origin: 'https://evil.example' }],
    ['an Origin without a host', { origin: 'null' }],
    ['a page of another site', { 'sec-fetch-site': 'cross-site' }],
    ['a page of a neighbouring site', { 'sec-fetch-site': 'same-site' }],
    ['no word of where it comes from', {}],
  ])('refuses a change by a browser with %s', async (_, headers) => {
    expect((await pause({ ...basic, ...headers })).status).toBe(403);
  });

  test('asks no other host for anything, and says that a failed job is not a failed run', async () => {
    const { text } = await admin.get('/admin/queues');
    expect(text).toContain('static/css/main');
    expect(text).not.toMatch(/(?:href|src)="(?:https?:)?\/\//);
    expect(text).toContain('a failed job is not a failed run');
  });

  test('takes a change of its own page', async () => {
    const { origin } = new URL(api.baseUrl);
    // There is no such queue: the board itself answers.
    expect((await pause({ ...basic, origin, 'sec-fetch-site': 'same-origin' })).status).toBe(404);
  });

  test('is limited like the rest of the API', async () => {
    const limited = await startApiUnderTest({
      queueBoard: createDashboard(producer, '/admin/queues'),
      rateLimit: { ...plenty, perMinute: 3 },
    });
    try {
      const { key } = await createKey(limited.db, { organizationId: null });
      const client = limited.client.withKey(key);
      for (let n = 0; n < 3; n += 1) expect((await client.get(path)).status).toBe(200);
      expect((await client.get(path)).status).toBe(429);
    } finally {
      await limited.stop();
    }
  });

  test('can pause a queue, which readiness reports', async () => {
    expect((await api.client.get('/readyz')).body.status).toBe('ok');
    const [queue] = producer.queues;
    expect((await admin.put(`${path}/${queue?.name}/pause`)).status).toBe(200);
    await until(async () => (await api.client.get('/readyz')).body.status === 'degraded');
    const { status, body } = await api.client.get('/readyz');
    expect(status).toBe(200);
    expect(JSON.stringify(body)).toContain(`paused: ${queue?.name}`);
    expect((await admin.put(`${path}/${queue?.name}/resume`)).status).toBe(200);
    await until(async () => (await api.client.get('/readyz')).body.status === 'ok');
  });
});

describe('/metrics on the port of the API', () => {
  test("needs an operator's key", async () => {
    expect((await api.client.withKey(null).get('/metrics')).status).toBe(401);
    expect((await api.client.get('/metrics')).status).toBe(403);
    expect((await admin.get('/metrics')).text).toContain('sluice_http_request_seconds');
    const scraped = await api.client.withKey(null).get('/metrics', { headers: basic });
    expect(scraped.status).toBe(200);
  });
});

test('/readyz is computed once for all who ask within a second', async () => {
  let computed = 0;
  let answer: () => void = () => {};
  const answered = new Promise<void>((resolve) => {
    answer = resolve;
  });
  const counted = await startApiUnderTest({
    readiness: async () => {
      computed += 1;
      await answered;
      return { status: 'ok', checks: { postgres: 'ok', queue: 'ok', era: 'ok' } };
    },
  });
  try {
    const many = Array.from({ length: 50 }, () => counted.client.withKey(null).get('/readyz'));
    await until(() => computed > 0);
    answer();
    const answers = await Promise.all(many);
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
    expect(computed).toBe(1);
  } finally {
    await counted.stop();
  }
});
