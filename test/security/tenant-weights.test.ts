import { describe, expect, test } from 'vitest';
import { applyRetention } from '../../src/service/use-cases/installation/apply-retention.ts';
import { countStoredBytes } from '../../src/state/store/tenants/budgets.ts';
import { PluginLines } from '../../src/service/worker/run-log.ts';
import type { ApiAnswer, ApiClient } from '../support/api-client.ts';
import { startApiBeside, useApi } from '../support/api-under-test.ts';
import { exportBody, s3 } from '../support/batch-export-bodies.ts';
import { createTenant } from '../support/tenants.ts';
import { testApiOptions } from '../support/test-api-options.ts';
import { inTest } from '../support/use-stage.ts';

const api = useApi();

/** A new tenant's client and the path of its exports. */
async function newTenant() {
  const tenant = await createTenant(api.db);
  const path = `/api/projects/${tenant.projectIds[0]}`;
  const organization = `/api/organizations/${tenant.organizationId}`;
  const client = api.client.withKey(tenant.key);
  return { ...tenant, client, path, organization, teamId: tenant.projectIds[0] };
}

const names = (count: number, length = 1) =>
  Array.from({ length: count }, (_, index) => String(index).padStart(length, 'e'));

test.each(['include_events', 'exclude_events'])(
  'an event filter %s takes 100 names of 200',
  async (filter) => {
    const path = await api.createPath({ destination: s3({ [filter]: names(100, 200) }) });
    const attr = `destination__config__${filter}`;
    const tooMany = { destination: { config: { [filter]: names(101) } } };
    expect((await api.client.patch(path, tooMany)).body).toMatchObject({
      code: 'max_length',
      detail: 'Must have at most 100 items.',
      attr,
    });
    const tooLong = { destination: { config: { [filter]: names(1, 201) } } };
    expect((await api.client.patch(path, tooLong)).body).toMatchObject({
      code: 'max_length',
      detail: 'Must have at most 200 characters.',
      attr: `${attr}__0`,
    });
  },
);

describe('a config', () => {
  test('of a destination has at most 64 KiB, also in parts', async () => {
    // Of 200 characters, and 400 bytes.
    const wide = names(100).map((name) => name.padEnd(200, 'ŉ'));
    const large = (filter: string) => ({ [filter]: wide });
    const refused = { code: 'max_length', attr: 'destination__config' };
    const both = { ...large('include_events'), ...large('exclude_events') };
    expect(
      (await api.client.post(api.exports, exportBody({ destination: s3(both) }))).body,
    ).toMatchObject(refused);
    const path = await api.createPath({ destination: s3(large('include_events')) });
    const { status, body } = await api.client.patch(path, {
      destination: { config: large('exclude_events') },
    });
    expect([status, body]).toMatchObject([400, refused]);
    expect(body.detail).toMatch(/the maximum is 64 KiB\. Shorten/);
  });

  test('of a transformation, its plugin and its job too', async () => {
    const { client: own, path, organization } = await newTenant();
    const plugin = await own.post(`${organization}/plugins`, {
      name: 'Own',
      source: 'export function processEvent(event) { return event; }',
      config_schema: [{ key: 'a' }],
    });
    const configs = `${path}/pipeline_transformation_configs`;
    const config = { plugin: plugin.body.id, order: 1, config: { a: 'x'.repeat(65_536) } };
    expect((await own.post(configs, config)).body).toMatchObject({
      code: 'max_length',
      attr: 'config',
    });
    const step = await own.post(configs, { ...config, config: {} });
    const job = { job: { type: 'sample', payload: { a: 'x'.repeat(65_536) } } };
    expect((await own.post(`${configs}/${step.body.id}/job`, job)).body).toMatchObject({
      code: 'max_length',
      attr: 'job__payload',
    });
    const fields = Array.from({ length: 7 }, (_, n) => ({
      key: `k${n}`,
      default: 'x'.repeat(9_999),
    }));
    const change = await own.patch(`${organization}/plugins/${plugin.body.id}`, {
      config_schema: fields,
    });
    expect([change.status, change.body]).toMatchObject([
      400,
      { code: 'max_length', attr: 'config_schema' },
    ]);
  });
});

