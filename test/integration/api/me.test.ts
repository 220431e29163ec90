import { afterAll, beforeAll, expect, test } from 'vitest';
import { type ApiUnderTest, startApiUnderTest } from '../../support/api-under-test.ts';
import { createKey } from '../../support/tenants.ts';

let api: ApiUnderTest;
beforeAll(async () => {
  api = await startApiUnderTest();
});
afterAll(() => api.stop());

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
  const answer = await api.client.withKey(key).get('/api/me');
  expect(answer).toMatchObject({
    status: 200,
    body: { key_name: apiKey.name, scopes: granted, organization: { id: organizationId } },
  });
});

test('a key of one project sees this project only, with the external ID that roles must require', async () => {
  const { organizationId, projectIds } = api.tenant;
  const [projectId] = projectIds;
  const { key } = await createKey(api.db, { organizationId, projectIds: [projectId] });
  const { body } = await api.client.withKey(key).get('/api/me');
  const [row] = await api.db.query<{ external_id: string; name: string }>(
    'select external_id, name from projects where id = $1',
    [projectId],
  );
  expect(body).toMatchObject({ projects: [{ id: projectId, ...row }], projects_count: 1 });
  const all = await api.client.get('/api/me');
  expect(all.body.projects).toMatchObject(projectIds.map((id) => ({ id })));
});

test('a request without a key, or with an unknown one, is refused', async () => {
  const answers = [
    await api.client.withKey('').get('/api/me'),
    await api.client.withKey(`slc_${'a'.repeat(43)}`).get('/api/me'),
  ];
  expect(answers.map(({ status }) => status)).toEqual([401, 401]);
});

test.each([
  [['operator:read'], ['operator:read']],
  [['operator:write'], ['operator:read', 'operator:write']],
  [['*'], ['operator:read', 'operator:write']],
])("an operator's key with %j grants %j, and a customer's is refused", async (scopes, granted) => {
  const { key, apiKey } = await createKey(api.db, { organizationId: null, scopes });
  const answer = await api.client.withKey(key).get('/api/admin/me');
  expect(answer).toMatchObject({
    status: 200,
    body: { key_name: apiKey.name, scopes: granted },
  });
  expect((await api.client.withKey(key).get('/api/me')).status).toBe(403);
  expect((await api.client.get('/api/admin/me')).status).toBe(403);
});
