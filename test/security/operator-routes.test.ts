import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readinessOf } from '../../src/main/readiness.ts';
import { findRunsOfJobs } from '../../src/main/api-process.ts';
import { createDashboard } from '../../src/state/queue/dashboard.ts';
import { openProducer, type Producer } from '../../src/state/queue/producer.ts';
import type { ApiClient } from '../support/api-client.ts';
import type { ApiOptions } from '../../src/service/api/options.ts';
import { type ApiUnderTest, startApiBeside, startApiUnderTest } from '../support/api-under-test.ts';
import { queueBackends, type TestQueueBackend } from '../support/queue-backends.ts';
import { exportOfThePast } from '../support/run-side.ts';
import { storeExport } from '../support/store-export.ts';
import { createKey } from '../support/tenants.ts';
import { plenty } from '../support/test-api-options.ts';
import { until } from '../support/until.ts';
import { inTest } from '../support/use-stage.ts';

const path = '/admin/queues/api/queues';
/** What the board's API says of a queue. */
interface BoardQueue {
  readonly name: string;
  readonly jobs: readonly {
    readonly name: string;
    readonly data: { readonly runs: readonly unknown[] };
    readonly returnValue: unknown;
    readonly externalUrl?: unknown;
  }[];
}
const runsOfJobs = (runIds: readonly string[]) =>
  findRunsOfJobs({ config: { PUBLIC_URL: null }, context: { db: api.db } }, runIds);
let backend: TestQueueBackend;
let producer: Producer;
let api: ApiUnderTest;
let admin: ApiClient;
let basic: { readonly authorization: string };

beforeAll(async () => {
  const [postgres] = queueBackends;
  if (!postgres) throw new Error('no queue');
  backend = await postgres.open();
  const queues = await backend.connect();
  producer = openProducer(queues, () => {});
  let readiness: ApiOptions['readiness'];
  api = await startApiUnderTest(
    {
      queueBoard: createDashboard(producer, '/admin/queues', runsOfJobs),
      readiness: () => readiness(),
    },
    ({ context }) => {
      readiness = readinessOf({ context, queues, producer }, () => null);
    },
  );
  const { key } = await createKey(api.db, { organizationId: null });
  admin = api.client.withKey(key);
  basic = { authorization: `Basic ${Buffer.from(`admin:${key}`).toString('base64')}` };
});
afterAll(async () => {
  await api?.stop();
  await producer?.close();
  await backend?.stop();
});

