import { beforeAll, expect, test } from 'vitest';
import { mintApiKey } from '../../../src/foundation/security/api-keys.ts';
import { isOperatorScope, scopes } from '../../../src/foundation/security/scopes.ts';
import type { ApiClient } from '../../support/api-client.ts';
import { useApi } from '../../support/api-under-test.ts';
import { exportBody } from '../../support/batch-export-bodies.ts';
import { type ApiDocument, fillPath, type Operation, readDocument } from '../../support/openapi.ts';
import { atNight, firstByDay } from '../../support/nightly.ts';
import { createKey, createTenant, type Tenant } from '../../support/tenants.ts';

/** Open to all: probes show nothing about a tenant. */
const open = ['GET /livez', 'GET /readyz', 'GET /api/signing_keys'];
/** For each valid key: they answer only with what the key itself has. */
const anyKey = ['GET /api/me', 'GET /api/capabilities'];
let document: ApiDocument;
let foreign: Tenant;
/** Needs a key. */
let guarded: readonly Operation[];
/** Needs a key with a scope, for what the path names. */
let scoped: readonly Operation[];
/** Needs the key of an operator. */
let operators: readonly Operation[];

const api = useApi();
beforeAll(async () => {
  document = await readDocument(api.client);
  foreign = await createTenant(api.db);
  const without = (given: readonly Operation[], names: readonly string[]) =>
    given.filter(({ method, path }) => !names.includes(`${method} ${path}`));
  guarded = without(document.operations, open);
  const all = without(guarded, anyKey);
  operators = all.filter(({ scope }) => isOperatorScope(scope ?? ''));
  scoped = all.filter((operation) => !operators.includes(operation));
});

const isOfProject = ({ path }: Operation) => path.includes('{project_id}');

/** Asks with a body that would be refused if it were checked before the key. By default, the id names nothing. */
function call(client: ApiClient, operation: Operation, tenant: Tenant = api.tenant, id?: string) {
  const path = fillPath(operation.path, {
    organization_id: tenant.organizationId,
    project_id: tenant.projectIds[0],
    id: id ?? (operation.path.includes('batch_exports') ? crypto.randomUUID() : 2_000_000_000),
    batch_export_id: id ?? crypto.randomUUID(),
    run_id: crypto.randomUUID(),
  });
  return client.send(operation.method, path, operation.body ? { raw: '{' } : {});
}

async function expectAll(
  status: number,
  code: string,
  clientOf: (operation: Operation) => Promise<ApiClient> | ApiClient,
  tenant?: Tenant,
  operations = status === 401 ? guarded : scoped,
): Promise<void> {
  expect(operations.length).toBeGreaterThan(0);
  const check = async (operation: Operation) => {
    const answer = await call(await clientOf(operation), operation, tenant);
    const row = `${operation.method} ${operation.path}`;
    expect([row, answer.status, answer.body.code]).toEqual([row, status, code]);
    expect(answer.body.type).toBe('authentication_error');
    if (status === 401) expect(answer.headers.get('www-authenticate')).toBe('Bearer');
  };
  await Promise.all(operations.map(check));
}

test('every operation but the probes needs a key of a scope', () => {
  const known: readonly string[] = scopes;
  expect(scoped.filter(({ scope }) => !known.includes(scope ?? ''))).toEqual([]);
  expect(operators.every(({ path }) => path.startsWith('/api/admin/'))).toBe(true);
  expect(operators.length).toBeGreaterThan(15);
  expect(guarded.length).toBe(scoped.length + operators.length + anyKey.length);
  expect(guarded.length).toBeGreaterThan(40);
});

const badKeys = [null, mintApiKey(), 'nonsense', 'slc_tooshort', `${mintApiKey().slice(0, -1)}!`];
test.each(firstByDay(2, badKeys))('no key, a malformed or an unknown one: 401 (%s)', (key) => {
  const code = key === null ? 'not_authenticated' : 'authentication_failed';
  return expectAll(401, code, () => api.withKey(key));
});

test('a revoked key, and one that has expired: 401', async () => {
  const { key, apiKey } = await createKey(api.db, { organizationId: api.tenant.organizationId });
  await api.sql`update api_keys set revoked_at = now() where id = ${apiKey.id}`;
  await expectAll(401, 'authentication_failed', () => api.withKey(key));
  const client = await api.withNewKey({ expiresAt: '2024-03-01T00:00:00.000000Z' });
  await expectAll(401, 'authentication_failed', () => client);
});

test('a key without the scope: 403', async () => {
  const clients = new Map<string, ApiClient>();
  for (const scope of scopes) {
    // Everything that does not imply the scope.
    const [resource, verb] = scope.split(':');
    const others = scopes.filter((other) => {
      const [otherResource] = other.split(':');
      return otherResource !== resource || (verb === 'write' && other.endsWith(':read'));
    });
    clients.set(scope, await api.withNewKey({ scopes: others }));
  }
  // It shows rows to one scope, and what a plugin makes of given rows to another.
  const previewer = await api.withNewKey({
    scopes: scopes.filter(
      (scope) => !/^(batch_export:read|batch_export:write|plugin:write)$/.test(scope),
    ),
  });
  await expectAll(403, 'permission_denied', ({ scope, path }) => {
    const client = path.endsWith('/batch_exports/preview') ? previewer : clients.get(scope ?? '');
    if (!client) throw new Error(`no key without ${scope}`);
    return client;
  });
});

