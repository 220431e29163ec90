/** An export that works again may have lost intervals: whose turn that is says why they were lost, and in each place the same. */

import { afterAll, beforeAll, expect, test } from 'vitest';
import { checkCompleteness } from '../../../src/state/store/exports/lateness.ts';
import { readExportHealth } from '../../../src/state/store/exports/export-health.ts';
import type { ApiClient } from '../../support/api-client.ts';
import { type ApiUnderTest, startApiUnderTest } from '../../support/api-under-test.ts';
import { openCouriers, senderTo } from '../../support/notified.ts';
import { type Receiver, startReceiver } from '../../support/receiver.ts';
import { exportOfThePast } from '../../support/run-side.ts';
import { storeExport } from '../../support/store-export.ts';
import { createKey } from '../../support/tenants.ts';
import type { Context } from '../../../src/service/use-cases/context.ts';
import { until } from '../../support/until.ts';

let api: ApiUnderTest;
let operator: ApiClient;
let receiver: Receiver;
let context: Context;

beforeAll(async () => {
  receiver = await startReceiver();
  api = await startApiUnderTest({ notifications: senderTo([receiver]) }, (options) => {
    context = options.context;
  });
  const { key } = await createKey(api.db, { organizationId: null });
  operator = api.client.withKey(key);
});
afterAll(async () => {
  await api?.stop();
  await receiver?.close();
});

test.each([
  ['destination.bucket_not_found', 'customer'],
  ['source.unavailable', 'source'],
  ['internal.unexpected', 'ours'],
  // Retention has deleted the run, or a person has cancelled it.
  [null, 'customer'],
])('an interval that was lost by %s is the turn of: %s', async (code, turn) => {
  await api.db.query('update batch_exports set deleted_at = now()');
  const [teamId] = api.tenant.projectIds;
  const created = await exportOfThePast({ db: api.db, teamId }, {});
  await storeExport(api.db, created);
  await api.db.query(
    `insert into runs (export_id, team_id, status, data_interval_start, data_interval_end, finished_at, error_code)
     values ($1, $2, 'Failed', '2024-03-01', '2024-03-01 01:00', now(), $3)`,
    [created.id, teamId, code],
  );
  // It works again, and what was lost is still lost.
  await api.db.query(
    'update batch_exports set failing_since = null, failing_code = null, failing_error = null where id = $1',
    [created.id],
  );
  const target = await operator.post('/api/admin/notification_targets', {
    ...{ url: receiver.url, events: ['export.incomplete'] },
  });
  await api.db.query(`update holes set noted_at = now() - interval '2 hours'`);
  expect(await checkCompleteness(api.db)).toBe(1);

  const causes = (await operator.get('/api/admin/causes')).body;
  expect(causes.results).toMatchObject([{ code: 'intervals.missing', turn, missing_intervals: 1 }]);
  expect((await operator.get(`/api/admin/causes?turn=${turn}`)).body.count).toBe(1);
  const exports = (await operator.get(`/api/admin/exports?turn=${turn}`)).body;
  expect(exports.results).toMatchObject([{ id: created.id, turn, health: 'incomplete' }]);
  const own = await api.client.get(`${api.project}/batch_exports/${created.id}`);
  expect(own.body.health).toBe('incomplete');
  expect((await readExportHealth(api.db)).missingIntervals).toEqual([{ code, count: 1 }]);

  const before = receiver.received.length;
  const couriers = openCouriers({ context });
  const courier = couriers.add(senderTo([receiver]));
  await until(async () => {
    await courier.collect();
    return receiver.received.length > before;
  });
  await couriers.closeAll();
  expect(JSON.parse(receiver.received.at(-1)?.body ?? '')).toMatchObject({
    type: 'export.incomplete',
    data: { code, turn, missing_intervals: 1, remedy: expect.stringContaining('again') },
  });
  await operator.delete(`/api/admin/notification_targets/${target.body.id}`);
});
