import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { parse } from 'yaml';
import { insertProject } from '../../src/state/store/tenants/tenants.ts';
import { runCli } from '../support/cli.ts';
import { backfill, hour, untilEnded } from '../support/exported-events.ts';
import { bucket, region, startInstallation, testedQueues } from '../support/installation.ts';
import { folderOfTests } from '../support/own-folder.ts';
import { hasBrowser, openBrowser } from '../support/page-under-test.ts';
import { projectRoot, startSluice } from '../support/processes.ts';
import {
  fillShop,
  planShop,
  shopModelNames,
  shopModels,
  shopRows,
  writeShopModels,
} from '../support/stranger-shop.ts';
import { createKey } from '../support/tenants.ts';
import { useStage } from '../support/use-stage.ts';

/** What JavaScript has in every object: as names of models they are names like any other. */
const javaScriptNames = ['constructor', '__proto__'];
const offeredNames = [...shopModelNames, ...javaScriptNames];
const tenantKey = '0b9de1a1-47c4-4b54-9d61-2f6d4dd7c7aa';

const folder = folderOfTests();
let project: string;
let env: Record<string, string>;

const shop = useStage(async () => planShop());
/** The installation of a stranger: own models alone, in a database of their own, and no `events`. */
const installation = useStage(async () => {
  await fillShop(await shop.open(), tenantKey);
  const [orders] = shopModels;
  const models = [...shopModels, ...javaScriptNames.map((name) => ({ ...orders, name }))];
  return startInstallation({
    queue: testedQueues().at(-1) ?? 'postgres',
    workers: 1,
    env: {
      SOURCE_DATABASE_URL: shop.url,
      SHOP_DATABASE_URL: shop.url,
      MODELS_FILE: await writeShopModels(folder, models),
    },
  });
});
beforeAll(async () => {
  const { db, tenant, client, s3, secrets } = installation;
  const { organizationId } = tenant;
  const made = await insertProject(db, { organizationId, name: 'Shop', tenantKey });
  project = `/api/projects/${made.id}`;
  vi.stubEnv('SHOP_DATABASE_URL', shop.url);
  env = {
    ...installation.env,
    SLUICE_URL: client.baseUrl,
    SLUICE_KEY: tenant.key,
    SLUICE_PROJECT: String(made.id),
    KEY_ID: secrets.get('the access key id') ?? '',
    SECRET: secrets.get('the secret access key') ?? '',
    ENDPOINT: s3.endpoint,
  };
}, 120_000);
afterAll(() => vi.unstubAllEnvs());

const sluice = (...args: string[]) => runCli(args, { env });

const destination = {
  type: 'S3',
  config: {
    bucket_name: bucket,
    region,
    prefix: '{table}/{batch_export_id}/',
    endpoint_url: `\${ENDPOINT}`,
    aws_access_key_id: `\${KEY_ID}`,
    aws_secret_access_key: `\${SECRET}`,
  },
};

test('the installation offers its models, and no events, which its source does not have', async () => {
  const { body } = await installation.client.get('/api/capabilities');
  const { models } = body as unknown as { models: { name: string; event_filters: boolean }[] };
  expect(models.map(({ name }) => name)).toEqual(offeredNames);
  expect(models.filter((model) => model.event_filters).map(({ name }) => name)).toEqual([
    'orders',
    ...javaScriptNames,
  ]);
  const { body: ready } = await installation.client.get('/_readyz');
  expect(JSON.stringify(ready)).not.toContain('events');
  for (const { output } of installation.processes) expect(output()).not.toContain('events');
});

test('models list, models check and doctor say nothing of events', async () => {
  for (const args of [['models', 'list', '--json'], ['models', 'check'], ['doctor']]) {
    const { output } = await sluice(...args);
    expect(output).not.toContain('events');
    expect(output).toContain('line_items');
  }
});

test('the API names the models that there are, and takes the others as faults of the body', async () => {
  const { client } = installation;
  const body = { name: 'X', interval: 'hour', destination: { type: 'NoOp', config: {} } };
  const wrong = ['events', 'order', 'toString', 'Orders', ' orders'];
  for (const model of wrong) {
    for (const verb of ['', '/test', '/preview', '/query']) {
      const refused = await client.post(`${project}/batch_exports${verb}`, { ...body, model });
      expect(refused, verb).toMatchObject({
        status: 400,
        body: { code: 'invalid_choice', attr: 'model' },
      });
      for (const name of offeredNames) expect(refused.body.detail).toContain(name);
    }
  }
  const none = await client.post(`${project}/batch_exports`, { ...body, end_at: '2000-01-01' });
  expect(none).toMatchObject({ status: 400, body: { code: 'required', attr: 'model' } });
  for (const name of offeredNames) expect(none.body.detail).toContain(name);
  const all = { ...body, interval: 'never', model: 'order', dsl_query: 'select 1 from order' };
  const refused = await client.post(`${project}/batch_exports`, all);
  const attrs = refused.body.errors.map(({ attr }) => attr).sort();
  expect(attrs).toEqual(['dsl_query', 'interval', 'model']);
});

