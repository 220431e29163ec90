import { connect } from 'node:net';
import { describe, expect, onTestFinished, test } from 'vitest';
import { startApiBeside, startApiUnderTest } from '../../support/api-under-test.ts';
import { exportBody } from '../../support/batch-export-bodies.ts';
import { firstByDay } from '../../support/nightly.ts';
import { createKey } from '../../support/tenants.ts';
import { until } from '../../support/until.ts';
import { buildApi } from '../../../src/service/api/build-api.ts';
import { openDatabase } from '../../../src/state/store/database/database.ts';
import { checkReadiness } from '../../../src/service/use-cases/installation/check-readiness.ts';
import { createApiClient } from '../../support/api-client.ts';
import { startTcpProxy } from '../../support/tcp-proxy.ts';
import { testApiOptions } from '../../support/test-api-options.ts';
import { useStage } from '../../support/use-stage.ts';

let queueFault: string | null = null;

const api = useStage(() =>
  startApiUnderTest({
    readiness: () =>
      checkReadiness({
        databaseFault: async () => null,
        queueFault: async () => queueFault,
        holdReason: async () => null,
      }),
  }),
);

test('a trailing slash is optional, without a redirect', async () => {
  const body = await api.create();
  const paths = [
    '',
    `/${body.id}`,
    `/${body.id}/runs`,
    `/${body.id}/logs`,
    `/${body.id}/backfills`,
  ];
  for (const path of paths) {
    const [bare, slashed] = [
      await api.get(api.exports + path),
      await api.get(`${api.exports}${path}/`),
    ];
    expect([path, bare.status, slashed.status]).toEqual([path, 200, 200]);
    expect(slashed.body.results).toEqual(bare.body.results);
  }
});

test('HEAD answers as GET, without the body', async () => {
  const { status, text, headers } = await api.send('HEAD', api.exports);
  expect([status, text]).toEqual([200, '']);
  expect(headers.get('content-type')).toContain('application/json');
});

test('OPTIONS says what a path allows', async () => {
  const answer = await api.send('OPTIONS', `${api.exports}/`);
  expect([answer.status, answer.headers.get('allow')]).toEqual([204, 'GET, HEAD, POST, OPTIONS']);
});

test.each([
  ['PUT', '', 'GET, HEAD, POST, OPTIONS'],
  ['DELETE', '', 'GET, HEAD, POST, OPTIONS'],
  ['POST', '/00000000-0000-4000-8000-000000000000', 'GET, HEAD, PUT, PATCH, DELETE, OPTIONS'],
  ['GET', '/00000000-0000-4000-8000-000000000000/pause', 'POST, OPTIONS'],
])('%s %s is 405, with Allow', async (method, path, allow) => {
  const { status, body, headers } = await api.send(method, api.exports + path);
  expect(status).toBe(405);
  expect(headers.get('allow')).toBe(allow);
  expect(body).toMatchObject({ type: 'invalid_request', code: 'method_not_allowed', attr: null });
});

test.each([
  '/api',
  '/api/nothing',
  '/api/projects',
  // It was there before 0.1.0.
  '/api/admin/verifications',
  '/%2e%2e/etc',
  '/api//projects',
  '/%ED%A0%80',
  '/%',
])('an unknown path is 404: %s', async (path) => {
  const { status, body } = await api.get(path);
  expect(status).toBe(404);
  expect(body).toMatchObject({ type: 'invalid_request', code: 'not_found' });
  if (path.startsWith('/api')) expect(body.detail).toContain('/api/openapi.json lists them all');
});

describe('bodies', () => {
  const send = (raw: string | Uint8Array, contentType = 'application/json') =>
    api.send('POST', api.exports, { raw, headers: { 'content-type': contentType } });

  test.each<[string, string | Uint8Array, number, string, string?]>([
    ['cut short', '{"name":', 400, 'parse_error'],
    ['no JSON', 'name=x', 400, 'parse_error'],
    ['two values', '{} {}', 400, 'parse_error'],
    ['invalid UTF-8', Buffer.from('7b22ff223a317d', 'hex'), 400, 'parse_error'],
    ['__proto__', '{"__proto__": {"admin": true}}', 400, 'parse_error'],
    ['__proto__ inside', '{"destination": {"config": {"__proto__": 1}}}', 400, 'parse_error'],
    ['nested deeply', '['.repeat(10_000) + ']'.repeat(10_000), 400, 'parse_error'],
    ['a list', '[]', 400, 'incorrect_type'],
    ['a text', '"x"', 400, 'incorrect_type'],
    ['a number', '1', 400, 'incorrect_type'],
    ['null', 'null', 400, 'incorrect_type'],
    ['a truth', 'true', 400, 'incorrect_type'],
    ['plain text', '{}', 415, 'unsupported_media_type', 'text/plain'],
    ['of a form', '{}', 415, 'unsupported_media_type', 'application/x-www-form-urlencoded'],
    ['XML', '{}', 415, 'unsupported_media_type', 'application/xml'],
    ['of no type', '{}', 415, 'unsupported_media_type', 'nonsense'],
    ['JSONP', '{}', 415, 'unsupported_media_type', 'application/jsonp'],
    ['over 1 MiB', `{"name":"${'x'.repeat(1_048_577)}"}`, 413, 'payload_too_large'],
  ])('a body that is %s is refused', async (_what, raw, status, code, contentType) => {
    const answer = await send(raw, contentType);
    expect(answer).toMatchObject({ status, body: { code, attr: null } });
    const isTyped = code !== 'incorrect_type';
    expect(answer.body.type).toBe(isTyped ? 'invalid_request' : 'validation_error');
  });

  test('a charset makes no difference', async () => {
    const { status } = await send(JSON.stringify(exportBody()), 'application/json; charset=utf-8');
    expect(status).toBe(201);
  });

  test('no body at all is an empty one, with or without a Content-Type', async () => {
    const body = await api.create();
    expect((await api.send('POST', `${api.exports}/${body.id}/pause`)).status).toBe(200);
    const headers = { 'content-type': 'application/x-www-form-urlencoded' };
    const path = `${api.exports}/${body.id}/pause`;
    expect((await api.send('POST', path, { raw: '', headers })).status).toBe(200);
    const json = { 'content-type': 'application/json' };
    const removed = await api.send('DELETE', `${api.exports}/${body.id}`, { headers: json });
    expect(removed.status).toBe(204);
  });
});

