import { beforeAll, describe, expect, test } from 'vitest';
import { ensureEventsTable } from '../../src/rows/sources/index.ts';
import type { ApiClient } from '../support/api-client.ts';
import { useApi } from '../support/api-under-test.ts';
import { exportBody } from '../support/batch-export-bodies.ts';
import { countLoopTurns } from '../support/loop-turns.ts';
import { cliEnv, runCli } from '../support/cli.ts';
import { createTenant } from '../support/tenants.ts';
import { chainFor, rowOf, stepOfPlugin } from '../support/transforms/rows.ts';
import { until } from '../support/until.ts';

/** A tenant's chain runs in the process that answers all tenants: its work for one request is bounded. */

const labOf = (projectId: number) => `/api/projects/${projectId}/batch_exports/preview`;

const api = useApi();
beforeAll(() => ensureEventsTable(api.databaseUrl));

const dropEmail = { plugin: 1, config: { properties: 'email' } };
const steps = (count: number) => Array.from({ length: count }, () => dropEmail);
const rowOfBytes = (bytes: number) => ({ event: 'a', properties: { text: 'x'.repeat(bytes) } });
const rows = (count: number, bytes: number) =>
  Array.from({ length: count }, () => rowOfBytes(bytes));

describe('the lab', () => {
  test('refuses a row that is too large for its steps, and says what to change', async () => {
    const body = { configs: steps(50), rows: rows(1, 900_000) };
    const { status, body: refused } = await api.client.post(labOf(api.tenant.projectIds[0]), body);
    expect(status).toBe(400);
    expect(refused.detail).toMatch(/too large for a preview with 50 steps.*disable steps/);
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
        const asked = api.client.post(labOf(projectIds[n % 2] ?? 0), { configs: [], limit: 1 });
        const status = asked.then((answer) => answer.status);
        many.push(status);
        void status.then((found) => early.push(found));
      }
      await until(() => early.length === 7);
      expect(early).toEqual(Array(7).fill(429));
      const free = { configs: [dropEmail], rows: rows(1, 10) };
      const fromOther = api.withKey(other.key);
      expect((await fromOther.post(labOf(other.projectIds[0]), free)).status).toBe(200);
    });
    const statuses = await Promise.all(many);
    expect(statuses.filter((status) => status !== 429)).toHaveLength(5);
  });
});

