import { beforeAll, expect, test } from 'vitest';
import { countStoredBytes } from '../../src/state/store/tenants/budgets.ts';
import { PluginLines } from '../../src/service/worker/run-log.ts';
import type { ApiAnswer, ApiClient } from '../support/api-client.ts';
import { startApiBeside, startApiUnderTest } from '../support/api-under-test.ts';
import { exportBody, s3 } from '../support/batch-export-bodies.ts';
import { createKey, createTenant } from '../support/tenants.ts';
import { inTest, useStage } from '../support/use-stage.ts';

let client: ApiClient;

const api = useStage(startApiUnderTest);
beforeAll(async () => {
  client = api.client;
});

/** A new tenant's client and the path of its exports. */
async function newTenant() {
  const tenant = await createTenant(api.db);
  const path = `/api/projects/${tenant.projectIds[0]}`;
  const organization = `/api/organizations/${tenant.organizationId}`;
  const { key, organizationId } = tenant;
  const teamId = tenant.projectIds[0];
  return { client: client.withKey(key), key, organizationId, path, organization, teamId };
}

const names = (count: number, length = 1) =>
  Array.from({ length: count }, (_, index) => String(index).padStart(length, 'e'));

const mebibyte = 2 ** 20;
const large = () => exportBody({ destination: s3({ include_events: names(100, 200) }) });

test('is bounded, whether it deletes it or not, over all API processes, and others are not affected', async () => {
  const beside = () => startApiBeside(api, () => ({ storedBytesPerDay: 2 * mebibyte }));
  const two = [await beside(), await beside()];
  try {
    const tenant = await newTenant();
    const { key } = await createKey(api.db, { organizationId: tenant.organizationId });
    const clients = two.map((each) => each.client.withKey(key));
    const path = `${tenant.path}/batch_exports`;
    let stored = 0;
    const churn = async (own: ApiClient) => {
      const made = await own.post(path, large());
      if (made.status !== 201) return made;
      stored += 1;
      await own.delete(`${path}/${made.body.id}`);
      return null;
    };
    let last: ApiAnswer | null = null;
    for (let n = 0; n < 120 && last === null; n += 1) last = await churn(pick(clients, n));
    for (let n = 0; n < 8; n += 1) await churn(pick(clients, n));
    const [activity] = await api.sql<{ bytes: number }>`select
        sum(octet_length(changes::text))::int as bytes from activity
        where organization_id = ${tenant.organizationId}`;
    // Each process notices with its next change that the one before stored more than was expected of it.
    const change = JSON.stringify(large()).length + 2_048;
    const used = stored * change + (activity?.bytes ?? 0);
    expect(used).toBeLessThanOrEqual(2 * mebibyte + 2 * change);
    expect(used).toBeGreaterThan(1.5 * mebibyte);
    expect(last).toMatchObject({ status: 429, body: { code: 'throttled', attr: null } });
    expect(last?.body.detail).toContain('MAX_STORED_MIB_PER_DAY');
    expect(Number(last?.headers.get('retry-after'))).toBeGreaterThan(80_000);
    // It may still read, try and ask.
    expect((await pick(clients, 0).get(path)).status).toBe(200);
    const other = await newTenant();
    const others = pick(two, 0).client.withKey(other.key);
    expect((await others.post(`${other.path}/batch_exports`, large())).status).toBe(201);
    await api.sql`update used_budgets set began_at = began_at - interval '25 hours'
        where owner = ${tenant.organizationId}`;
    const third = await beside();
    two.push(third);
    expect(await churn(third.client.withKey(key))).toBeNull();
  } finally {
    for (const each of two) await each.stop();
  }
});

test('includes the answers that an Idempotency-Key keeps', async () => {
  const beside = await inTest(startApiBeside(api, () => ({ storedBytesPerDay: 2 * mebibyte })));
  const tenant = await newTenant();
  const own = beside.client.withKey(tenant.key);
  const path = `${tenant.path}/batch_exports`;
  const { body } = await own.post(path, large());
  const statuses: number[] = [];
  for (let n = 0; n < 140; n += 1) {
    const headers = { 'idempotency-key': `key-${n}` };
    statuses.push((await own.post(`${path}/${body.id}/pause`, {}, { headers })).status);
  }
  const [kept] = await api.sql<{ bytes: number }>`select sum(octet_length(response))::int
        as bytes from idempotency_keys where key_id in (select id from api_keys
        where organization_id = ${tenant.organizationId})`;
  expect(kept?.bytes).toBeLessThanOrEqual(2 * mebibyte);
  expect(kept?.bytes).toBeGreaterThan(mebibyte);
  expect(statuses.at(-1)).toBe(429);
});

test('includes the lines that own plugins write', async () => {
  const { teamId } = await newTenant();
  const log: string[] = [];
  const count = (bytes: number) => countStoredBytes(api.db, teamId ?? 0, bytes, 10_000);
  const lines = new PluginLines({ add: (_level, message) => log.push(message) }, count);
  for (let n = 0; n < 100; n += 1) lines.add('INFO', `${n} ${'x'.repeat(900)}`);
  await lines.end();
  expect(log.length).toBeLessThan(12);
  expect(log.at(-1)).toContain('MAX_STORED_MIB_PER_DAY');
});

test('does not count what was refused', async () => {
  const beside = await inTest(startApiBeside(api, () => ({ storedBytesPerDay: mebibyte / 4 })));
  const tenant = await newTenant();
  const own = beside.client.withKey(tenant.key);
  const path = `${tenant.path}/batch_exports`;
  // A rule refuses it, after the limit was asked; the schemas refuse before that.
  const wrong = { ...large(), dsl_query: 'DELETE FROM events' };
  for (let n = 0; n < 20; n += 1) expect((await own.post(path, wrong)).status).toBe(400);
  expect((await own.post(path, large())).status).toBe(201);
});

function pick<T>(all: readonly T[], turn: number): T {
  const found = all[turn % all.length];
  if (found === undefined) throw new Error('nothing to pick');
  return found;
}
