import { beforeAll, describe, expect, test } from 'vitest';
import type { ApiClient } from '../../support/api-client.ts';
import { startApiUnderTest } from '../../support/api-under-test.ts';
import { createTenant } from '../../support/tenants.ts';
import { useStage } from '../../support/use-stage.ts';

let client: ApiClient;
let configs: string;
let plugins: string;

const api = useStage(startApiUnderTest);
beforeAll(async () => {
  client = api.client;
  configs = `${api.project}/pipeline_transformation_configs`;
  plugins = `/api/organizations/${api.tenant.organizationId}/plugins`;
});

async function create(body: object) {
  const answer = await client.post(`${configs}/`, body);
  expect(answer.status, answer.text).toBe(201);
  return answer.body;
}

describe("an organization's own plugins", () => {
  const mine = {
    name: 'Mine',
    source: 'export function processEvent(event, meta) { return event; }',
    config_schema: [{ key: 'token', required: true, secret: true }],
  };

  test('are installed, listed behind the built-in ones, changed and used', async () => {
    const installed = await client.post(plugins, mine);
    expect(installed.status).toBe(201);
    expect(installed.body).toMatchObject({ name: 'Mine', built_in: false, source: mine.source });
    const { id } = installed.body;
    const { body } = await client.get(plugins);
    expect(body.results[0]).toMatchObject({ id: 1, built_in: true, source: null });
    expect(body.results.at(-1)?.id).toBe(id);
    expect(body.count).toBe(body.results.length);
    const changed = await client.patch(`${plugins}/${id}`, { name: 'Ours' });
    expect(changed.body).toMatchObject({ name: 'Ours', source: mine.source });
    const used = await create({ plugin: id, order: 1, config: { token: 'canary' } });
    expect(used.name).toBe('Ours');
  });

  test('can be enabled, and have the settings of every step', async () => {
    const { body } = await client.post(plugins, mine);
    const shown = body.config_schema as { key: string }[];
    expect(shown.map(({ key }) => key)).toEqual(['token', 'on_error', 'max_error_share']);
    const step = await create({
      plugin: body.id,
      order: 1,
      enabled: true,
      config: { token: 'canary', on_error: 'reject', max_error_share: '0.1' },
    });
    expect(step.enabled).toBe(true);
    expect(JSON.parse(String(step.config))).toEqual({
      token: '********',
      on_error: 'reject',
      max_error_share: '0.1',
    });
    for (const [key, value] of [
      ['on_error', 'skip'],
      ['max_error_share', '2'],
    ] as const) {
      const config = { token: 'canary', [key]: value };
      const refused = await client.post(configs, { plugin: body.id, order: 1, config });
      expect([refused.status, refused.body.attr]).toEqual([400, `config__${key}`]);
    }
  });

  test('take their schema back as it is shown', async () => {
    const { body } = await client.post(plugins, mine);
    const { config_schema: schema } = body;
    const changed = await client.patch(`${plugins}/${body.id}`, { config_schema: schema });
    expect(changed.status, changed.text).toBe(200);
    expect(changed.body.config_schema).toEqual(schema);
  });

  test.each([
    [
      'an export that other hosts have',
      `${mine.source}\nexport const jobs = {};`,
      'The export jobs is not supported. Export processEvent, setupPlugin and teardownPlugin.',
    ],
    [
      'a field of meta that other hosts have',
      `export function processEvent(event, meta) {\n  meta.storage.get('x');\n  return event;\n}`,
      'Line 1: meta.storage is not supported',
    ],
    ['a mistake in JavaScript', `${mine.source}\nconst a = ;`, 'Line 2: '],
    ['a mistake in TypeScript', `export const a: number = 1;\nexport const b: = 2;`, 'Line 2: '],
    ['no processEvent', 'export const a = 1;', 'It does not export a function processEvent'],
  ])(
    'refuse %s by name, when they are installed and when they are changed',
    async (_what, source, detail) => {
      const refused = await client.post(plugins, { ...mine, source });
      expect([refused.status, refused.body.attr], refused.text).toEqual([400, 'source']);
      expect(refused.body.detail).toContain(detail);
      const { body } = await client.post(plugins, mine);
      const changed = await client.patch(`${plugins}/${body.id}`, { source });
      expect([changed.status, changed.body.attr]).toEqual([400, 'source']);
      const { body: after } = await client.get(`${plugins}/${body.id}`);
      expect(after.source).toBe(mine.source);
    },
    60_000,
  );

  test('a step whose plugin was removed says so if its config is changed, and takes all else', async () => {
    const { body } = await client.post(plugins, mine);
    const step = await create({ plugin: body.id, order: 1, config: { token: 'canary' } });
    await api.db.query('delete from plugins where id = $1', [body.id]);
    const refused = await client.patch(`${configs}/${step.id}`, { config: { token: 'other' } });
    expect([refused.status, refused.body.code, refused.body.attr]).toEqual([
      400,
      'does_not_exist',
      'plugin',
    ]);
    const changed = await client.patch(`${configs}/${step.id}`, { enabled: false, name: 'Old' });
    expect([changed.status, changed.body.name]).toEqual([200, 'Old']);
  });

  test('are not those of another organization', async () => {
    const { body } = await client.post(plugins, mine);
    const tenant = await createTenant(api.db);
    const other = client.withKey(tenant.key);
    const foreign = `/api/organizations/${tenant.organizationId}/plugins/${body.id}`;
    expect((await other.get(foreign)).status).toBe(404);
    const used = await other.post(
      `/api/projects/${tenant.projectIds[0]}/pipeline_transformation_configs`,
      { plugin: body.id, order: 1, config: { token: 'x' } },
    );
    expect(used.body).toMatchObject({ code: 'does_not_exist', attr: 'plugin' });
  });

  test('take the config of a plugin.json as the community publishes it', async () => {
    const published = [
      { markdown: '## Events\nWhat this plugin does' },
      { key: 'map', type: 'json', default: { a: 1 }, order: 1, title: 'Map' },
      { key: 'n', name: '', default: 5, hint: '' },
      { key: 'on', type: 'choice', options: [true, false], default: false },
      { key: 'file', name: 'Filters', type: 'attachment', required: true, default: '' },
    ];
    const answer = await client.post(plugins, { ...mine, config_schema: published });
    expect(answer.status, answer.text).toBe(201);
    const field = { required: false, secret: false, hint: null, choices: [], type: 'string' };
    expect((answer.body.config_schema as object[]).slice(0, 4)).toEqual([
      { ...field, key: 'map', name: 'map', type: 'json', default: '{"a":1}' },
      { ...field, key: 'n', name: 'n', default: '5' },
      {
        ...field,
        key: 'on',
        name: 'on',
        type: 'choice',
        choices: ['true', 'false'],
        default: 'false',
      },
      { ...field, key: 'file', name: 'Filters', default: null },
    ]);
    await create({ plugin: answer.body.id, order: 1, config: {} });
    const twice = [{ markdown: 'text' }, { key: 'a' }, { key: 'a' }];
    const refused = await client.post(plugins, { ...mine, config_schema: twice });
    expect([refused.status, refused.body.attr]).toEqual([400, 'config_schema__2__key']);
  });

  test.each([
    ['source without processEvent', { ...mine, source: 'x' }, 'source'],
    ['no source', { name: 'x' }, 'source'],
    [
      'a key twice',
      { ...mine, config_schema: [{ key: 'a' }, { key: 'a' }] },
      'config_schema__1__key',
    ],
    [
      'a choice without choices',
      { ...mine, config_schema: [{ key: 'a', type: 'choice' }] },
      'config_schema__0__choices',
    ],
    [
      'a setting that every step has',
      { ...mine, config_schema: [{ key: 'on_error' }] },
      'config_schema__0__key',
    ],
    ['an odd key', { ...mine, config_schema: [{ key: '__proto__x' }] }, 'config_schema__0__key'],
  ])('refuse %s', async (_what, body, attr) => {
    const answer = await client.post(plugins, body);
    expect(answer.status).toBe(400);
    expect(answer.body.attr).toBe(attr);
  });

  test('a built-in one cannot be changed', async () => {
    expect((await client.patch(`${plugins}/1`, { name: 'x' })).status).toBe(400);
  });
});