describe('a project', () => {
  test('has at most 50 enabled steps, also if they are created at once', async () => {
    const { client: own, path, teamId } = await newTenant();
    const configs = `${path}/pipeline_transformation_configs`;
    await api.sql`
      insert into pipeline_transformation_configs (team_id, plugin, enabled, "order", config)
       select ${teamId}, 1, true, n, '{"properties": "a"}' from generate_series(1, 49) n`;
    const step = { plugin: 1, order: 1, enabled: true, config: { properties: 'a' } };
    const two = await Promise.all([own.post(configs, step), own.post(configs, step)]);
    expect(two.map(({ status }) => status).sort()).toEqual([201, 400]);
    const refused = two.find(({ status }) => status === 400);
    expect(refused?.body).toMatchObject({ attr: 'enabled' });
    expect(refused?.body.detail).toMatch(/50 enabled steps, the maximum/);
    const spare = await own.post(configs, { ...step, enabled: false });
    expect(spare.status).toBe(201);
    const enable = () => own.patch(`${configs}/${spare.body.id}`, { enabled: true });
    expect(await enable()).toMatchObject({ status: 400, body: { attr: 'enabled' } });
    const made = two.find(({ status }) => status === 201)?.body.id;
    // A step that is enabled already does not count twice.
    expect((await own.patch(`${configs}/${made}`, { order: 2 })).status).toBe(200);
    await own.patch(`${configs}/${made}`, { enabled: false });
    expect((await enable()).status).toBe(200);
  });

  test('has so many exports, also if they are created at once, and one more for each deleted', async () => {
    const limited = await inTest(
      startApiBeside(api, ({ context }) => ({
        context: { ...context, policy: { ...context.policy, maxExportsPerProject: 3 } },
      })),
    );
    const path = `/api/projects/${api.tenant.projectIds[1]}/batch_exports`;
    const answers = await Promise.all(
      Array.from({ length: 6 }, () => limited.client.post(path, exportBody())),
    );
    expect(answers.map(({ status }) => status).sort()).toEqual([201, 201, 201, 400, 400, 400]);
    const { body } = await limited.client.post(path, exportBody());
    expect(body.detail).toMatch(/has 3 exports, the maximum/);
    const [created] = answers.filter(({ status }) => status === 201);
    await limited.client.delete(`${path}/${created?.body.id}`);
    expect((await limited.client.post(path, exportBody())).status).toBe(201);
  });
});

test('a page of a list ends before 1 MiB, and the pages together have every row once', async () => {
  const { client: own, path, teamId } = await newTenant();
  await own.post(`${path}/batch_exports`, exportBody());
  // Heavier than the API accepts: what is stored counts, however it got there.
  await api.db.query(
    `insert into batch_exports (team_id, name, destination_type, destination_config, "interval", schedule, next_tick_at)
       select team_id, 'n' || n, destination_type, jsonb_build_object('prefix', repeat('x', 3000000)),
              "interval", schedule, next_tick_at
         from batch_exports, generate_series(1, 3) n where team_id = $1`,
    [teamId],
  );
  const seen: string[] = [];
  let next: string | null = `${path}/batch_exports?limit=1000`;
  let pages = 0;
  while (next !== null) {
    const { status, text, body } = await own.get(next);
    expect(status).toBe(200);
    // A row of 3 MB has a page of its own.
    expect(text.length).toBeLessThan(4 * 2 ** 20);
    expect(body.count).toBe(4);
    seen.push(...body.results.map(({ id }) => id));
    next = body.next;
    pages += 1;
  }
  expect(pages).toBeGreaterThan(1);
  expect(new Set(seen).size).toBe(4);
  expect(seen.length).toBe(4);
});

