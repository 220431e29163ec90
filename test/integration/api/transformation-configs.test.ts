import { beforeAll, describe, expect, test } from 'vitest';
import { useApi } from '../../support/api-under-test.ts';
import { atNight } from '../../support/nightly.ts';
import { createTenant } from '../../support/tenants.ts';

let configs: string;

const instant = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/;
const filter = { plugin: 2, order: 1, config: { events: '$pageleave' } };
const hash = { plugin: 3, order: 2, config: { properties: 'email', salt: 'canary-salt' } };

const api = useApi();
beforeAll(async () => {
  configs = `${api.project}/pipeline_transformation_configs`;
});

describe('create', () => {
  test('answers 201 with the whole config; name and description fall back to the plugin', async () => {
    const body = await api.make(configs, filter);
    expect(body).toMatchObject({
      id: expect.any(Number),
      plugin: 2,
      enabled: false,
      order: 1,
      error: null,
      team_id: api.teamId,
      delivery_rate_24h: null,
      created_at: expect.stringMatching(instant),
      updated_at: expect.stringMatching(instant),
      name: 'Filter events',
      description: 'Keeps or drops events by their name.',
      deleted: false,
      match_action: null,
    });
    expect(JSON.parse(String(body.config))).toMatchObject({ events: '$pageleave', mode: 'drop' });
    expect(JSON.parse(String(body.plugin_info))).toMatchObject({
      name: 'Filter events',
      jobs: [{ type: 'sample' }],
    });
    expect(body.details).toMatchObject({ config: { events: '$pageleave' } });
  });

  test('takes the config as a JSON string too, and masks secrets', async () => {
    const body = await api.make(configs, { ...hash, config: JSON.stringify(hash.config) });
    expect(JSON.parse(String(body.config))).toMatchObject({
      properties: 'email',
      salt: '********',
    });
    expect(JSON.stringify(body)).not.toContain('canary');
  });
});

describe('retrieve, list, update and delete', () => {
  test('list is the chain: by order, then id, disabled ones included, deleted ones not', async () => {
    const tenant = await createTenant(api.db);
    const other = api.withKey(tenant.key);
    const path = `/api/projects/${tenant.projectIds[0]}/pipeline_transformation_configs`;
    const ids: unknown[] = [];
    for (const order of [3, 1, 1, -5]) {
      ids.push((await other.post(path, { ...filter, order })).body.id);
    }
    await other.patch(`${path}/${ids[1]}`, { deleted: true });
    const { body } = await other.get(path);
    expect([body.count, body.results.map(({ id }) => id)]).toEqual([3, [ids[3], ids[2], ids[0]]]);
    const page = await other.get(`${path}?limit=1&offset=1`);
    expect(page.body.results.map(({ id }) => id)).toEqual([ids[2]]);
  });

  test('PATCH changes what is sent; the plugin is fixed', async () => {
    const created = await api.make(configs, filter);
    const path = `${configs}/${created.id}`;
    expect(await api.patch(path, { enabled: true, name: 'mine', match_action: 7 })).toMatchObject({
      status: 200,
      body: { enabled: true, name: 'mine', match_action: 7, order: 1 },
    });
    expect((await api.patch(path, { name: null })).body.name).toBe('Filter events');
    const refused = await api.patch(path, { plugin: 1 });
    expect([refused.status, refused.body.attr]).toEqual([400, 'plugin']);
    expect((await api.patch(path, { plugin: 2 })).status).toBe(200);
  });

  test('a secret that is not sent, or is sent masked, is kept', async () => {
    const { id } = await api.make(configs, hash);
    const path = `${configs}/${id}`;
    const changed = await api.patch(path, { config: { properties: 'phone', salt: '********' } });
    expect(JSON.parse(String(changed.body.config))).toMatchObject({
      properties: 'phone',
      salt: '********',
    });
    const cleared = await api.patch(path, { config: { salt: null } });
    expect(cleared.body).toMatchObject({ code: 'required', attr: 'config__salt' });
  });

  test('deleted also disables, can be undone, and retrieve still finds it', async () => {
    const { id } = await api.make(configs, { ...filter, enabled: true });
    const path = `${configs}/${id}`;
    const marked = await api.patch(path, { deleted: true });
    expect(marked.body).toMatchObject({ deleted: true, enabled: false });
    expect((await api.get(path)).status).toBe(200);
    const undone = await api.patch(path, { deleted: false });
    expect(undone.body).toMatchObject({ deleted: false, enabled: false });
  });

  test('DELETE removes it for good: 204, then 404', async () => {
    const { id } = await api.make(configs, filter);
    expect((await api.delete(`${configs}/${id}/`)).status).toBe(204);
    expect((await api.get(`${configs}/${id}`)).status).toBe(404);
    expect((await api.delete(`${configs}/${id}`)).status).toBe(404);
  });

  test('delivery_rate_24h is the share of rows without error, error the last text', async () => {
    const { id } = await api.make(configs, filter);
    await api.sql`update pipeline_transformation_configs set error = 'it broke', handled = jsonb_build_array(
         jsonb_build_object('hour', now(), 'rows', 1000, 'errors', 1),
         jsonb_build_object('hour', now() - interval '2 days', 'rows', 50, 'errors', 50)) where id = ${id}`;
    const { body } = await api.get(`${configs}/${id}`);
    expect(body).toMatchObject({ delivery_rate_24h: '0.999', error: 'it broke' });
    expect(body.details).toMatchObject({ delivery_rate_24h: 0.999 });
  });
});