describe('the queue board', () => {
  test.each(['/admin/queues', path])(
    '%s answers 401 without a valid key, 403 to tenants',
    async (at) => {
      const { status, headers } = await api.client.withKey(null).get(at);
      expect([status, headers.get('www-authenticate')]).toEqual([
        401,
        expect.stringMatching('Basic'),
      ]);
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

  test('asks no other host for anything, and has a title that is whole', async () => {
    const { text } = await admin.get('/admin/queues');
    expect(text).toContain('static/css/main');
    expect(text).not.toMatch(/(?:href|src)="(?:https?:)?\/\//);
    expect(text).toContain('<title>Sluice queues</title>');
  });

  test('names the jobs of runs by customer, export and interval, with outcome, error and link', async () => {
    const [queue] = producer.queues.filter(({ name }) => name === 'sluice-small-runs');
    const side = { db: api.db, teamId: api.tenant.projectIds[0] };
    const stored = await storeExport(api.db, { ...(await exportOfThePast(side)), name: 'Orders' });
    const runs = await api.db.query<{ id: string }>(
      `insert into runs (export_id, team_id, status, data_interval_start, data_interval_end, finished_at, error_code, latest_error)
       select $1, $2, case n when 1 then 'Completed' else 'Failed' end, day + n * interval '25 minutes', day + (n + 1) * interval '25 minutes', now(),
              case n when 2 then 'destination.access_denied' end, case n when 2 then 'destination.access_denied: no' end
         from generate_series(1, 2) n, (select date_trunc('day', now(), 'UTC') - interval '1 day' as day) d
       returning id`,
      [stored?.id, side.teamId],
    );
    const [first, second] = runs;
    await queue?.pause();
    await producer.addRuns(
      runs.map(({ id }) => ({ runId: id, deduplicationId: null, small: true })),
      2,
    );
    await producer.addRuns([{ runId: randomUUID(), deduplicationId: null, small: true }]);
    const { body } = await admin.get(
      `${path}?activeQueue=sluice-small-runs&status=latest&page=1&jobsPerPage=10`,
    );
    await queue?.resume();
    const day = new Date(Date.now() - 86_400_000).toISOString().slice(0, 10);
    const queues = body.queues as unknown as readonly BoardQueue[];
    const shown = queues.find(({ name }) => name === 'sluice-small-runs')?.jobs;
    const [named, unknown] = [
      shown?.find(({ data }) => data.runs.length === 2),
      shown?.find(({ data }) => data.runs.length === 1),
    ];
    expect(named?.name).toBe(
      `Acme · Orders · ${day} 00:25 · Completed, Acme · Orders · ${day} 00:50 · Failed`,
    );
    const link = `/console/#/${side.teamId}/exports/${stored?.id}/runs/`;
    expect(named?.returnValue).toEqual([
      {
        run: `Acme · Orders · ${day} 00:25`,
        status: 'Completed',
        error: null,
        link: link + first?.id,
      },
      {
        run: `Acme · Orders · ${day} 00:50`,
        status: 'Failed',
        error: 'destination.access_denied: no',
        link: link + second?.id,
      },
    ]);
    expect(named).toMatchObject({ isFailed: true, failedReason: 'destination.access_denied: no' });
    expect(named?.externalUrl).toEqual({ displayText: 'Run', href: link + first?.id });
    // A run that is gone keeps the name of its job.
    expect(unknown).toMatchObject({ name: 'execute-small-runs' });
    expect(unknown?.externalUrl).toBeUndefined();
  });

  test('takes a change of its own page', async () => {
    const { origin } = new URL(api.baseUrl);
    // There is no such queue: the board itself answers.
    expect((await pause({ ...basic, origin, 'sec-fetch-site': 'same-origin' })).status).toBe(404);
  });

  test('is limited like the rest of the API', async () => {
    const limited = await inTest(
      startApiBeside(api, () => ({
        queueBoard: createDashboard(producer, '/admin/queues', runsOfJobs),
        rateLimit: { ...plenty, perMinute: 3 },
      })),
    );
    const { key } = await createKey(api.db, { organizationId: null });
    const client = limited.client.withKey(key);
    for (let n = 0; n < 3; n += 1) expect((await client.get(path)).status).toBe(200);
    expect((await client.get(path)).status).toBe(429);
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

test("/metrics on the port of the API needs an operator's key", async () => {
  expect((await api.client.withKey(null).get('/metrics')).status).toBe(401);
  expect((await api.client.get('/metrics')).status).toBe(403);
  expect((await admin.get('/metrics')).text).toContain('sluice_http_request_seconds');
  const scraped = await api.client.withKey(null).get('/metrics', { headers: basic });
  expect(scraped.status).toBe(200);
});

test('/readyz is computed once for all who ask within a second', async () => {
  let computed = 0;
  let answer: () => void = () => {};
  const answered = new Promise<void>((resolve) => {
    answer = resolve;
  });
  const counted = await inTest(
    startApiBeside(api, () => ({
      readiness: async () => {
        computed += 1;
        await answered;
        return { status: 'ok', checks: { postgres: 'ok', queue: 'ok', era: 'ok' } };
      },
    })),
  );
  const began = performance.now();
  const many = Array.from({ length: 50 }, () => counted.client.withKey(null).get('/readyz'));
  await until(() => computed > 0);
  answer();
  const answers = await Promise.all(many);
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
  // On a busy machine some of them ask later than a second after the first answer.
  expect(computed).toBeLessThanOrEqual(1 + Math.floor((performance.now() - began) / 1_000));
  expect(computed).toBeLessThan(many.length / 2);
});
