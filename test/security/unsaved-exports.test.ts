import { createServer, type IncomingMessage } from 'node:http';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ensureEventsTable } from '../../src/rows/sources/index.ts';
import { useApi } from '../support/api-under-test.ts';
import { exportBody, s3 } from '../support/batch-export-bodies.ts';
import { listen, stopServer } from '../support/free-port.ts';
import { createKey, createTenant } from '../support/tenants.ts';
import { until } from '../support/until.ts';

/** Tests and previews of what is not saved: what a tenant could use them for. */

const keyId = 'AKIAIOSFODNN7EXAMPLE';
/** An address that is allowed here, and notes who calls it. */
let store: string;
let other: string;
const calls: { readonly host: string; readonly key: string | undefined }[] = [];
/** While it is set, calls are not answered. */
let held: IncomingMessage[] | null = null;
const closers: (() => Promise<void>)[] = [];

async function openStore(): Promise<string> {
  const server = createServer((request, response) => {
    const [, key] = /Credential=([^/]+)/.exec(request.headers.authorization ?? '') ?? [];
    calls.push({ host: String(request.headers.host), key });
    if (held) held.push(request);
    else response.writeHead(403).end();
  });
  closers.push(() => stopServer(server));
  return `http://127.0.0.1:${await listen(server)}`;
}

const api = useApi();
beforeAll(async () => {
  await ensureEventsTable(api.databaseUrl);
  [store, other] = await Promise.all([openStore(), openStore()]);
});
afterAll(() => Promise.all(closers.map((close) => close())));

const create = () => api.createPath({ destination: s3({ endpoint_url: store }) });

const testChanged = (path: string, config: object) =>
  api.client.post(`${path}/test`, { destination: { config } });

describe('a stored secret', () => {
  const places: readonly (readonly [string, unknown])[] = [
    ['endpoint_url', () => other],
    ['endpoint_url', null],
    ['bucket_name', 'other-events'],
    ['region', 'eu-west-1'],
    ['role_arn', 'arn:aws:iam::123456789012:role/other'],
    ['use_virtual_style_addressing', true],
    ['encryption', 'AES256'],
  ];

  test.each(places)('is not used with another %s (%j)', async (name, given) => {
    const path = await create();
    const value = typeof given === 'function' ? given() : given;
    calls.length = 0;
    for (const sent of [{}, { aws_access_key_id: keyId }, { aws_secret_access_key: 'guess' }]) {
      const { status, body } = await testChanged(path, { [name]: value, ...sent });
      const missing = ['aws_access_key_id', 'aws_secret_access_key'].filter(
        (secret) => !(secret in sent),
      );
      expect([status, body.errors.map(({ attr, code }) => [attr, code])]).toEqual([
        400,
        missing.map((secret) => [`destination__config__${secret}`, 'required']),
      ]);
      expect(body.detail).toContain('again: Sluice uses the stored value only with the settings');
    }
    expect(calls).toEqual([]);
  });

  test('is not used if the change comes by another way', async () => {
    const path = await create();
    calls.length = 0;
    const raw = `{"destination": {"config": {"__proto__": {"endpoint_url": "${other}"}}}}`;
    await api.client.send('POST', `${path}/test`, { raw });
    const body = { endpoint_url: other, config: { endpoint_url: other } };
    await api.client.post(`${path}/test`, body);
    await api.client.post(`${path}/test`, { destination: { config: {}, ...body.config } });
    expect(new Set(calls.map(({ host }) => `http://${host}`))).not.toContain(other);
  });

  test('is used with other file settings, at its own place', async () => {
    const path = await create();
    calls.length = 0;
    const { status, body } = await testChanged(path, { prefix: 'other', compression: 'gzip' });
    expect([status, body.passed]).toEqual([200, false]);
    expect(new Set(calls.map(({ host, key }) => `http://${host} ${key}`))).toEqual(
      new Set([`${store} ${keyId}`]),
    );
  });

  test('stays behind if all secrets are sent for the other place, or removed', async () => {
    const path = await create();
    calls.length = 0;
    const sent = { aws_access_key_id: 'OTHERKEY', aws_secret_access_key: 'other' };
    expect((await testChanged(path, { endpoint_url: other, ...sent })).status).toBe(200);
    expect(new Set(calls.map(({ key }) => key))).toEqual(new Set(['OTHERKEY']));
    const none = { aws_access_key_id: null, aws_secret_access_key: null };
    const without = await testChanged(path, { endpoint_url: other, ...none });
    expect([without.status, without.body.detail]).toEqual([
      400,
      expect.stringContaining('does not share its own credentials'),
    ]);
  });

  test('is in no answer, and nothing of a trial is stored', async () => {
    const path = await create();
    const sent = { aws_access_key_id: 'OTHERKEY', aws_secret_access_key: 'canary-of-a-trial' };
    const before = await api.client.get(path);
    const { text } = await testChanged(path, { endpoint_url: other, ...sent });
    expect(text).not.toContain('canary');
    expect((await api.client.get(path)).body).toEqual(before.body);
    expect((await api.client.get(`${path}/activity`)).body.count).toBe(1);
  });
});

