import { readFileSync } from 'node:fs';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Scope } from '../../../src/foundation/security/scopes.ts';
import { ensureEventsTable } from '../../../src/rows/sources/index.ts';
import type { ApiClient } from '../../support/api-client.ts';
import { useApi } from '../../support/api-under-test.ts';
import { createTenant } from '../../support/tenants.ts';
import { until } from '../../support/until.ts';

let lab: string;

const api = useApi();
beforeAll(async () => {
  lab = `${api.exports}/preview`;
  await ensureEventsTable(api.databaseUrl);
  await api.sql`insert into events (uuid, team_id, event, distinct_id, properties, inserted_at)
     select gen_random_uuid(), ${api.teamId}, 'paid', 'user ' || n, '{"n": 9007199254740993, "email": "a@example.com"}',
            now() - interval '1 minute' from generate_series(1, 3) n`;
});

const dropEmail = { plugin: 1, config: { properties: 'email' } };
const dropSpam = { plugin: 2, config: { events: 'spam' } };
const castPrice = { plugin: 9, config: { types: '{"price": "number"}', on_error: 'reject' } };

interface Answer {
  readonly row: Record<string, unknown>;
  readonly result: Record<string, unknown> | null;
  readonly steps: readonly { fate: string; error: string | null; changes: unknown[] }[];
}

const namesOf = (columns: unknown) =>
  (columns as readonly { readonly name: string }[]).map(({ name }) => name);

async function run(body: object, client = api.client): Promise<readonly Answer[]> {
  const answer = await client.post(lab, { ...body, trace: true });
  expect(answer.status, answer.text).toBe(200);
  return answer.body.trace as Answer[];
}

describe('the lab', () => {
  test('shows what each step does to a row', async () => {
    const rows = [{ uuid: 'a', event: 'paid', properties: { email: 'x', price: '1.50' } }];
    const [row] = await run({ configs: [dropEmail, castPrice], rows });
    expect(row?.result).toEqual({ uuid: 'a', event: 'paid', properties: { price: 1.5 } });
    expect(row?.steps).toMatchObject([
      {
        fate: 'kept',
        error: null,
        changes: [{ path: 'properties.email', kind: 'removed', before: 'x', after: null }],
      },
      {
        fate: 'kept',
        changes: [{ path: 'properties.price', kind: 'changed', before: '1.50', after: 1.5 }],
      },
    ]);
  });

  test('ends a row with the step that drops or rejects it', async () => {
    const rows = [
      { event: 'spam', properties: {} },
      { event: 'paid', properties: { price: 'free' } },
    ];
    const [spam, free] = await run({ configs: [dropSpam, castPrice, dropEmail], rows });
    expect(spam).toMatchObject({ result: null, steps: [{ fate: 'dropped' }] });
    expect(free?.steps.map(({ fate }) => fate)).toEqual(['kept', 'rejected']);
    expect(free?.steps[1]?.error).not.toContain('free');
  });

  test('refuses JSON that a plugin nests too deeply', async () => {
    const plugins = `/api/organizations/${api.tenant.organizationId}/plugins`;
    const source = `export function processEvent(event) {
      for (let n = 0; n < event.levels; n += 1) event.properties = [event.properties];
      return event;
    }`;
    const { body: plugin } = await api.post(plugins, { name: 'Deep', source });
    const configs = [{ plugin: plugin.id }];
    const tried = (levels: number) =>
      api.post(lab, { configs, rows: [{ uuid: 'a', event: 'x', levels, properties: 1 }] });
    expect((await tried(900)).status).toBe(200);
    const { status, body } = await tried(1_100);
    expect([status, body.detail]).toEqual([400, expect.stringMatching(/^source\.json_too_deep: /)]);
  });

  test('applies the stored chain to the newest rows, without rounding', async () => {
    const path = `${api.project}/pipeline_transformation_configs`;
    await api.post(path, { ...dropEmail, order: 1, enabled: true });
    await api.post(path, { ...dropSpam, order: 2, enabled: false });
    const rows = await run({ transformations: true, limit: 2 });
    expect(rows).toHaveLength(2);
    expect(rows[0]?.result?.properties).toEqual({ n: '9007199254740993' });
    expect(rows[0]?.steps).toHaveLength(1);
  });

  test('shows a saved export through a changed chain, without what its query leaves out', async () => {
    const dsl_query = 'select event, properties.email as email from events';
    const asked = { id: (await api.create({ dsl_query })).id, configs: [dropEmail], limit: 1 };
    const [row] = await run(asked);
    expect(row?.row.distinct_id).toMatch(/^user \d$/);
    expect(row?.steps).toMatchObject([{ changes: [{ path: 'properties.email' }] }]);
    expect(row?.result).toEqual({ event: 'paid', email: null });
    const { body } = await api.post(lab, asked);
    expect([body.rows, body.trace, body.left_out]).toEqual([[['paid', null]], null, null]);
    expect(namesOf(body.columns)).toEqual(['event', 'email']);
  });

  test('shows rows that a caller gives without a trace too', async () => {
    const rows = [{ event: 'a', n: 1 }, { event: 'spam' }, { event: 'b', properties: { x: [2] } }];
    const { body } = await api.post(lab, { configs: [dropSpam], rows });
    expect(namesOf(body.columns)).toEqual(['event', 'n', 'properties']);
    expect(body.rows).toEqual([
      ['a', 1, null],
      ['b', null, { x: [2] }],
    ]);
  });

  test('asks for the scopes that a body needs', async () => {
    const { id } = await api.create();
    const bodies = {
      given: { configs: [], rows: [{ event: 'a' }] },
      steps: { configs: [], limit: 1 },
      sample: { transformations: true, limit: 1 },
      saved: { id },
      changed: { id, transformations: true },
      query: { dsl_query: 'select event from events' },
    };
    const taken = async (...scopes: Scope[]) => {
      const client = await api.withNewKey({ scopes });
      const answers = await Promise.all(
        Object.entries(bodies).map(async ([name, body]) => {
          const { status } = await client.post(lab, body);
          expect([200, 403]).toContain(status);
          return status === 200 ? [name] : [];
        }),
      );
      return answers.flat();
    };
    expect(await taken('plugin:read')).toEqual([]);
    expect(await taken('plugin:write')).toEqual(['given']);
    expect(await taken('batch_export:read')).toEqual(['saved']);
    const both = ['given', 'steps', 'sample', 'saved'];
    expect(await taken('plugin:write', 'batch_export:read')).toEqual(both);
    expect(await taken('batch_export:write')).toEqual(['sample', 'saved', 'changed', 'query']);
  });
});

