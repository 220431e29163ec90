import type { Page } from 'playwright-core';
import { beforeAll, describe, expect, test } from 'vitest';
import { systemClock } from '../../src/foundation/domain/clock.ts';
import { toTimestamp } from '../../src/foundation/domain/time.ts';
import { type ApiClient, createApiClient } from '../support/api-client.ts';
import { expectToBeAccessible, signInTo } from '../support/page-checks.ts';
import { hasBrowser, pageBucket, pageCredentials, startPage } from '../support/page-under-test.ts';
import { until } from '../support/until.ts';
import { useStage } from '../support/use-stage.ts';

const hour = 3_600_000;
const rows = 40;
const salt = 'canary-salt-of-the-step';
const chainPath = '/api/projects/@current/pipeline_transformation_configs';
const exportsPath = '/api/projects/@current/batch_exports';

describe.skipIf(!hasBrowser)('the page of transformations, over the whole service', () => {
  let page: Page;
  let client: ApiClient;
  const runHour = Math.floor(systemClock.now() / hour) * hour - hour;

  const site = useStage(startPage);
  beforeAll(async () => {
    ({ page } = site);
    const key = await site.issueKey('batch_export:write,plugin:write');
    client = createApiClient(site.address, key);
    await site.insertEvents(runHour, 1, rows);
    await page.goto(site.address);
    await signInTo(page, key);
  });

  const place = (name: string) =>
    page.getByRole('navigation', { name: 'Parts of the project' }).getByRole('link', { name });
  const button = (name: string) => page.getByRole('button', { name, exact: true });
  const shownOrder = () => page.locator('.step h2 a').allTextContents();

  /** The order that runs use. */
  async function storedOrder(): Promise<unknown[]> {
    const { body } = await client.get(chainPath);
    return body.results.map(({ name }) => name);
  }

  async function createStep(plugin: string, name: string, fill: () => Promise<void>) {
    await page.getByRole('link', { name: 'New step' }).click();
    await page.getByLabel('Plugin').selectOption({ label: plugin });
    await page.getByLabel('Name', { exact: true }).fill(name);
    await fill();
    // Whether it is enabled is asked, so that no step is taken for one that masks.
    await button('Create step').click();
    await page.getByText('Choose one.').waitFor();
    await page.getByText('No export of the project applies the chain').waitFor();
    await page.getByLabel('Enabled').selectOption('no');
    await button('Create step').click();
    await page.getByRole('link', { name, exact: true }).waitFor();
  }

  test('creates steps from plugins, with the fields of their schemas', async () => {
    await place('Transformations').click();
    await page.getByRole('heading', { name: 'No transformations yet' }).waitFor();
    await createStep('Drop properties', 'Drop the plan', async () => {
      await page.getByLabel('Properties', { exact: true }).fill('plan');
      expect(await page.getByLabel('Column').inputValue()).toBe('properties');
      expect(await page.getByLabel('Rows with errors').inputValue()).toBe('keep');
    });
    await createStep('Hash properties', 'Hash users', async () => {
      await page.getByLabel('Properties', { exact: true }).fill('email');
      expect(await page.getByLabel('Salt').getAttribute('type')).toBe('password');
      await page.getByLabel('Salt').fill(salt);
    });
    expect(await shownOrder()).toEqual(['Drop the plan', 'Hash users']);
    expect(await storedOrder()).toEqual(['Drop the plan', 'Hash users']);
  });

  test('never shows a secret, and a change keeps it', async () => {
    await page.getByRole('link', { name: 'Hash users' }).click();
    const input = page.getByLabel('Salt');
    await input.waitFor();
    expect(await input.inputValue()).toBe('');
    expect(await input.getAttribute('placeholder')).toBe('unchanged');
    const values = await page.evaluate(
      "[...document.querySelectorAll('input, textarea')].map(({ value }) => value).join(' ')",
    );
    expect(`${await page.content()} ${values}`).not.toMatch(/canary-salt|\*{4}/);
    await page.getByLabel('Properties', { exact: true }).fill('email, phone');
    await expectToBeAccessible(page);
    await button('Save changes').click();
    await page.getByRole('heading', { name: 'Transformations', level: 1 }).waitFor();
    const { body } = await client.get(chainPath);
    const [, changed] = body.results;
    expect(JSON.parse(String(changed?.config))).toMatchObject({
      properties: 'email, phone',
      salt: '********',
    });
  });

  test('shows all problems of a new step at once', async () => {
    await page.getByRole('link', { name: 'New step' }).click();
    await page.getByLabel('Plugin').selectOption({ label: 'Drop properties' });
    await page.getByLabel('Properties', { exact: true }).fill('plan');
    await page.getByLabel('Highest share of errors').fill('seven');
    await button('Create step').click();
    await page.getByText('Choose one.').waitFor();
    await page.getByText(/Write a number from 0 to 1/).waitFor();
    await page.getByText('Please correct 2 fields.').waitFor();
    expect(await page.locator(':focus').getAttribute('aria-invalid')).toBe('true');
    expect(await storedOrder()).toEqual(['Drop the plan', 'Hash users']);
    await page.getByRole('link', { name: 'Discard' }).click();
    await page.getByRole('link', { name: 'Drop the plan' }).click();
    await page.getByLabel('Highest share of errors').waitFor();
  });

  test('tries settings that are not stored, and shows what they change', async () => {
    await page.getByLabel('Highest share of errors').fill('0.5');
    await page.getByLabel('Properties', { exact: true }).fill('price');
    await page.getByLabel('Try it on').selectOption('Rows that I write');
    const written = page.getByLabel('Rows', { exact: true });
    await written.fill('{"event": ');
    await button('Run the lab').click();
    await expect.poll(() => written.getAttribute('aria-invalid')).toBe('true');
    await written.fill('{"event": "buy", "properties": {"price": 12.5, "plan": null}}');
    await button('Run the lab').click();
    await page.getByText('1 row in, 1 out.').waitFor();
    const change = page.getByRole('row').filter({ hasText: 'properties.price' });
    expect(await change.getByRole('cell').allTextContents()).toEqual(['12.5', 'removed']);
    expect(await page.getByRole('row').count()).toBe(2);
    expect(await page.locator('.tried').textContent()).toMatch(/\d+ µs/);
    await page.getByText('Whole row before and after').click();
    const [before, after] = await page.locator('.tried pre').allTextContents();
    expect(JSON.parse(before ?? '')).toEqual({
      event: 'buy',
      properties: { price: 12.5, plan: null },
    });
    expect(JSON.parse(after ?? '')).toEqual({ event: 'buy', properties: { plan: null } });
    await expectToBeAccessible(page);
    const { body } = await client.get(chainPath);
    expect(String(body.results[0]?.config)).toContain('"plan"');
    await page.getByRole('link', { name: 'Discard' }).click();
  });

  test('moves a step, says so, and the focus stays on its button', async () => {
    const move = async (way: string, said: string) => {
      await button(`Move Hash users ${way}`).press('Enter');
      await page.getByRole('status').getByText(said).waitFor();
      const label = await page.locator(':focus').getAttribute('aria-label');
      expect(label).toBe(`Move Hash users ${way}`);
    };
    await move('up', 'Hash users is now step 1 of 2.');
    expect(await storedOrder()).toEqual(['Hash users', 'Drop the plan']);
    await expect.poll(shownOrder).toEqual(['Hash users', 'Drop the plan']);
    await move('down', 'Hash users is now step 2 of 2.');
    expect(await storedOrder()).toEqual(['Drop the plan', 'Hash users']);
    await expect.poll(shownOrder).toEqual(['Drop the plan', 'Hash users']);
    await move('up', 'Hash users is now step 1 of 2.');
    await page.reload();
    await button('Move Hash users up').waitFor();
    await expect.poll(shownOrder).toEqual(['Hash users', 'Drop the plan']);
  });

  test('enables and disables steps', async () => {
    await button('Enable Hash users').click();
    await button('Disable Hash users').waitFor();
    await button('Enable Drop the plan').click();
    await button('Disable Drop the plan').click();
    await button('Enable Drop the plan').click();
    await button('Disable Drop the plan').waitFor();
    const { body } = await client.get(chainPath);
    expect(body.results.map(({ enabled }) => enabled)).toEqual([true, true]);
  });

  test('tries the stored chain on the newest rows', async () => {
    await page.getByLabel('Number of rows').fill('2');
    await button('Run the lab').click();
    await page.getByText('2 rows in, 2 out.').waitFor();
    const diffs = page.getByRole('table', { name: 'Changes by Drop the plan' });
    expect(await diffs.count()).toBe(2);
    expect(await diffs.first().getByRole('cell').allTextContents()).toEqual(['"pro"', 'removed']);
  });

  test('shows the rows of each step in the page of a run', async () => {
    const [exportId, runId] = await runExport();
    await page.reload();
    await page.getByText('100% of rows without an error').first().waitFor();
    await page.goto(`${site.address}/console/#/1/exports/${exportId}/runs/${runId}`);
    const counts = page.getByRole('table', { name: 'Rows of each step' });
    const row = counts
      .getByRole('row')
      .filter({ hasText: /^Step \d/ })
      .first();
    await row.waitFor();
    const cells = row.getByRole('cell');
    const shown = [String(rows), String(rows), '0', '0', '0', expect.stringMatching(/^[\d,]+ ms$/)];
    expect(await cells.allTextContents()).toEqual(shown);
    await expectToBeAccessible(page);
  });

  /** A backfill of one hour, with transformations; it has ended when this returns. */
  async function runExport(): Promise<readonly [exportId: string, runId: string]> {
    const { body } = await client.post(exportsPath, {
      name: 'Events to acme',
      interval: 'hour',
      transformations: true,
      destination: {
        type: 'S3',
        config: {
          bucket_name: pageBucket,
          region: 'us-east-1',
          endpoint_url: site.s3.endpoint,
          aws_access_key_id: pageCredentials.accessKeyId,
          aws_secret_access_key: pageCredentials.secretAccessKey,
        },
      },
    });
    const range = { start_at: toTimestamp(runHour), end_at: toTimestamp(runHour + hour) };
    const started = await client.post(`${exportsPath}/${body.id}/backfill`, range);
    expect(started.status, started.text).toBe(200);
    await until(
      async () => {
        const runs = (await client.get(`${exportsPath}/${body.id}/runs`)).body.results;
        return runs.length > 0 && runs.every(({ status }) => status === 'Completed');
      },
      { message: 'the run has completed' },
    );
    const [run] = (await client.get(`${exportsPath}/${body.id}/runs`)).body.results;
    return [body.id, String(run?.id)];
  }

  test('says which exports apply the chain, and a new export asks whether it does', async () => {
    await place('Transformations').click();
    await page.getByText('Applied by 1 of 1 export: Events to acme.').waitFor();
    await place('Exports').click();
    await page.getByRole('link', { name: 'New export' }).first().click();
    const asked = page.getByLabel('Apply transformations');
    await asked.waitFor();
    expect(await asked.inputValue()).toBe('');
    await page.getByLabel('Name', { exact: true }).fill('Complete but for the steps');
    await page.getByLabel('Type', { exact: true }).selectOption('NoOp');
    await button('Create export').click();
    await page.getByText('Choose whether the steps apply.').first().waitFor();
    await expect.poll(() => page.locator(':focus').getAttribute('class')).toContain('problems');
    await page.getByRole('link', { name: 'Discard' }).click();
    await place('Transformations').click();
  });

  test('deletes a step after a question', async () => {
    await button('Delete Hash users').click();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete the step' }).click();
    await page.getByText('Hash users is deleted.').waitFor();
    expect(await storedOrder()).toEqual(['Drop the plan']);
  });

  test('violates no rule of its content policy, and throws nothing', () => {
    expect(site.faults).toEqual([]);
  });
});
