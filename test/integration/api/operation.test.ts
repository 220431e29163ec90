import type { FastifyPluginCallback } from 'fastify';
import { describe, expect, onTestFinished, test } from 'vitest';
import { buildApi } from '../../../src/service/api/build-api.ts';
import { openDatabase } from '../../../src/state/store/database/database.ts';
import { checkReadiness } from '../../../src/service/use-cases/installation/check-readiness.ts';
import { createApiClient } from '../../support/api-client.ts';
import { startApiUnderTest } from '../../support/api-under-test.ts';
import { exportBody } from '../../support/batch-export-bodies.ts';
import { startTcpProxy } from '../../support/tcp-proxy.ts';
import { createKey } from '../../support/tenants.ts';
import { testApiOptions } from '../../support/test-api-options.ts';
import { until } from '../../support/until.ts';
import { useStage } from '../../support/use-stage.ts';

let queueFault: string | null = null;

const board: FastifyPluginCallback = (scope, _options, done) => {
  scope.get('/', async () => 'the board');
  scope.post('/retry', async () => ({ retried: true }));
  done();
};

const api = useStage(() =>
  startApiUnderTest({
    readiness: () =>
      checkReadiness({
        databaseFault: async () => null,
        queueFault: async () => queueFault,
        holdReason: async () => null,
      }),
    queueBoard: board,
  }),
);

describe('probes', () => {
  test('the process is live and ready, without a key', async () => {
    const anonymous = api.withKey(null);
    expect((await anonymous.get('/livez')).body).toEqual({ status: 'ok' });
    const ready = await anonymous.get('/readyz');
    expect(ready.status).toBe(200);
    expect(ready.body).toEqual({
      status: 'ok',
      checks: { postgres: 'ok', queue: 'ok', era: 'ok' },
    });
  });

  test('without the queue it is ready, but degraded, and accepts writes', async () => {
    queueFault = 'the queue is unreachable';
    // The answer before is shown for a second.
    await until(async () => (await api.get('/readyz')).body.status === 'degraded');
    expect(await api.get('/readyz')).toMatchObject({
      status: 200,
      body: { status: 'degraded', checks: { queue: 'the queue is unreachable' } },
    });
    expect((await api.post(api.exports, exportBody())).status).toBe(201);
    queueFault = null;
  });

  test('metrics count requests by route, never by path', async () => {
    await api.get(api.exports);
    const { status, text } = await (await api.asOperator()).get('/metrics');
    expect(status).toBe(200);
    expect(text).toContain('route="/api/projects/:project_id/batch_exports"');
    expect(text).not.toContain(api.project);
  });
});

test('without Postgres requests are 503, readiness names the fault, and everything recovers', async () => {
  const address = new URL(api.databaseUrl);
  const proxy = await startTcpProxy({
    target: { host: address.hostname, port: Number(address.port) },
  });
  const through = new URL(address);
  through.hostname = '127.0.0.1';
  through.port = String(proxy.port);
  const db = openDatabase({
    connectionString: through.href,
    applicationName: 'cut',
    maxConnections: 4,
    onError: () => {},
  });
  const cut = await buildApi(testApiOptions(db, through.href));
  onTestFinished(async () => {
    await cut.close();
    await db.close();
    await proxy.close();
  });
  const client = createApiClient(await cut.listen({ port: 0, host: '127.0.0.1' }), api.tenant.key);
  const path = api.exports;
  expect((await client.get(path)).status).toBe(200);
  await proxy.refuse();
  proxy.cut();
  const { status, body, headers } = await client.get(path);
  expect(status).toBe(503);
  expect(body).toMatchObject({ type: 'server_error', code: 'error', attr: null });
  expect(headers.get('retry-after')).toBe('5');
  const ready = await client.get('/readyz');
  expect([ready.status, ready.body.status]).toEqual([503, 'unavailable']);
  expect((await client.get('/livez')).status).toBe(200);
  await proxy.accept();
  await until(async () => (await client.get(path)).status === 200);
});

describe('the queue board', () => {
  const basic = (key: string) => ({
    headers: { authorization: `Basic ${Buffer.from(`admin:${key}`).toString('base64')}` },
  });

  test('is closed without a key, and asks browsers for one', async () => {
    const { status, headers } = await api.withKey(null).get('/admin/queues');
    expect(status).toBe(401);
    expect(headers.get('www-authenticate')).toContain('Basic');
  });

  test('is closed to the key of an organization', async () => {
    expect((await api.get('/admin/queues')).status).toBe(403);
  });

  test('opens to the key of an operator, as Bearer or as the password of Basic', async () => {
    const { key } = await createKey(api.db, { organizationId: null });
    expect((await api.withKey(key).get('/admin/queues')).text).toBe('the board');
    const anonymous = api.withKey(null);
    expect((await anonymous.get('/admin/queues', basic(key))).text).toBe('the board');
    const forged = await anonymous.send('POST', '/admin/queues/retry', {
      headers: { ...basic(key).headers, 'sec-fetch-site': 'cross-site' },
    });
    expect(forged.status).toBe(403);
  });
});

test('an internal error shows its request id, and no internals', async () => {
  const broken = await startApiUnderTest({
    checkQuery: () => {
      throw new Error('the secret inside');
    },
  });
  onTestFinished(() => broken.stop());
  const body = exportBody({ dsl_query: 'select 1' });
  const answer = await broken.client.post(`${broken.project}/batch_exports`, body);
  expect(answer.status).toBe(500);
  expect(answer.body).toMatchObject({ type: 'server_error', code: 'error', attr: null });
  expect(answer.body.request_id).toMatch(/^[0-9a-f-]{36}$/);
  expect(answer.text).not.toContain('inside');
});