test("an organization's key of any scope on an operator's path, and one that lacks the scope: 403", async () => {
  const forged = await api.withNewKey({ scopes: ['*', 'operator:read', 'operator:write'] });
  const reader = await api.asOperator(['operator:read']);
  const tenant = api.tenant;
  for (const client of [api.client, forged]) {
    await expectAll(403, 'permission_denied', () => client, tenant, operators);
  }
  const writing = operators.filter(({ scope }) => scope === 'operator:write');
  await expectAll(403, 'permission_denied', () => reader, tenant, writing);
});

test("an operator's key on the path of a customer: 403, but for what it may look at", async () => {
  const operator = await api.asOperator();
  const looks = scoped.filter(({ otherScope }) => otherScope === 'operator:read');
  expect(
    looks.every(({ method, path }) => method === 'GET' && path.includes('/batch_exports/')),
  ).toBe(true);
  const others = scoped.filter((operation) => !looks.includes(operation));
  await expectAll(403, 'permission_denied', () => operator, api.tenant, others);
  for (const operation of looks) expect((await call(operator, operation)).status).toBe(404);
  expect((await operator.get(api.exports)).body.detail).toContain('belongs to no organization');
});

const nowhere = '00000000-0000-4000-8000-000000000000';

test.each<[string, () => ApiClient, () => Tenant]>([
  ['of another organization', () => api.withKey(foreign.key), () => api.tenant],
  ["on another organization's path", () => api.client, () => foreign],
  [
    'on the path of what does not exist',
    () => api.client,
    () => ({ ...api.tenant, organizationId: nowhere, projectIds: [2_000_000_000, 1] }),
  ],
  [
    'on the path of what cannot exist',
    () => api.client,
    () => ({ ...api.tenant, organizationId: 'nonsense', projectIds: [-1, 1] }),
  ],
])('a key %s: 403, whether what it names exists or not', (_, client, tenant) =>
  expectAll(403, 'permission_denied', client, tenant()),
);

test('a key narrowed to another project: 403 there and on organization paths', async () => {
  const { projectIds } = api.tenant;
  const client = await api.withNewKey({ projectIds: [projectIds[1]] });
  await expectAll(403, 'permission_denied', () => client);
});

atNight('a key narrowed to the project is as good as any there', async () => {
  const { projectIds } = api.tenant;
  const client = await api.withNewKey({ projectIds: [projectIds[0]] });
  for (const operation of scoped.filter(isOfProject)) {
    expect([401, 403], operation.id).not.toContain((await call(client, operation)).status);
  }
});

test('an object that is not there, was deleted or is of others: 404, before the body is looked at', async () => {
  const deleted = await api.create();
  await api.delete(`${api.exports}/${deleted.id}`);
  const theirs = `/api/projects/${foreign.projectIds[0]}/batch_exports`;
  const { body: other } = await api.withKey(foreign.key).post(theirs, exportBody());
  const ofSibling = api.exports.replace(`${api.teamId}`, `${api.tenant.projectIds[1]}`);
  const sibling = await api.make(ofSibling, exportBody());
  const named = scoped.filter(({ path }) => /\{(id|batch_export_id)\}/.test(path));
  expect(named.length).toBeGreaterThan(30);
  const unreal = firstByDay(1, ['nonsense', '%00', '1.5', '99999999999', '-1', 'x'.repeat(300)]);
  const check = async (operation: Operation) => {
    const row = `${operation.method} ${operation.path}`;
    const isExport = operation.path.includes('batch_exports');
    const ids = isExport
      ? [deleted.id, other.id, isOfProject(operation) ? sibling.id : nowhere]
      : [];
    for (const id of [undefined, ...ids, ...unreal]) {
      const { status, body } = await call(api, operation, api.tenant, id);
      expect([row, id, status, body.code]).toEqual([row, id, 404, 'not_found']);
      expect(body).toMatchObject({ type: 'invalid_request', attr: null });
    }
  };
  await Promise.all(named.map(check));
  for (const own of [api.project, `/api/organizations/${api.tenant.organizationId}`]) {
    const { results } = (await api.get(`${own}/batch_exports?limit=1000`)).body;
    expect(results.map(({ id }: { id: string }) => id)).not.toContain(other.id);
  }
});

test('@current is the organization, and the project if the key has one', async () => {
  const { projectIds } = api.tenant;
  const narrowed = await api.withNewKey({ projectIds: [projectIds[1]] });
  const made = await narrowed.post('/api/projects/@current/batch_exports', exportBody());
  expect(made.body.team_id).toBe(projectIds[1]);
  expect((await narrowed.get('/api/organizations/@current/batch_exports')).status).toBe(403);
  expect((await api.get('/api/organizations/@current/batch_exports')).status).toBe(200);
  // The organization has two projects: none is the current one.
  const both = await api.withNewKey({ projectIds });
  for (const client of [api.client, both]) {
    const { status, body } = await client.get('/api/projects/@current/batch_exports');
    expect([status, body.code]).toEqual([403, 'permission_denied']);
    expect(body.detail).toContain(
      `access to 2 projects. Use the id of one in the path: ${projectIds[0]} (Website), ${projectIds[1]} (App).`,
    );
  }
});

test('last_used_at is recorded, at most once a minute', async () => {
  const { key, apiKey } = await createKey(api.db, { organizationId: api.tenant.organizationId });
  const client = api.withKey(key);
  const lastUsed = () => api.sql.value`select last_used_at from api_keys where id = ${apiKey.id}`;
  expect(await lastUsed()).toBeNull();
  await client.get(api.exports);
  const first = await lastUsed();
  expect(first).not.toBeNull();
  await client.get(api.exports);
  expect(await lastUsed()).toBe(first);
});

test('keys are not stored in readable form', async () => {
  const readable = api.sql`
    select from api_keys k where k::text like '%' || ${api.tenant.key} || '%'`;
  expect(await readable).toEqual([]);
});