describe('a backfill', () => {
  test.each([
    ['hour', 100_000 * 3_600_000],
    ['every 5 minutes', 100_000 * 300_000],
  ])('of %s intervals has at most 100,000', async (interval, span) => {
    const path = await api.createPath({ interval });
    const end = Date.parse('2024-03-01T00:00:00Z');
    const range = (start: number) => ({
      start_at: new Date(start).toISOString(),
      end_at: new Date(end).toISOString(),
    });
    const preview = { ...range(end - span - 1), dry_run: true };
    for (const request of [range(end - span - 1), preview]) {
      const { status, body } = await api.client.post(`${path}/backfill`, request);
      expect([status, body]).toMatchObject([400, { attr: 'start_at' }]);
      expect(body.detail).toMatch(/^The range has 100001 intervals; the maximum is 100000\./);
    }
    const started = await api.client.post(`${path}/backfill`, range(end - span));
    expect(started.status, started.text).toBe(200);
  });

  test('does not begin before 1970', async () => {
    const path = await api.createPath({ interval: 'day', timezone: 'Pacific/Apia' });
    const { status, body } = await api.client.post(`${path}/backfill`, {
      start_at: '1969-12-31T23:59:59Z',
      end_at: '2024-03-01T00:00:00Z',
    });
    expect([status, body]).toMatchObject([
      400,
      { attr: 'start_at', detail: 'start_at must not be before 1970.' },
    ]);
  });

  test('that comes with a new export has the same bounds', async () => {
    const body = exportBody({ start_at: '1969-01-01T00:00:00Z', backfill: true });
    expect((await api.client.post(api.exports, body)).body).toMatchObject({ attr: 'start_at' });
    const long = exportBody({ start_at: '1980-01-01T00:00:00Z', backfill: true });
    expect((await api.client.post(api.exports, long)).body).toMatchObject({ attr: 'start_at' });
  });
});

describe('an entry of the activity', () => {
  test('has at most 8 KiB, whatever changed', async () => {
    const path = await api.createPath({ dsl_query: `SELECT event AS a FROM events` });
    const wide = names(100, 200).map((name) => `"\\${name}`.slice(0, 200));
    await api.client.patch(path, {
      name: `${'\u0001'.repeat(399)}x`,
      destination: { config: { include_events: wide, exclude_events: wide } },
    });
    const entries = await api.sql<{ bytes: number; changes: { field: string }[] }>`
      select octet_length(changes::text) as bytes, changes from activity
        where subject_id = ${path.split('/').at(-1)} order by id desc limit 1`;
    expect(entries[0]?.bytes).toBeLessThanOrEqual(8_192);
    expect(entries[0]?.changes.map(({ field }) => field)).toEqual(['name', 'destination']);
    expect(JSON.stringify(entries[0]?.changes)).toMatch(/… \(\d+ bytes\)/);
  });

  test('of an own plugin too, whose source is large', async () => {
    const { client: own, organization } = await newTenant();
    const source = `export function processEvent(event) { return event; } // ${'\u0001ŉ"'.repeat(100_000)}`;
    const { body } = await own.post(`${organization}/plugins`, { name: 'p', source });
    await own.patch(`${organization}/plugins/${body.id}`, { source: `${source} ` });
    const [entry] = await api.sql<{ bytes: number }>`select max(octet_length(changes::text))
      as bytes from activity where subject_type = 'plugin'`;
    expect(entry?.bytes).toBeLessThanOrEqual(8_192);
    expect(entry?.bytes).toBeGreaterThan(2_000);
  });

  test('goes with its retention', async () => {
    const path = await api.createPath();
    const id = path.split('/').at(-1);
    const count = async () => (await api.client.get(`${path}/activity`)).body.count;
    await api.client.post(`${path}/pause`);
    expect(await count()).toBe(2);
    await api.sql`update activity set happened_at = now() - interval '366 days'
        where subject_id = ${id} and action = 'created'`;
    await applyRetention(testApiOptions(api.db, api.databaseUrl).context);
    expect(await count()).toBe(1);
  });
});