test('a key that may only read gets none of them, and makes no connection', async () => {
  const path = await create();
  const { organizationId } = api.tenant;
  const { key } = await createKey(api.db, { organizationId, scopes: ['batch_export:read'] });
  const client = api.client.withKey(key);
  calls.length = 0;
  const body = exportBody({ destination: s3({ endpoint_url: store }) });
  for (const one of [`${api.exports}/test`, `${api.exports}/preview`, `${path}/test`]) {
    const answer = await client.post(one, body);
    expect([one, answer.status, answer.body.code]).toEqual([one, 403, 'permission_denied']);
  }
  expect(calls).toEqual([]);
  expect((await client.get(`${path}/preview`)).status).toBe(200);
});

test('tests of saved and unsaved exports share two slots, and four of them may wait', async () => {
  const path = await create();
  const body = exportBody({ destination: s3({ endpoint_url: store }) });
  held = [];
  const many: Promise<{ status: number }>[] = [];
  const early: number[] = [];
  try {
    for (let n = 0; n < 4; n += 1) {
      many.push(api.client.post(`${path}/test`), api.client.post(`${api.exports}/test`, body));
    }
    for (const answer of many) void answer.then(({ status }) => early.push(status));
    await until(async () => early.length === 2 && held?.length === 2);
    expect(early).toEqual([429, 429]);
  } finally {
    const open = held ?? [];
    held = null;
    for (const request of open) request.destroy();
  }
  const statuses = (await Promise.all(many)).map(({ status }) => status);
  expect(statuses.filter((status) => status === 200)).toHaveLength(6);
});

test('previews of saved and unsaved exports share the slots of previews', async () => {
  const path = await create();
  const many: Promise<{ status: number }>[] = [];
  const early: number[] = [];
  await api.db.transaction(async (tx) => {
    await tx.query('lock table events in access exclusive mode');
    for (let n = 0; n < 3; n += 1) {
      many.push(
        api.client.get(`${path}/preview`),
        api.client.post(`${api.exports}/preview`, { id: path.split('/').at(-1) }),
        api.client.post(`${api.exports}/preview`, {}),
      );
    }
    for (const answer of many) void answer.then(({ status }) => early.push(status));
    await until(async () => early.length === 3);
  });
  expect(early.slice(0, 3)).toEqual([429, 429, 429]);
  const statuses = (await Promise.all(many)).map(({ status }) => status);
  expect(statuses.filter((status) => status === 200)).toHaveLength(6);
});

test('a preview reads the rows of its own project, by any path and query', async () => {
  const foreign = await createTenant(api.db);
  const [own, second] = api.tenant.projectIds;
  await api.sql`insert into events (uuid, team_id, event, distinct_id, inserted_at) select
    gen_random_uuid(), t, 'of ' || t, 'x', now() - interval '1 minute'
    from unnest(${[own, second, foreign.projectIds[0]]}::int[]) t`;
  const dsl_query = "select event from events where team_id > 0 or event <> ''";
  const organization = `/api/organizations/${api.tenant.organizationId}/batch_exports`;
  const ask = async (path: string, body: object) => (await api.client.post(path, body)).body;
  const known = { dsl_query: dsl_query.replace('team_id > 0 or ', '') };
  expect((await ask(`${api.exports}/preview`, known)).rows).toEqual([[`of ${own}`]]);
  expect((await ask(`${organization}/preview`, { ...known, team_id: second })).rows).toEqual([
    [`of ${second}`],
  ]);
  expect(await ask(`${api.exports}/preview`, { dsl_query })).toMatchObject({ attr: 'dsl_query' });
  const [theirs] = foreign.projectIds;
  expect(await ask(`${organization}/preview`, { ...known, team_id: theirs })).toMatchObject({
    code: 'does_not_exist',
    attr: 'team_id',
  });
  const { body: hidden } = await api
    .withKey(foreign.key)
    .post(`/api/projects/${theirs}/batch_exports`, exportBody());
  const beside = await api.make(`/api/projects/${second}/batch_exports`, exportBody());
  for (const [path, { id }] of [
    [api.exports, hidden],
    [api.exports, beside],
    [organization, hidden],
  ] as const) {
    const refused = { code: 'does_not_exist', attr: 'id' };
    expect(await ask(`${path}/preview`, { id })).toMatchObject(refused);
  }
  const reached = await ask(`${organization}/preview`, { ...known, id: beside.id });
  expect(reached.rows).toEqual([[`of ${second}`]]);
});
