import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ensureEventsTable } from '../../src/rows/sources/index.ts';
import { transforms } from '../../src/rows/transforms/index.ts';
import { createApiClient } from '../support/api-client.ts';
import { type ApiUnderTest, startApiUnderTest } from '../support/api-under-test.ts';
import { exportBody } from '../support/batch-export-bodies.ts';
import { countLoopTurns } from '../support/loop-turns.ts';
import { createTenant } from '../support/tenants.ts';
import { chainFor, rowOf, stepOfPlugin } from '../support/transforms/rows.ts';
import { until } from '../support/until.ts';

/** A tenant's chain runs in the process that answers all tenants: its work for one request is bounded. */

let api: ApiUnderTest;
const labOf = (projectId: number) =>
  `/api/projects/${projectId}/pipeline_transformation_configs/lab`;

beforeAll(async () => {
  api = await startApiUnderTest();
  await ensureEventsTable(api.databaseUrl);
});
afterAll(() => api?.stop());

const dropEmail = { plugin: 1, config: { properties: 'email' } };
const steps = (count: number) => Array.from({ length: count }, () => dropEmail);
const rowOfBytes = (bytes: number) => ({ event: 'a', properties: { text: 'x'.repeat(bytes) } });
const rows = (count: number, bytes: number) =>
  Array.from({ length: count }, () => rowOfBytes(bytes));

describe('the lab', () => {
  test.each([
    ['a row of 900 KiB in 50 steps', { configs: steps(50), rows: rows(1, 900_000) }, 'rows__0'],
    [
      'a second row that is too large',
      { configs: steps(3), rows: [rowOfBytes(1), rowOfBytes(90_000)] },
      'rows__1',
    ],
    ['100 rows of 700 bytes in 50 steps', { configs: steps(50), rows: rows(100, 700) }, 'rows'],
    ['a large row without steps', { configs: [], rows: rows(1, 300_000) }, 'rows__0'],
  ])('refuses %s, and says what to change', async (_what, body, attr) => {
    const { status, body: refused } = await api.client.post(labOf(api.tenant.projectIds[0]), body);
    expect(status).toBe(400);
    expect(refused).toMatchObject({ code: 'max_length', attr });
    expect(refused.detail).toContain('steps: ');
    expect(refused.detail).toMatch(/Try .*fewer steps\.$/);
  });

  test('refuses a sample of rows that are too large', async () => {
    const projectId = api.tenant.projectIds[1];
    await insertEvent(projectId, `{"text": "${'x'.repeat(200_000)}"}`);
    const body = { configs: steps(2), sample: 1 };
    const { status, body: refused } = await api.client.post(labOf(projectId), body);
    expect(status).toBe(400);
    expect(refused).toMatchObject({ code: 'max_length', attr: 'sample' });
  });

  test('leaves the process to others between the rows', async () => {
    const body = { configs: steps(50), rows: rows(80, 400) };
    const before = countLoopTurns();
    expect((await api.client.post(labOf(api.tenant.projectIds[0]), body)).status).toBe(200);
    before.stop();
    const oneRow = { configs: steps(50), rows: rows(1, 400) };
    const alone = countLoopTurns();
    expect((await api.client.post(labOf(api.tenant.projectIds[0]), oneRow)).status).toBe(200);
    alone.stop();
    expect(before.turns()).toBeGreaterThan(3 * alone.turns());
  });

  test('tries one chain at a time for an organization, however many projects it has', async () => {
    const { projectIds } = api.tenant;
    const other = await createTenant(api.db);
    const many: Promise<number>[] = [];
    await api.db.transaction(async (tx) => {
      // No sample comes to its end.
      await tx.query('lock table events in access exclusive mode');
      const early: number[] = [];
      for (let n = 0; n < 12; n += 1) {
        const asked = api.client.post(labOf(projectIds[n % 2] ?? 0), { configs: [], sample: 1 });
        const status = asked.then((answer) => answer.status);
        many.push(status);
        void status.then((found) => early.push(found));
      }
      await until(() => early.length === 7);
      expect(early).toEqual(Array(7).fill(429));
      const free = { configs: [dropEmail], rows: rows(1, 10) };
      const fromOther = createApiClient(api.baseUrl, other.key);
      expect((await fromOther.post(labOf(other.projectIds[0]), free)).status).toBe(200);
    });
    const statuses = await Promise.all(many);
    expect(statuses.filter((status) => status !== 429)).toHaveLength(5);
  });
});