test('export and apply know every model, and exports of each deliver all rows', async () => {
  const wanted = offeredNames.map((model) => ({
    name: `Own ${model}`,
    interval: 'hour',
    model,
    end_at: '2024-12-31T00:00:00Z',
    destination,
  }));
  const file = path.join(folder, 'exports.yaml');
  await writeFile(file, JSON.stringify({ exports: wanted }));
  const applied = await sluice('apply', '-f', file);
  expect(applied, applied.output).toMatchObject({ code: 0, err: '' });
  const printed = await sluice('export');
  expect(printed).toMatchObject({ code: 0, err: '' });
  const { exports } = parse(printed.out) as { exports: { model: string }[] };
  expect(exports.map(({ model }) => model)).toEqual(offeredNames);
  await writeFile(
    file,
    printed.out
      .replaceAll(/\{OWN_\w+?_AWS_ACCESS_KEY_ID\}/g, '{KEY_ID}')
      .replaceAll(/\{OWN_\w+?_AWS_SECRET_ACCESS_KEY\}/g, '{SECRET}'),
  );
  const again = await sluice('apply', '-f', file);
  expect(again.out, again.err).toContain(
    `No change: ${offeredNames.length} exports as in the file.`,
  );
  const { out } = await sluice('exports', 'list', '--json');
  const listed = JSON.parse(out) as { id: string; model: string }[];
  expect(listed).toHaveLength(offeredNames.length);
  for (const { id } of listed)
    await backfill(
      {
        ...installation,
        tenant: { ...installation.tenant, projectIds: [Number(env.SLUICE_PROJECT), 0] },
      },
      id,
      hour,
    );
  for (const { id, model } of listed) {
    const [run] = await untilEnded(installation, id);
    expect({ ...run, model }).toMatchObject({ status: 'Completed', rows: shopRows });
  }
  const verify = startSluice('clients/cli/sluice.js', ['verify', '--json'], { env });
  expect((await verify.waitForExit(120_000)).code, verify.output()).toBe(0);
  expect(JSON.parse(verify.output())).toMatchObject({
    rows: offeredNames.length * shopRows,
    findings: [],
  });
});

test('the document and the typed client name no model', async () => {
  const { body } = await installation.client.get('/api/openapi.json');
  const schemas: object[] = [];
  JSON.stringify(body, (name, value) => {
    if (name === 'model') schemas.push(value);
    return value;
  });
  expect(schemas.length).toBeGreaterThan(5);
  for (const schema of schemas) {
    if (typeof schema === 'string') expect(schema).not.toBe('events');
    else expect(Object.keys(schema)).not.toContain('enum');
  }
  const types = await readFile(path.join(projectRoot, 'dist/api-schema.d.ts'), 'utf8');
  const typesOfModel = types.match(/^\s+readonly model\??: .*$/gm) ?? [];
  expect(typesOfModel.length).toBeGreaterThan(5);
  for (const type of typesOfModel) expect(type).toMatch(/: (string|unknown);$/);
});

describe.skipIf(!hasBrowser)('the page', () => {
  let browser: Browser;
  let page: Page;

  beforeAll(async () => {
    ({ browser, page } = await openBrowser());
    const { client, tenant } = installation;
    await page.goto(client.baseUrl);
    const projectIds = [Number(env.SLUICE_PROJECT)];
    const { organizationId } = tenant;
    const { key } = await createKey(installation.db, { organizationId, projectIds });
    await page.getByLabel('API key').fill(key);
    await button('Sign in').click();
    await page.getByRole('link', { name: 'New export' }).first().waitFor();
  });
  afterAll(() => browser?.close());

  const button = (name: string) => page.getByRole('button', { name, exact: true });

  test('offers each model, asks for one, and creates an export of it', async () => {
    await page.goto(`${installation.client.baseUrl}/#/${env.SLUICE_PROJECT}/new`);
    const model = page.getByLabel('Model', { exact: true });
    await model.waitFor();
    expect(await model.locator('option').allTextContents()).toEqual(['Choose…', ...offeredNames]);
    await page.getByLabel('Name', { exact: true }).fill('From the form');
    await page.getByLabel('Type', { exact: true }).selectOption('NoOp');
    await button('Create export').click();
    const problems = page.locator('.problems').getByRole('listitem');
    await problems.getByText('Model').waitFor();
    expect(await problems.count()).toBe(1);
    await model.selectOption('user');
    await page.locator('.more > summary').click();
    const query = page.getByLabel('Query optional', { exact: true });
    expect(await query.getAttribute('placeholder')).toContain('from "user"');
    expect(await page.locator('#destination__config__include_events').count()).toBe(0);
    await query.fill('select "select" as who, "größe" from "user"');
    await button('Preview rows').click();
    const table = page.getByRole('region', { name: 'Preview of rows' });
    await table.getByRole('columnheader', { name: 'größe' }).waitFor();
    await button('Create export').click();
    await page.getByRole('heading', { name: 'From the form', level: 1 }).waitFor();
    const { results } = (await installation.client.get(`${project}/batch_exports`)).body;
    expect(results.find(({ name }) => name === 'From the form')).toMatchObject({ model: 'user' });
  });

  test('tries a chain on rows of the model that is chosen', async () => {
    const set = ['--set', 'properties=Plan', '--set', 'column=Details'];
    const step = ['transformations', 'create', 'Drop properties', ...set, '--name', 'No plan'];
    const made = await sluice(...step, '--enabled');
    expect(made.code, made.output).toBe(0);
    await page.goto(`${installation.client.baseUrl}/#/${env.SLUICE_PROJECT}/transformations`);
    const model = page.getByLabel('Model', { exact: true });
    await model.waitFor();
    expect(await model.locator('option').allTextContents()).toEqual(['Choose…', ...offeredNames]);
    await model.selectOption('constructor');
    await button('Run the lab').click();
    await page.getByText('Details.Plan').first().waitFor();
  });
});