describe('what a tenant stores in a day', () => {
  const mebibyte = 2 ** 20;
  const large = () => exportBody({ destination: s3({ include_events: names(100, 200) }) });
  const limitedTo = (storedBytesPerDay: number) =>
    inTest(startApiBeside(api, () => ({ storedBytesPerDay })));

  test('is bounded, whether it deletes it or not, over all API processes, and others are not affected', async () => {
    const two = [await limitedTo(mebibyte), await limitedTo(mebibyte)];
    const tenant = await newTenant();
    const path = `${tenant.path}/batch_exports`;
    let stored = 0;
    const refused: ApiAnswer[] = [];
    const churn = async ({ client }: { readonly client: ApiClient }) => {
      const own = client.withKey(tenant.key);
      const made = await own.post(path, large());
      if (made.status !== 201) return void refused.push(made);
      stored += 1;
      await own.delete(`${path}/${made.body.id}`);
    };
    for (let round = 0; round < 60 && refused.length < 9; round += 1) {
      for (const each of two) await churn(each);
    }
    const [activity] = await api.sql<{ bytes: number }>`select
        sum(octet_length(changes::text))::int as bytes from activity
        where organization_id = ${tenant.organizationId}`;
    // Each process notices with its next change that the one before stored more than was expected of it.
    const change = JSON.stringify(large()).length + 2_048;
    const used = stored * change + (activity?.bytes ?? 0);
    expect(used).toBeLessThanOrEqual(mebibyte + 2 * change);
    expect(used).toBeGreaterThan(0.75 * mebibyte);
    const [first] = refused;
    expect(first).toMatchObject({ status: 429, body: { code: 'throttled', attr: null } });
    expect(first?.body.detail).toContain('MAX_STORED_MIB_PER_DAY');
    expect(Number(first?.headers.get('retry-after'))).toBeGreaterThan(80_000);
    // It may still read, try and ask.
    expect((await two[0]?.client.withKey(tenant.key).get(path))?.status).toBe(200);
    const other = await newTenant();
    const others = two[0]?.client.withKey(other.key);
    expect((await others?.post(`${other.path}/batch_exports`, large()))?.status).toBe(201);
    await api.sql`update used_budgets set began_at = began_at - interval '25 hours'
        where owner = ${tenant.organizationId}`;
    const before = stored;
    await churn(await limitedTo(mebibyte));
    expect(stored).toBe(before + 1);
  });

  test('includes the answers that an Idempotency-Key keeps', async () => {
    const tenant = await newTenant();
    const own = (await limitedTo(mebibyte)).client.withKey(tenant.key);
    const path = `${tenant.path}/batch_exports`;
    const { body } = await own.post(path, large());
    const statuses: number[] = [];
    for (let n = 0; n < 80; n += 1) {
      const headers = { 'idempotency-key': `key-${n}` };
      statuses.push((await own.post(`${path}/${body.id}/pause`, {}, { headers })).status);
    }
    const [kept] = await api.sql<{ bytes: number }>`select sum(octet_length(response))::int
        as bytes from idempotency_keys where key_id in (select id from api_keys
        where organization_id = ${tenant.organizationId})`;
    expect(kept?.bytes).toBeLessThanOrEqual(mebibyte);
    expect(kept?.bytes).toBeGreaterThan(mebibyte / 2);
    expect(statuses.at(-1)).toBe(429);
  });

  test('includes the lines that own plugins write', async () => {
    const { teamId } = await newTenant();
    const log: string[] = [];
    const count = (bytes: number) => countStoredBytes(api.db, teamId, bytes, 10_000);
    const lines = new PluginLines({ add: (_level, message) => log.push(message) }, count);
    for (let n = 0; n < 100; n += 1) lines.add('INFO', `${n} ${'x'.repeat(900)}`);
    await lines.end();
    expect(log.length).toBeLessThan(12);
    expect(log.at(-1)).toContain('MAX_STORED_MIB_PER_DAY');
  });

  test('does not count what was refused', async () => {
    const tenant = await newTenant();
    const own = (await limitedTo(mebibyte / 4)).client.withKey(tenant.key);
    const path = `${tenant.path}/batch_exports`;
    // A rule refuses it, after the limit was asked; the schemas refuse before that.
    const wrong = { ...large(), dsl_query: 'DELETE FROM events' };
    for (let n = 0; n < 20; n += 1) expect((await own.post(path, wrong)).status).toBe(400);
    expect((await own.post(path, large())).status).toBe(201);
  });
});