test('a preview refuses a row that is too large for the steps of its chain', async () => {
  const tenant = await createTenant(api.db);
  const client = api.withKey(tenant.key);
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
    const row = rowOf({ uuid: 'u', event: 'e', distinct_id: 'd', properties });
    return chainFor(row, [stepOfPlugin(plugin, config)]).apply(row);
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

/** A chain may make any size of a small row. */
describe('rows that a chain makes large', () => {
  const mebibyte = 1024 ** 2;
  const text = (bytes: number) => JSON.stringify({ [`p${bytes}`]: 'x'.repeat(bytes) });
  const grow = Array.from({ length: 15 }, (_, n) => ({
    ...{ plugin: 8, config: { values: text(60_000 + n) } },
  }));
  const huge = `export function processEvent(event) { event.properties.a = 'x'.repeat(30 * 1024 * 1024); return event; }`;
  /** An organization of its own: trials use up the time that it has for them. */
  const prepare = async () => {
    const tenant = await createTenant(api.db);
    const client = api.withKey(tenant.key);
    const project = `/api/projects/${tenant.projectIds[0]}`;
    const made = await client.post('/api/organizations/@current/plugins', {
      name: 'p',
      source: huge,
    });
    expect(made.status, made.text).toBe(201);
    await api.sql`insert into events (uuid, team_id, event, distinct_id, properties, inserted_at)
      select gen_random_uuid(), ${tenant.projectIds[0]}, 'e ' || n, 'user', '{}', now()
      - interval '1 minute' from generate_series(1, 100) n`;
    const exportOf = async (chain: readonly object[]) => {
      for (const [order, step] of chain.entries()) {
        const body = { ...step, order, enabled: true };
        const added = await client.post(`${project}/pipeline_transformation_configs`, body);
        expect(added.status, added.text).toBe(201);
      }
      const body = exportBody({ transformations: true });
      const { body: saved } = await client.post(`${project}/batch_exports`, body);
      return `${project}/batch_exports/${saved.id}/preview`;
    };
    const lab = labOf(tenant.projectIds[0]);
    const env = cliEnv({ ...api, tenant });
    return { client, lab, exportOf, plugin: made.body.id, env };
  };
  const given = (count: number) => rows(count, 1_000);
  const long = (n: number) => `${n}${'n'.repeat(1_000)}`;
  const wide = Object.fromEntries(Array.from({ length: 900 }, (_, n) => [long(n), n]));
  const empty = Array.from({ length: 99 }, () => ({}));

  type Trial = readonly [
    string,
    (prepared: Awaited<ReturnType<typeof prepare>>) => ReturnType<ApiClient['get']>,
  ];
  const tried: readonly Trial[] = [
    [
      'many steps of many rows that are traced',
      async ({ client, lab }) => client.post(lab, { configs: grow, rows: given(100), trace: true }),
    ],
    [
      'a plugin that makes 30 MiB of each row of a preview',
      async ({ client, exportOf, plugin }) => client.get(await exportOf([{ plugin }])),
    ],
    [
      'many steps of many rows of the source that are traced',
      async ({ client, lab }) => client.post(lab, { configs: grow, trace: true }),
    ],
    [
      'long names that one row gives to all',
      async ({ client, lab }) => client.post(lab, { rows: [wide, ...empty], trace: true }),
    ],
    [
      'a plugin that makes 30 MiB of a row that is traced',
      async ({ client, lab, plugin }) =>
        client.post(lab, { configs: [{ plugin }], rows: given(6), trace: true }),
    ],
    [
      'many steps of many rows of a preview',
      async ({ client, exportOf }) => client.get(await exportOf(grow)),
    ],
  ];
  test.each(tried)(
    'leave the answer, its memory and others as they are: %s',
    async (_what, ask) => {
      const prepared = await prepare();
      const other = await createTenant(api.db);
      const others = api.withKey(other.key);
      const path = `/api/projects/${other.projectIds[0]}/batch_exports`;
      const before = process.memoryUsage().rss;
      const startedAt = performance.now();
      let [ended, longest, most] = [false, 0, 0];
      const asked = ask(prepared).finally(() => {
        ended = true;
      });
      while (!ended) {
        const at = performance.now();
        expect((await others.get(path)).status).toBe(200);
        longest = Math.max(longest, performance.now() - at);
        most = Math.max(most, process.memoryUsage().rss - before);
      }
      const { status, body, text: answer } = await asked;
      expect(status, answer.slice(0, 300)).toBe(200);
      expect(answer.length).toBeLessThan(20 * mebibyte);
      expect(body.left_out).toMatch(/^(Of \d+ rows, only the first|Only the newest) /);
      expect(body.left_out).toContain('An answer has at most 16 MiB');
      const shown = (body.trace ?? body.rows) as readonly unknown[];
      expect(shown.length).toBeGreaterThan(0);
      // The client of this test is in the same process, and has the answer three times.
      expect(most).toBeLessThan(300 * mebibyte);
      expect(longest).toBeLessThan(0.75 * (performance.now() - startedAt));
    },
    120_000,
  );

  test('say on the command line what is left out', async () => {
    const { exportOf, plugin, env } = await prepare();
    const id = (await exportOf([{ plugin }])).split('/').at(-2) ?? '';
    const { code, out } = await runCli(['exports', 'preview', id], { env });
    expect([code, out]).toEqual([0, expect.stringContaining('Only the newest row is shown. Long')]);
  }, 60_000);
});

async function insertEvent(projectId: number, properties: string): Promise<void> {
  await api.sql`insert into events (uuid, team_id, event, distinct_id, properties, inserted_at)
    values (gen_random_uuid(), ${projectId}, 'large', 'user', ${properties}, now()
    - interval '1 minute')`;
}
