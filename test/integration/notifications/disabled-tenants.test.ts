import { afterAll, beforeAll, expect, test } from 'vitest';
import { disabledCodes } from '../../../src/foundation/domain/batch-export.ts';
import { createApiClient } from '../../support/api-client.ts';
import { type ApiUnderTest, startApiUnderTest } from '../../support/api-under-test.ts';
import { exportOfThePast } from '../../support/run-side.ts';
import { storeExport } from '../../support/store-export.ts';
import { createKey } from '../../support/tenants.ts';

let api: ApiUnderTest;
beforeAll(async () => {
  api = await startApiUnderTest();
});
afterAll(() => api?.stop());

test('an operator who disables a tenant alerts no target, and a pause by Sluice does', async () => {
  const { key } = await createKey(api.db, { organizationId: null });
  const operator = createApiClient(api.baseUrl, key);
  const target = { url: 'https://example.com/hooks' };
  expect((await operator.post('/api/admin/notification_targets', target)).status).toBe(201);
  expect((await api.client.post(`${api.project}/notification_targets`, target)).status).toBe(201);
  const side = { db: api.db, teamId: api.tenant.projectIds[0] };
  await storeExport(api.db, await exportOfThePast(side));
  const events = () =>
    api.db.query('select distinct on (event_id) type, facts from notification_deliveries');
  for (const at of [
    `organizations/${api.tenant.organizationId}`,
    `projects/${api.tenant.projectIds[0]}`,
  ]) {
    await operator.patch(`/api/admin/${at}`, { disabled: true });
    const [stored] = await api.db.query<{ reason: string }>(
      'select paused_code as reason from batch_exports',
    );
    // The trigger names these reasons.
    expect(disabledCodes).toContain(stored?.reason);
    expect(await events()).toEqual([]);
    await operator.patch(`/api/admin/${at}`, { disabled: false });
  }
  await api.db.query(`update batch_exports set paused = true, paused_reason = 'failures'`);
  expect(await events()).toMatchObject([{ type: 'export.paused', facts: { reason: 'failures' } }]);
});
