/** No filter of an operator's lists selects everything because a script's variable is empty. */

import { afterAll, beforeAll, expect, test } from 'vitest';
import { type ApiUnderTest, startApiUnderTest } from '../../support/api-under-test.ts';
import { createKey } from '../../support/tenants.ts';

let api: ApiUnderTest;

beforeAll(async () => {
  api = await startApiUnderTest();
});
afterAll(() => api?.stop());

interface Operation {
  readonly parameters?: readonly { readonly in: string; readonly name: string }[];
}

test('an empty filter of the admin API is refused by its name', async () => {
  const { key } = await createKey(api.db, { organizationId: null });
  const operator = api.client.withKey(key);
  const document = await operator.get('/api/openapi.json');
  const paths = Object.entries(document.body.paths as Record<string, { get?: Operation }>);
  const filters = paths
    .filter(([path]) => path.startsWith('/api/admin'))
    .flatMap(([path, { get }]) =>
      (get?.parameters ?? [])
        .filter((parameter) => parameter.in === 'query')
        .map(({ name }) => ({ path: path.replace(/\{\w+\}/g, api.tenant.organizationId), name })),
    );
  expect(filters.map(({ name }) => name)).toEqual(
    expect.arrayContaining(['search', 'turn', 'health', 'cause_id', 'result']),
  );
  const target = await operator.post('/api/admin/notification_targets', {
    url: 'https://example.com/hook',
  });
  for (const { path, name } of filters) {
    const at = path.replace(
      `notification_targets/${api.tenant.organizationId}`,
      `notification_targets/${target.body.id}`,
    );
    for (const empty of ['', '%20']) {
      const { status, body } = await operator.get(`${at}?${name}=${empty}`);
      expect({ at, status, attr: body.attr }).toEqual({ at, status: 400, attr: name });
    }
  }
});