test('a preview refuses a row that is too large for the steps of its chain', async () => {
  const tenant = await createTenant(api.db);
  const client = createApiClient(api.baseUrl, tenant.key);
  const [projectId] = tenant.projectIds;
  const project = `/api/projects/${projectId}`;
  for (let order = 1; order <= 12; order += 1) {
    const config = { ...dropEmail, order, enabled: true };
    expect((await client.post(`${project}/pipeline_transformation_configs`, config)).status).toBe(
      201,
    );
  }
  await insertEvent(projectId, `{"text": "${'x'.repeat(100_000)}"}`);
  const made = await client.post(`${project}/batch_exports`, exportBody({ transformations: true }));
  const { status, body } = await client.get(`${project}/batch_exports/${made.body.id}/preview`);
  expect(status).toBe(400);
  expect(body.detail).toContain('too large for a preview with 12 steps');
});

describe('one step', () => {
  const apply = (plugin: number, config: Record<string, string>, properties: unknown) => {
    const transform = transforms.find(({ id }) => id === plugin);
    if (!transform) throw new Error(`no plugin ${plugin}`);
    const row = rowOf({ uuid: 'u', event: 'e', distinct_id: 'd', properties });
    return chainFor(row, [stepOfPlugin(transform, config)]).apply(row);
  };

  test('does not look for many names in each element of a long list', () => {
    const names = Array.from({ length: 500 }, (_, n) => `list.${n}`).join();
    const list = Array.from({ length: 1_000 }, () => ({}));
    expect(apply(1, { properties: names, on_error: 'reject' }, { list })).toMatchObject({
      kind: 'rejected',
      reason: 'The row has too many values for the names of this step.',
    });
    expect(apply(1, { properties: names }, { list: list.slice(0, 100) }).kind).toBe('kept');
  });

  test.each([
    ['properties', { plugin: 1, config: { properties: 'a'.repeat(1) } }],
    ['types', { plugin: 9, config: {} }],
  ])('takes at most 500 names in %s', async (setting, { plugin }) => {
    const names = Array.from({ length: 501 }, (_, n) => `n${n}`);
    const value =
      setting === 'properties'
        ? names.join()
        : JSON.stringify(Object.fromEntries(names.map((name) => [name, 'string'])));
    const body = { configs: [{ plugin, config: { [setting]: value } }], rows: rows(1, 1) };
    const answer = await api.client.post(labOf(api.tenant.projectIds[0]), body);
    expect(answer.status).toBe(400);
    expect(answer.body.attr).toBe(`configs__0__config__${setting}`);
    expect(answer.body.detail).toContain('at most 500 names');
  });

  test('does not make a row thousands of times as long', () => {
    const many = Object.fromEntries(Array.from({ length: 200 }, (_, n) => [`p${n}`, n]));
    const config = { on_error: 'reject' };
    expect(apply(5, config, { ['long'.repeat(500)]: many })).toMatchObject({
      kind: 'rejected',
      reason: 'The new names would be too long.',
    });
    expect(apply(5, config, { ['long'.repeat(50)]: many }).kind).toBe('kept');
  });
});

async function insertEvent(projectId: number, properties: string): Promise<void> {
  await api.db.query(
    `insert into events (uuid, team_id, event, distinct_id, properties, inserted_at)
     values (gen_random_uuid(), $1, 'large', 'user', $2, now() - interval '1 minute')`,
    [projectId, properties],
  );
}
