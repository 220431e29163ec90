import { connect } from 'node:net';
import { describe, expect, test } from 'vitest';
import { startApiBeside, startApiUnderTest, useApi } from '../../support/api-under-test.ts';
import { exportBody } from '../../support/batch-export-bodies.ts';
import { until } from '../../support/until.ts';
import { createKey } from '../../support/tenants.ts';
import { inTest } from '../../support/use-stage.ts';

const api = useApi();

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

test.each([
  ['without TRUST_PROXY, links carry our address', 0],
  ['behind a trusted proxy, links carry the address that the client used', 1],
])('%s', async (_what, trustProxy) => {
  const api = await inTest(startApiUnderTest({ trustProxy }));
  await api.post(api.exports, exportBody());
  await api.post(api.exports, exportBody());
  const headers = { 'x-forwarded-host': 'sluice.example', 'x-forwarded-proto': 'https' };
  const { body } = await api.get(`${api.exports}?limit=1`, { headers });
  const origin = trustProxy === 1 ? 'https://sluice.example' : api.baseUrl;
  expect(body.next).toBe(`${origin}${api.exports}?limit=1&offset=1`);
});

describe('the end of the server', () => {
  test.each([
    ['sends nothing', ''],
    ['sends half a head', 'GET /api/me HTTP/1.1\r\nHost: '],
    ['sends half a body', 'POST /api/me HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n{'],
    ['was answered before', 'GET /livez HTTP/1.1\r\nHost: a\r\n\r\n'],
  ])(
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