test('an error says its id, which the response header has too', async () => {
  const { body, headers } = await api.get('/nothing');
  expect(body.request_id).toBe(headers.get('x-request-id'));
  expect(Object.keys(body)).toEqual(['type', 'code', 'detail', 'attr', 'errors', 'request_id']);
});

test.each([
  ['an answer', () => api.exports],
  ['an answer of a path that does not exist', () => '/nothing'],
])('%s forbids caching and content sniffing', async (_what, path) => {
  const { headers } = await api.get(path());
  expect(headers.get('cache-control')).toBe('no-store');
  expect(headers.get('x-content-type-options')).toBe('nosniff');
  expect(headers.get('content-security-policy')).toContain("default-src 'none'");
});

test('links carry our address, and behind a trusted proxy the one that the client used', async () => {
  await api.create();
  await api.create();
  const trusting = await startApiBeside(api, () => ({ trustProxy: 1 }));
  const headers = { 'x-forwarded-host': 'sluice.example', 'x-forwarded-proto': 'https' };
  for (const [client, origin] of [
    [api, api.baseUrl],
    [trusting.client, 'https://sluice.example'],
  ] as const) {
    const { body } = await client.get(`${api.exports}?limit=1`, { headers });
    expect(body.next).toBe(`${origin}${api.exports}?limit=1&offset=1`);
  }
  await trusting.stop();
});

describe('the end of the server', () => {
  const clients = firstByDay(2, [
    ['sends half a body', 'POST /api/me HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n{'],
    ['was answered before', 'GET /livez HTTP/1.1\r\nHost: a\r\n\r\n'],
    ['sends nothing', ''],
    ['sends half a head', 'GET /api/me HTTP/1.1\r\nHost: '],
  ]);
  test.each(clients)(
    'does not wait for a client that %s',
    async (_what, sent) => {
      const { client: beside, stop } = await startApiBeside(api, () => ({}));
      const socket = connect(Number(new URL(beside.baseUrl).port), '127.0.0.1');
      const ended = new Promise((resolve) => socket.once('close', resolve));
      socket.on('error', () => {});
      socket.on('data', () => {});
      await new Promise<void>((resolve) => socket.once('connect', resolve));
      socket.write(sent);
      // The server has accepted the connection, since it accepts them in turn.
      await beside.get('/livez');
      await stop();
      await ended;
    },
    30_000,
  );

  test('comes after the answers that are in progress', async () => {
    const { client: beside, stop } = await startApiBeside(api, () => ({}));
    const [answer, closed] = await api.db.transaction(async (tx) => {
      await tx.query('lock table batch_exports in access exclusive mode');
      const { length: others } = await tx.query(waiting);
      const asked = beside.get(api.exports);
      await until(async () => (await tx.query(waiting)).length > others);
      return [asked, stop()];
    });
    expect((await answer).status).toBe(200);
    await closed;
  }, 30_000);
});

const waiting = `select from pg_locks where not granted and relation = 'batch_exports'::regclass
  and database = (select oid from pg_database where datname = current_database())`;

test.each([
  [['batch_export:read'], ['batch_export:read']],
  [
    ['batch_export:write', 'plugin:read'],
    ['batch_export:read', 'batch_export:write', 'plugin:read'],
  ],
  [['*'], ['batch_export:read', 'batch_export:write', 'file:read', 'plugin:read', 'plugin:write']],
])('a key with %j grants %j', async (scopes, granted) => {
  const { organizationId } = api.tenant;
  const { key, apiKey } = await createKey(api.db, { organizationId, scopes });
  const answer = await api.withKey(key).get('/api/me');
  expect(answer).toMatchObject({
    status: 200,
    body: { key_name: apiKey.name, scopes: granted, organization: { id: organizationId } },
  });
});

test('a key of one project sees this project only, with the external ID that roles must require', async () => {
  const { projectIds } = api.tenant;
  const [projectId] = projectIds;
  const { body } = await (await api.withNewKey({ projectIds: [projectId] })).get('/api/me');
  const [row] = await api.sql<{ external_id: string; name: string }>`
    select external_id, name from projects where id = ${projectId}`;
  expect(body).toMatchObject({ projects: [{ id: projectId, ...row }], projects_count: 1 });
  expect((await api.get('/api/me')).body.projects).toMatchObject(projectIds.map((id) => ({ id })));
});

test.each([
  [['operator:read'], ['operator:read']],
  [['operator:write'], ['operator:read', 'operator:write']],
  [['*'], ['operator:read', 'operator:write']],
])("an operator's key with %j grants %j, and a customer's is refused", async (scopes, granted) => {
  const { key, apiKey } = await createKey(api.db, { organizationId: null, scopes });
  const answer = await api.withKey(key).get('/api/admin/me');
  expect(answer).toMatchObject({ status: 200, body: { key_name: apiKey.name, scopes: granted } });
  expect((await api.withKey(key).get('/api/me')).status).toBe(403);
  expect((await api.get('/api/admin/me')).status).toBe(403);
});

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