describe('rearrange', () => {
  test('moves several steps at once and answers the whole chain', async () => {
    const first = await api.make(configs, { ...filter, order: 10 });
    const second = await api.make(configs, { ...filter, order: 20 });
    const orders = { [first.id]: 40, [second.id]: 30 };
    const { status, body } = await api.patch(`${configs}/rearrange/`, { orders });
    expect(status).toBe(200);
    expect(body).toMatchObject({ id: first.id, order: 40 });
    const moved = body.results.filter(({ id }) => id === first.id || id === second.id);
    expect(moved.map(({ id }) => id)).toEqual([second.id, first.id]);
  });

  test('takes the fields of the seed if the plugin has one config', async () => {
    const only = await api.make(configs, { plugin: 4, order: 1, config: { names: '{"a":"b"}' } });
    expect(await api.patch(`${configs}/rearrange`, { plugin: 4, order: 9 })).toMatchObject({
      status: 200,
      body: { id: only.id, order: 9 },
    });
  });

  test('moves nothing if one id is not of this project', async () => {
    const own = await api.make(configs, { ...filter, order: 5 });
    const orders = { [own.id]: 6, 2147483647: 7 };
    expect(await api.patch(`${configs}/rearrange`, { orders })).toMatchObject({
      status: 400,
      body: { code: 'does_not_exist', attr: 'orders__2147483647' },
    });
    expect((await api.get(`${configs}/${own.id}`)).body.order).toBe(5);
  });
});

describe('job and frontend', () => {
  test('job records the sample job and answers the config', async () => {
    const { id } = await api.make(configs, filter);
    const { status, body } = await api.post(`${configs}/${id}/job/`, {});
    expect(status).toBe(200);
    expect(body.id).toBe(id);
    const asked = await api.sql`
      select from pipeline_transformation_configs where id = ${id} and sample_asked_at is not null`;
    expect(asked).toHaveLength(1);
  });

  test('frontend has the schema that a form is drawn from', async () => {
    const { id } = await api.make(configs, hash);
    const { status, body } = await api.get(`${configs}/${id}/frontend`);
    expect(status).toBe(200);
    const { config_schema } = body.details as { config_schema: { key: string; secret: boolean }[] };
    expect(config_schema.map(({ key, secret }) => [key, secret])).toEqual([
      ['properties', false],
      ['salt', true],
      ['column', false],
      ['max_error_share', false],
    ]);
  });
});

let plugins: string;

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
    const settings = { on_error: 'reject', max_error_share: '0.1' };
    const config = { token: 'canary', ...settings };
    const step = await api.make(configs, { plugin: body.id, order: 1, enabled: true, config });
    expect(step.enabled).toBe(true);
    expect(JSON.parse(String(step.config))).toEqual({ token: '********', ...settings });
    for (const [key, value] of [
      ['on_error', 'skip'],
      ['max_error_share', '2'],
    ] as const) {
      const config = { token: 'canary', [key]: value };
      const refused = await api.post(configs, { plugin: body.id, order: 1, config });
      expect([refused.status, refused.body.attr]).toEqual([400, `config__${key}`]);
    }
  });

  atNight('take their schema back as it is shown', async () => {
    const { body } = await api.post(plugins, mine);
    const { config_schema: schema } = body;
    const changed = await api.patch(`${plugins}/${body.id}`, { config_schema: schema });
    expect(changed.status, changed.text).toBe(200);
    expect(changed.body.config_schema).toEqual(schema);
  });

  test('a step whose plugin was removed says so if its config is changed, and takes all else', async () => {
    const { body } = await api.post(plugins, mine);
    const own = { plugin: body.id, order: 1, config: { token: 'canary' } };
    const step = await api.make(configs, own);
    await api.sql`delete from plugins where id = ${body.id}`;
    const refused = await api.patch(`${configs}/${step.id}`, { config: { token: 'other' } });
    const gone = { code: 'does_not_exist', attr: 'plugin' };
    expect(refused).toMatchObject({ status: 400, body: gone });
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

  atNight('take the config of a plugin.json as the community publishes it', async () => {
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
    const choice = { type: 'choice', choices: ['true', 'false'], default: 'false' };
    expect((answer.body.config_schema as object[]).slice(0, 4)).toEqual([
      { ...field, key: 'map', name: 'map', type: 'json', default: '{"a":1}' },
      { ...field, key: 'n', name: 'n', default: '5' },
      { ...field, ...choice, key: 'on', name: 'on' },
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
