import { afterAll, beforeAll, expect, test } from 'vitest';
import { insertRuns } from '../../src/state/store/runs/runs.ts';
import {
  backfill,
  createS3Export,
  hour,
  insertEvents,
  projectPath,
  untilEnded,
} from '../support/exported-events.ts';
import { type Installation, startInstallation } from '../support/installation.ts';
import { expectInvariants } from '../support/invariants.ts';
import { openTestPool } from '../support/run-side.ts';
import type { Tenant } from '../support/tenants.ts';

const smallTenants = 50;
const queued = 5_000;
const perExport = 100;
const fiveMinutes = 5 * 60_000;

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

test('one tenant with 5,000 queued runs, 50 tenants with one: 95 of 100 small ones wait at most twice as long as alone, and a second', async () => {
  const alone = await measureWaits();
  const [teamId] = installation.tenant.projectIds;
  const busy: string[] = [];
  for (let n = 0; n < queued / perExport; n += 1) {
    busy.push(await createS3Export(installation, { interval: 'every 5 minutes' }));
  }
  // As ticks would: a backfill lets no more than a few hundred of its runs wait at a time.
  const db = openTestPool(installation.databaseUrl);
  for (const exportId of busy) {
    const runs = Array.from({ length: perExport }, (_, n) => {
      const start = Date.parse(hour.start) - (n + 1) * fiveMinutes;
      return { exportId, teamId, interval: { start, end: start + fiveMinutes }, backfillId: null };
    });
    await db.transaction((tx) => insertRuns(tx, runs));
  }
  await db.close();
  const beside = await measureWaits();
  const { rowCount: left } = await installation.pool.query(
    `select from runs where export_id = any ($1) and status in ('Starting', 'Running')`,
    [busy],
  );
  expect(left, 'the large tenant still has most of its runs').toBeGreaterThan(queued / 2);
  // A tick's time more: alone, a wait can be next to nothing.
  expect(beside).toBeLessThan(2 * alone + 1_000);
  for (const id of busy) {
    const path = `${projectPath(installation)}/batch_exports/${id}/`;
    expect((await installation.client.delete(path)).status).toBe(204);
  }
  for (const id of busy) await untilEnded(installation, id);
  await expectInvariants(installation);
}, 600_000);
