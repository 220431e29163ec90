import { beforeAll, describe, expect, test } from 'vitest';
import { openDestinationConfig } from '../../src/service/use-cases/exports/destination.ts';
import { openPluginConfig } from '../../src/service/use-cases/transformations/open-chain.ts';
import type { ApiClient } from '../support/api-client.ts';
import { startApiBeside, useApi } from '../support/api-under-test.ts';
import { exportBody } from '../support/batch-export-bodies.ts';
import { testSecrets } from '../support/test-secrets.ts';
import { useStage } from '../support/use-stage.ts';

const secrets = testSecrets();
const canary = 'canary-7f1d';
let client: ApiClient;
let plugins: string;
let configs: string;

const api = useApi();
const beside = useStage(() =>
  startApiBeside(api, ({ context }) => ({ context: { ...context, secrets } })),
);
beforeAll(async () => {
  client = beside.client;
  plugins = `/api/organizations/${api.tenant.organizationId}/plugins`;
  configs = `${api.project}/pipeline_transformation_configs`;
});

/** Every answer that a tenant gets here, to look for what was sealed. */
async function ask(method: string, path: string, body?: unknown) {
  const answer = await client.send(method, path, body === undefined ? {} : { body });
  expect(answer.text).not.toContain(canary);
  return answer;
}

/** An own plugin with a sealed and a plain setting, and a step that uses it. */
async function sealedStep() {
  const plugin = await ask('POST', plugins, {
    name: 'Own',
    source: 'export function processEvent(event) { return event; }',
    config_schema: [{ key: 'token', secret: true }, { key: 'plain' }],
  });
  const step = await ask('POST', configs, {
    plugin: plugin.body.id,
    order: 1,
    config: { token: canary, plain: 'a' },
  });
  expect([plugin.status, step.status]).toEqual([201, 201]);
  return { plugin: `${plugins}/${plugin.body.id}`, step: `${configs}/${step.body.id}` };
}

/** The settings of the plugin itself, without those that every step has. */
const shown = async (step: string) => {
  const config = JSON.parse(String((await ask('GET', step)).body.config));
  const { on_error: _, max_error_share: __, ...own } = config;
  return own;
};

/** What a run would work with. */
async function opened(step: string) {
  const [row] = await api.sql<{ id: number; config: object; secrets: Buffer | null }>`select id,
    config, config_secrets as secrets from pipeline_transformation_configs
    where id = ${step.split('/').at(-1)}`;
  if (!row) throw new Error('there is no such step');
  expect(JSON.stringify(row.config)).not.toContain(canary);
  return openPluginConfig(secrets, { ...row, config: row.config as Record<string, string> });
}

describe('a setting that was sealed', () => {
  test('stays sealed if the plugin calls it plain later, and still reaches the runs', async () => {
    const { plugin, step } = await sealedStep();
    await ask('PATCH', plugin, { config_schema: [{ key: 'token' }, { key: 'plain' }] });
    expect(await shown(step)).toEqual({ plain: 'a' });
    for (const config of [{ plain: 'b' }, { token: '********' }, {}]) {
      expect((await ask('PATCH', step, { config })).status).toBe(200);
      expect(await opened(step)).toMatchObject({ token: canary });
    }
    await ask('GET', `${configs}?limit=1000`);
    expect(await shown(step)).toEqual({ plain: 'b' });
  });

  test('stays sealed if the setting is removed and added again as a plain one', async () => {
    const { plugin, step } = await sealedStep();
    await ask('PATCH', plugin, { config_schema: [{ key: 'plain' }] });
    await ask('PATCH', step, { config: { plain: 'b' } });
    await ask('PATCH', plugin, {
      config_schema: [{ key: 'token', default: 'd' }, { key: 'plain' }],
    });
    await ask('PATCH', step, { config: { plain: 'c' } });
    expect(await shown(step)).toEqual({ plain: 'c' });
    expect(await opened(step)).toMatchObject({ token: canary, plain: 'c' });
  });

  test('becomes plain with a new value only', async () => {
    const { plugin, step } = await sealedStep();
    await ask('PATCH', plugin, { config_schema: [{ key: 'token' }, { key: 'plain' }] });
    await ask('PATCH', step, { config: { token: 'public' } });
    expect(await shown(step)).toEqual({ token: 'public', plain: 'a' });
  });
});

describe('sealed values that are damaged', () => {
  async function damage(table: string, column: string, id: string | undefined): Promise<void> {
    await api.db.query(
      `update ${table} set ${column} = substring(${column}, 1, 20) where id = $1`,
      [id],
    );
  }
  const destination = {
    type: 'S3',
    config: {
      bucket_name: 'my-events',
      region: 'us-east-1',
      aws_access_key_id: 'AKIAIOSFODNN7EXAMPLE',
      aws_secret_access_key: canary,
    },
  };

  test('of a destination can be stored again, and the error names what to send', async () => {
    const created = await ask('POST', api.exports, exportBody({ destination }));
    const path = `${api.exports}/${created.body.id}`;
    await damage('batch_exports', 'destination_secrets', created.body.id);
    expect((await ask('PATCH', path, { name: 'renamed' })).status).toBe(200);
    const without = await ask('PATCH', path, { destination: { config: { prefix: 'a' } } });
    expect(without.status).toBe(400);
    const attrs = without.body.errors.map(({ attr }) => attr);
    expect(attrs).toContain('destination__config__aws_secret_access_key');
    expect(without.body.detail).toMatch(/cannot be decrypted\. Send \w+ again/);
    const again = Object.fromEntries(
      attrs.map((attr) => [String(attr).replace('destination__config__', ''), null]),
    );
    const config = { ...again, ...destination.config, prefix: 'a' };
    const stored = await ask('PATCH', path, { destination: { config } });
    expect(stored.status, stored.text).toBe(200);
    const [row] = await api.sql<{ config: object; secrets: Buffer }>`select destination_config
      as config, destination_secrets as secrets from batch_exports where id = ${created.body.id}`;
    const { config: plain = {}, secrets: box = null } = row ?? {};
    expect(
      openDestinationConfig(secrets, created.body.id, {
        type: 'S3',
        config: plain as Record<string, unknown>,
        secrets: box,
      }),
    ).toMatchObject({ aws_secret_access_key: canary, prefix: 'a' });
  });

  test('of a transformation too', async () => {
    const { step } = await sealedStep();
    await damage('pipeline_transformation_configs', 'config_secrets', step.split('/').at(-1));
    const without = await ask('PATCH', step, { config: { plain: 'b' } });
    expect([without.status, without.body]).toMatchObject([
      400,
      { code: 'required', attr: 'config__token' },
    ]);
    expect((await ask('PATCH', step, { config: { token: canary, plain: 'b' } })).status).toBe(200);
    expect(await opened(step)).toMatchObject({ token: canary, plain: 'b' });
  });
});