describe("the lab with an organization's own plugins", () => {
  /** Each test has an organization of its own: trials use up the time that it has for them. */
  let client: ApiClient;
  beforeEach(async () => {
    const { key, projectIds } = await createTenant(api.db);
    client = api.withKey(key);
    lab = `/api/projects/${projectIds[0]}/batch_exports/preview`;
  });
  const install = async (source: string) => {
    const path = '/api/organizations/@current/plugins';
    const { status, body, text } = await client.post(path, { name: 'Mine', source });
    expect(status, text).toBe(201);
    return Number(body.id);
  };

  test('shows what they do to a row, beside built-in ones', async () => {
    const own = await install(`export function processEvent(event) {
      if (event.event === 'spam') return null;
      if (event.event === 'odd') throw new TypeError(event.properties.email);
      event.properties.seen = true;
      return event;
    }`);
    const properties = { n: 1, email: 'a@example.com' };
    const rows = ['paid', 'spam', 'odd'].map((event) => ({ event, properties }));
    const [paid, spam, odd] = await run({ configs: [{ plugin: own }, dropEmail], rows }, client);
    expect(paid?.result).toEqual({ event: 'paid', properties: { n: 1, seen: true } });
    expect(paid?.steps[0]).toMatchObject({
      step: 1,
      name: 'Mine',
      changes: [{ path: 'properties.seen', before: null, after: true }],
    });
    expect(spam?.steps).toMatchObject([{ fate: 'dropped' }]);
    expect(odd?.steps[0]).toMatchObject({ fate: 'kept', error: 'The plugin threw a TypeError.' });
    expect(odd?.result).toEqual({ event: 'odd', properties: { n: 1 } });
  });

  test('refuses one that exceeds a limit or cannot be set up, and more than four', async () => {
    const rows = [{ event: 'paid', properties: {} }];
    const endless = await install('export function processEvent(event) { for (;;); }');
    const broken = await install(
      `export function setupPlugin() { throw new Error('no list'); } export function processEvent(e) { return e; }`,
    );
    for (const [plugin, text] of [
      [endless, 'step 1 (Mine): it took more than 1000 ms for a row'],
      [broken, 'its setupPlugin failed: Error: no list'],
    ] as const) {
      const { status, body } = await client.post(lab, { configs: [{ plugin }], rows });
      expect([status, body.attr]).toEqual([400, 'configs']);
      expect(body.detail).toContain(text);
    }
    const many = Array.from({ length: 5 }, () => ({ plugin: broken }));
    const { status, body } = await client.post(lab, { configs: many, rows });
    expect([status, body.attr]).toEqual([400, 'configs']);
    expect(body.detail).toContain('At most 4 steps');
  }, 60_000);

  test('starts no second sandbox of an organization while the lab has one', async () => {
    const slow = await install(
      'export function processEvent(e) { for (let n = 0; n < 1e7; n += 1); return e; }',
    );
    const rows = Array.from({ length: 8 }, () => ({ event: 'paid', properties: {} }));
    const ended: string[] = [];
    const tried = client
      .post(lab, { configs: [{ plugin: slow }], rows })
      .then(({ status }) => ended.push(`lab ${status}`));
    await until(() => countSandboxes() > 0, { message: 'the lab has a sandbox' });
    await install('export function processEvent(e) { return e; }');
    ended.push('installed');
    await tried;
    expect(ended).toEqual(['lab 200', 'installed']);
  }, 60_000);

  /** Those of this process, which is the API's too. */
  function countSandboxes(): number {
    const children = readFileSync(`/proc/self/task/${process.pid}/children`, 'utf8').trim();
    return children.split(' ').filter((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('--frozen-intrinsics');
      } catch {
        return false;
      }
    }).length;
  }
});
