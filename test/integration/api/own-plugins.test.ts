import { beforeAll, describe, expect, test } from 'vitest';
import { useApi } from '../../support/api-under-test.ts';
import { createTenant } from '../../support/tenants.ts';

let configs: string;
let plugins: string;

const api = useApi();
beforeAll(async () => {
  configs = `${api.project}/pipeline_transformation_configs`;
  plugins = `/api/organizations/${api.tenant.organizationId}/plugins`;
});

describe("an organization's own plugins", () => {
  const mine = {
    name: 'Mine',
    source: 'export function processEvent(event, meta) { return event; }',
    config_schema: [{ key: 'token', required: true, secret: true }],
  };

  test('are installed, listed behind the built-in ones, changed and used', async () => {
    const installed = await api.post(plugins, mine);
    expect(installed.status).toBe(201);
    expect(installed.body).toMatchObject({ name: 'Mine', built_in: false, source: mine.source });
    const { id } = installed.body;
    const { body } = await api.get(plugins);
    expect(body.results[0]).toMatchObject({ id: 1, built_in: true, source: null });
    expect(body.results.at(-1)?.id).toBe(id);
    expect(body.count).toBe(body.results.length);
    const changed = await api.patch(`${plugins}/${id}`, { name: 'Ours' });
    expect(changed.body).toMatchObject({ name: 'Ours', source: mine.source });
    const used = await api.make(configs, { plugin: id, order: 1, config: { token: 'canary' } });
    expect(used.name).toBe('Ours');
  });

  test('can be enabled, and have the settings of every step', async () => {
    const { body } = await api.post(plugins, mine);
    const shown = body.config_schema as { key: string }[];
    expect(shown.map(({ key }) => key)).toEqual(['token', 'on_error', 'max_error_share']);
    const step = await api.make(configs, {
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
      const refused = await api.post(configs, { plugin: body.id, order: 1, config });
      expect([refused.status, refused.body.attr]).toEqual([400, `config__${key}`]);
    }
  });

  test('take their schema back as it is shown', async () => {
    const { body } = await api.post(plugins, mine);
    const { config_schema: schema } = body;
    const changed = await api.patch(`${plugins}/${body.id}`, { config_schema: schema });
    expect(changed.status, changed.text).toBe(200);
    expect(changed.body.config_schema).toEqual(schema);
  });

  test('a step whose plugin was removed says so if its config is changed, and takes all else', async () => {
    const { body } = await api.post(plugins, mine);
    const step = await api.make(configs, {
      plugin: body.id,
      order: 1,
      config: { token: 'canary' },
    });
    await api.sql`delete from plugins where id = ${body.id}`;
    const refused = await api.patch(`${configs}/${step.id}`, { config: { token: 'other' } });
    expect([refused.status, refused.body.code, refused.body.attr]).toEqual([
      400,
      'does_not_exist',
      'plugin',
    ]);
    const changed = await api.patch(`${configs}/${step.id}`, { enabled: false, name: 'Old' });
    expect([changed.status, changed.body.name]).toEqual([200, 'Old']);
  });

  test('are not those of another organization', async () => {
    const { body } = await api.post(plugins, mine);
    const tenant = await createTenant(api.db);
    const other = api.withKey(tenant.key);
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
    const answer = await api.post(plugins, { ...mine, config_schema: published });
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
    await api.make(configs, { plugin: answer.body.id, order: 1, config: {} });
    const twice = [{ markdown: 'text' }, { key: 'a' }, { key: 'a' }];
    const refused = await api.post(plugins, { ...mine, config_schema: twice });
    expect([refused.status, refused.body.attr]).toEqual([400, 'config_schema__2__key']);
  });

  test('a built-in one cannot be changed', async () => {
    expect((await api.patch(`${plugins}/1`, { name: 'x' })).status).toBe(400);
  });
});
