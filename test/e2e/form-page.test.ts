import { readdirSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import type { Locator, Page } from 'playwright-core';
import { beforeAll, describe, expect, test } from 'vitest';
import { type ApiClient, createApiClient } from '../support/api-client.ts';
import { allowBriefReceipts } from '../support/brief-receipts.ts';
import { atNight } from '../support/nightly.ts';
import { expectToBeAccessible } from '../support/page-checks.ts';
import { hasBrowser, pageBucket, pageCredentials, startPage } from '../support/page-under-test.ts';
import { projectRoot } from '../support/processes.ts';
import { fillShop, shopModelNames } from '../support/stranger-shop.ts';
import { useStage } from '../support/use-stage.ts';

const exportsPath = '/api/projects/@current/batch_exports';

test('the page has at most 180 kB, compressed', () => {
  const folder = path.join(projectRoot, 'dist/console/assets');
  const names = readdirSync(folder);
  // What has no compressed file is sent as it is.
  const sent = names
    .filter((name) => !/\.(br|gz)$/.test(name))
    .map((name) => (names.includes(`${name}.gz`) ? `${name}.gz` : name));
  const sizes = sent.map((name) => statSync(path.join(folder, name)).size);
  expect(sizes.length).toBeGreaterThan(2);
  expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThanOrEqual(180_000);
});

describe.skipIf(!hasBrowser)('the form of an export', () => {
  let page: Page;
  let client: ApiClient;
  let saved: string;

  const site = useStage(() => startPage('main/api.js'));
  beforeAll(async () => {
    await allowBriefReceipts(site);
    ({ page } = site);
    client = createApiClient(site.address, await site.issueKey('batch_export:write'));
    await fillShop(site.shop, '1', { rows: 5 });
    await page.setViewportSize({ width: 1440, height: 900 });
    await page.goto(site.address);
    await page.getByLabel('API key').fill(await site.issueKey('batch_export:write'));
    await button('Sign in').click();
    await page.getByRole('link', { name: 'New export' }).first().click();
    await field('Name').waitFor();
  });

  const button = (name: string) => page.getByRole('button', { name, exact: true });
  const field = (name: string) => page.getByLabel(name, { exact: true });
  const setting = (name: string) => page.locator(`#destination__config__${name}`);
  const problems = () => page.locator('.problems');
  const more = () => page.locator('.more > summary');
  const written = () => page.getByRole('complementary', { name: 'What will be written' });
  const asks = () => page.getByRole('dialog', { name: 'The test of the destination failed' });
  const choicesOf = (name: string) => field(name).locator('option').allTextContents();

  test('has what each export needs on one screen, and says what will be written', async () => {
    const bottomOf = async (element: Locator) => {
      const box = await element.boundingBox();
      return (box?.y ?? Number.NaN) + (box?.height ?? Number.NaN);
    };
    for (const name of ['Create export', 'Test destination', 'Preview rows']) {
      expect(await bottomOf(button(name))).toBeLessThan(900);
    }
    for (const name of ['bucket_name', 'region', 'aws_secret_access_key', 'file_format']) {
      expect(await setting(name).isVisible()).toBe(true);
    }
    await more().getByText('all as usual').waitFor();
    await written()
      .getByText(/^\d{8}T\d{6}Z-\d{8}T\d{6}Z\.jsonl$/)
      .waitFor();
    await more().click();
    await setting('prefix').fill('in/{year}');
    await setting('compression').selectOption('gzip');
    await more().getByText('2 settings of its own: Prefix, Compression').waitFor();
    await written()
      .getByText(/^in\/\d{4}\/.*\.jsonl\.gz$/)
      .waitFor();
    await page.getByText('Now: one file for each interval. Longer intervals').waitFor();
    // In words of users.
    expect(await page.locator('form').textContent()).not.toMatch(/null|_url|high_water|file_name/);
    await setting('prefix').fill('');
    await setting('compression').selectOption('');
    await more().click();
  });

  test('offers only what this installation has, and says its rules', async () => {
    expect(await choicesOf('Type')).toEqual(['S3', 'NoOp']);
    expect(await choicesOf('Interval')).not.toContain('every 1 minutes');
    await page.getByText('Shorter intervals are not allowed in this installation.').waitFor();
    await page.getByText('This installation does not share its own credentials').waitFor();
    expect(await field('AWS access key ID').getAttribute('aria-required')).toBe('true');
    await page.getByText('Endpoints must be public, or be allowed by your operator.').waitFor();
    expect(await setting('infinity').isVisible()).toBe(false);
    await more().click();
    expect(await choicesOf('Compression optional')).toEqual(['None', 'gzip', 'brotli', 'zstd']);
    await setting('compression').selectOption('brotli');
    await setting('file_format').selectOption('Parquet');
    expect(await setting('compression').inputValue()).toBe('brotli');
    await setting('compression').selectOption('snappy');
    expect(await setting('csv_arrays').count()).toBe(0);
    expect(await setting('decimal_columns').count()).toBe(1);
    expect(await setting('partition_by').count()).toBe(1);
    await setting('file_format').selectOption('CSV');
    expect(await setting('compression').inputValue()).toBe('');
    expect(await setting('infinity').locator('option').first().textContent()).toMatch(/default/);
    expect(await setting('csv_arrays').count()).toBe(1);
  });

  test('shows all problems at once, in its own words, with a way to each field', async () => {
    await setting('endpoint_url').fill('nonsense');
    await setting('aws_access_key_id').fill(pageCredentials.accessKeyId);
    await page.locator('#end_at').fill('2024-03-01T00:00');
    // The day alone is no time.
    await page.locator('#start_at').focus();
    await page.keyboard.type('12');
    expect(await choicesOf('Model')).toEqual([...shopModelNames, 'events']);
    await field('Model').selectOption('orders');
    await field('Query optional').fill('select nothing from orders');
    let answer: () => void = () => {};
    const asked = new Promise<void>((resolve) => {
      answer = resolve;
    });
    await page.route('**/batch_exports', async (route) => {
      await asked;
      await route.fallback();
    });
    await button('Create export').click();
    // Nothing before the API has answered: what the page finds by itself would be a first wave.
    expect(await problems().count()).toBe(0);
    answer();
    await problems().waitFor();
    await page.unroute('**/batch_exports');
    await expect.poll(() => page.locator(':focus').getAttribute('class')).toContain('problems');
    const items = problems().getByRole('listitem');
    expect(await items.allTextContents()).toEqual([
      'Name: Enter a name.',
      'Bucket name: Enter a value.',
      'Region: Enter a value.',
      'AWS secret access key: Required with “AWS access key ID”.',
      expect.stringContaining('Query: '),
      'Endpoint URL: Use a URL, such as https://s3.example.com.',
      'Start: Complete the value, or clear the field.',
    ]);
    for (const attr of ['name', 'start_at', 'dsl_query', 'destination__config__region']) {
      expect(await page.locator(`#${attr}`).getAttribute('aria-invalid')).toBe('true');
    }
    await problems().getByRole('button', { name: 'Bucket name' }).click();
    expect(await page.locator(':focus').getAttribute('id')).toBe(
      'destination__config__bucket_name',
    );
    await expectToBeAccessible(page);
    expect((await client.get(exportsPath)).body.count).toBe(0);
  });

  test('tests the destination and previews the rows before anything is saved', async () => {
    await field('Name').fill('Orders to acme');
    await setting('bucket_name').fill('no-such-bucket');
    await setting('region').fill('us-east-1');
    await setting('aws_secret_access_key').fill(pageCredentials.secretAccessKey);
    await setting('endpoint_url').fill(site.s3.endpoint);
    // What is about no field is beside the button that was pressed.
    await page.context().setOffline(true);
    const besideOf = (name: string) => page.locator('.check').filter({ has: button(name) });
    for (const name of ['Test destination', 'Preview rows']) {
      await button(name).press('Enter');
      await besideOf(name).getByRole('alert').getByText('The service is unreachable').waitFor();
      expect(await page.getByRole('alert').count()).toBe(1);
      expect(await page.locator(':focus').textContent()).toBe(name);
    }
    await page.context().setOffline(false);
    await button('Test destination').click();
    await page.locator('.steps .failed').getByText('The bucket does not exist').waitFor();
    await setting('bucket_name').fill(pageBucket);
    await button('Test destination').click();
    await page.locator('.steps').getByText('Remove the file passed').waitFor();
    expect(await page.locator('.steps .failed').count()).toBe(0);

    await button('Preview rows').click();
    await problems().getByRole('listitem').getByText('Query').waitFor();
    expect(await problems().getByRole('listitem').count()).toBe(1);
    await field('Query optional').fill('select state, "Details"."Plan" as plan from orders');
    await button('Preview rows').click();
    const table = page.getByRole('region', { name: 'Preview of rows' });
    await table.getByRole('columnheader', { name: 'plan' }).waitFor();
    expect(await table.getByRole('row').count()).toBe(6);
    expect(await problems().count()).toBe(0);
    await expectToBeAccessible(page);
    expect((await client.get(exportsPath)).body.count).toBe(0);
    expect(site.s3.objects(pageBucket)).toEqual([]);
  });

  test('opens More and moves the focus to a problem there', async () => {
    await more().click();
    expect(await setting('prefix').isVisible()).toBe(false);
    await setting('prefix').evaluate((input) => input.closest('details')?.setAttribute('open', ''));
    await setting('prefix').fill('{colour}');
    await page.locator('#end_at').fill('');
    await page.locator('#start_at').fill('');
    await more().click();
    await button('Create export').click();
    await expect
      .poll(() => page.locator(':focus').getAttribute('id'))
      .toBe('destination__config__prefix');
    expect(await setting('prefix').isVisible()).toBe(true);
    await setting('prefix').fill('');
  });

  test('saves the options that it shows', async () => {
    await page.locator('#start_at').fill('');
    await page.locator('#end_at').fill('');
    await setting('csv_arrays').selectOption('postgres');
    await setting('infinity').selectOption('limit');
    await setting('on_rejected').selectOption('fail');
    await setting('replace_invalid_unicode').check();
    await setting('exclude_events').fill('new');
    // Complete and valid, but for the place: nothing is created before the person has confirmed it.
    await setting('bucket_name').fill('no-such-bucket');
    await button('Test destination').click();
    await page.locator('.steps .failed').first().waitFor();
    await button('Create export').click();
    await asks().getByRole('button', { name: 'Create export anyway' }).waitFor();
    await asks().getByRole('button', { name: 'Cancel' }).click();
    await asks().waitFor({ state: 'hidden' });
    expect(await page.locator(':focus').textContent()).toBe('Create export');
    expect((await client.get(exportsPath)).body.count).toBe(0);
    await setting('bucket_name').fill(pageBucket);
    await button('Create export').click();
    await page.getByRole('heading', { name: 'Orders to acme', level: 1 }).waitFor();
    const { results } = (await client.get(exportsPath)).body;
    expect(results).toHaveLength(1);
    expect(results[0]).toMatchObject({ model: 'orders', start_at: null, end_at: null });
    expect(results[0]?.destination.config).toMatchObject({
      file_format: 'CSV',
      compression: null,
      csv_arrays: 'postgres',
      infinity: 'limit',
      on_rejected: 'fail',
      replace_invalid_unicode: true,
      exclude_events: ['new'],
    });
    saved = String(results[0]?.id);
  });

  atNight(
    'asks for the secrets again to test another place, and resets what no longer applies',
    async () => {
      await page.getByRole('link', { name: 'Edit' }).click();
      await button('Test destination').click();
      await page.locator('.steps').getByText('Remove the file passed').waitFor();
      await setting('endpoint_url').fill('https://s3.example.com');
      await button('Test destination').click();
      await expect
        .poll(() => problems().getByRole('listitem').allTextContents())
        .toEqual(
          ['AWS access key ID', 'AWS secret access key'].map((label) =>
            expect.stringContaining(`${label}: Send “${label}” again`),
          ),
        );
      await setting('endpoint_url').fill(site.s3.endpoint);
      await setting('file_format').selectOption('JSONLines');
      await setting('aws_access_key_id').fill(pageCredentials.accessKeyId);
      await setting('aws_secret_access_key').fill('another-secret-of-the-page');
      await button('Test destination').click();
      await page.locator('.steps .failed').first().waitFor();
      await button('Save changes').click();
      await asks().getByRole('button', { name: 'Save changes anyway' }).click();
      await page.getByText('Orders to acme is changed.').waitFor();
      const { destination } = (await client.get(`${exportsPath}/${saved}`)).body;
      expect(destination.config).toMatchObject({ file_format: 'JSONLines', csv_arrays: 'json' });
      expect(destination.config).toMatchObject({ infinity: 'limit', exclude_events: ['new'] });
    },
  );

  test('violates no rule of its content policy, and throws nothing', async () => {
    const answer = await fetch(`${site.address}/console/`);
    const html = await answer.text();
    expect(answer.headers.get('content-security-policy')).toContain("script-src 'self'");
    expect(answer.headers.get('cache-control')).toBe('no-cache');
    const [script = ''] = /\/console\/assets\/[^"]+\.js/.exec(html) ?? [];
    const asset = await fetch(`${site.address}${script}`);
    expect(asset.headers.get('cache-control')).toContain('immutable');
    const unpacked = readFileSync(path.join(projectRoot, 'dist', script), 'utf8');
    for (const [taken, coding] of [
      ['gzip, deflate, br, zstd', 'br'],
      ['gzip;q=1.0, br;q=0', 'gzip'],
      ['GZIP', 'gzip'],
      ['identity', null],
      ['gzip;q=0, br ; q=0.0', null],
      ['brown', null],
    ] as const) {
      const found = await fetch(`${site.address}${script}`, {
        headers: { 'accept-encoding': taken },
      });
      expect(found.headers.get('content-encoding')).toBe(coding);
      expect(found.headers.get('vary')).toContain('accept-encoding');
      expect((await found.text()) === unpacked).toBe(true);
    }
    // What the build wrote beside the asset is what was sent, and has no address of its own.
    expect((await fetch(`${site.address}${script}.br`)).status).toBe(404);
    const document = await fetch(`${site.address}/api/openapi.json`, {
      headers: { 'accept-encoding': 'br' },
    });
    expect(document.headers.get('content-encoding')).toBe('br');
    expect(await document.json()).toHaveProperty('openapi', '3.1.0');
    expect((await fetch(`${site.address}/console/assets/none.js`)).status).toBe(404);
    expect(site.faults).toEqual([]);
  });
});
