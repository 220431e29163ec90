import { afterAll, beforeAll, expect, test } from 'vitest';
import { backfill, createS3Export, insertEvents, untilEnded } from '../support/exported-events.ts';
import { type Installation, startInstallation } from '../support/installation.ts';
import { expectInvariants } from '../support/invariants.ts';
import type { Tenant } from '../support/tenants.ts';
import { until } from '../support/until.ts';

const smallTenants = 15;
const queued = 400;
const range = { start: '2024-02-01T00:00:00Z', end: '2024-02-01T08:20:00Z' };

let installation: Installation;
const tenants: Tenant[] = [];
beforeAll(async () => {
  installation = await startInstallation({ workers: 2 });
  for (let n = 0; n < smallTenants; n += 1) tenants.push(await installation.addTenant());
  for (const { projectIds } of [installation.tenant, ...tenants]) {
    await insertEvents(installation.pool, { team: projectIds[0], rows: 20 });
  }
});
afterAll(() => installation?.close());

/** One run for each small tenant, one after the other. @returns the 95th percentile of their waits */
async function measureWaits(): Promise<number> {
  const exports: string[] = [];
  for (const tenant of tenants) {
    const own = { ...installation, tenant, client: installation.client.withKey(tenant.key) };
    const id = await createS3Export(own);
    exports.push(id);
    await backfill(own, id);
  }
  for (const id of exports) await untilEnded(installation, id);
  const { rows } = await installation.pool.query<{ ms: number }>(
    `select percentile_disc(0.95) within group (order by extract(epoch from started_at - created_at) * 1000)::float8 as ms
       from runs where export_id = any ($1)`,
    [exports],
  );
  return rows[0]?.ms ?? Number.POSITIVE_INFINITY;
}

test('one tenant with hundreds of queued runs: the small ones wait at most twice as long as alone', async () => {
  const alone = await measureWaits();
  const busy: string[] = [];
  for (let n = 0; n < 4; n += 1) {
    busy.push(await createS3Export(installation, { interval: 'every 5 minutes' }));
  }
  for (const id of busy) await backfill(installation, id, range, { concurrency: queued / 4 });
  await until(
    async () => ((await installation.pool.query('select from outbox')).rowCount ?? 0) > queued / 2,
  );
  const beside = await measureWaits();
  const { rowCount: left } = await installation.pool.query(
    `select from runs where export_id = any ($1) and status in ('Starting', 'Running')`,
    [busy],
  );
  expect(left, 'the large tenant still has runs').toBeGreaterThan(0);
  // A tick's time more: alone, a wait can be next to nothing.
  expect(beside).toBeLessThan(2 * alone + 1_000);
  for (const id of busy) {
    await untilEnded(installation, id, { count: queued / 4, timeoutMs: 100_000 });
  }
  await expectInvariants(installation);
}, 240_000);
