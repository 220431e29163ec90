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
  [['*'], ['batch_export:read', 'batch_export:write', 'plugin:read', 'plugin:write']],
])('a key with %j grants %j', async (scopes, granted) => {
  const { organizationId, projectIds } = api.tenant;
  const { key, apiKey } = await createKey(api.db, { organizationId, scopes });
  const answer = await api.client.withKey(key).get(`/api/projects/${projectIds[0]}/access`);
  expect([answer.status, answer.body]).toEqual([200, { key_name: apiKey.name, scopes: granted }]);
});
