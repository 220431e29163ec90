import type { Page } from 'playwright-core';
import { beforeAll, describe, expect, test } from 'vitest';
import { type ApiClient, createApiClient } from '../support/api-client.ts';
import { expectToBeAccessible, signInTo } from '../support/page-checks.ts';
import { hasBrowser, startPage } from '../support/page-under-test.ts';
import { useStage } from '../support/use-stage.ts';

const targets = '/api/projects/@current/notification_targets';

describe.skipIf(!hasBrowser)('the page of notifications, over the whole service', () => {
  let page: Page;
  let client: ApiClient;

  const site = useStage(startPage);
  beforeAll(async () => {
    ({ page } = site);
    const key = await site.issueKey('batch_export:write');
    client = createApiClient(site.address, key);
    await page.goto(site.address);
    await signInTo(page, key);
  });

  const button = (name: string | RegExp) => page.getByRole('button', { name, exact: true });

  test('says how to create a target, lists it and tests it', async () => {
    await page
      .getByRole('navigation', { name: 'Parts of the project' })
      .getByRole('link', { name: 'Notifications' })
      .click();
    await page.getByText('No notification targets yet').waitFor();
    // The store of the installation answers each request with an error.
    const url = `http://127.0.0.1:${site.s3.port}/hooks`;
    const made = await client.post(targets, { url, description: 'On-call' });
    expect(made.status, made.text).toBe(201);
    await page.reload();
    await page.getByRole('heading', { name: 'On-call' }).waitFor();
    expect(await page.getByText('Enabled', { exact: true }).count()).toBe(1);
    await button('Send a test to On-call').click();
    await page.getByText(/The test failed: HTTP 4\d\d\./).waitFor();
    await page.getByText(/Failing since/).waitFor();
    await button(/^Show deliveries of /).click();
    await page.getByText('Given up').waitFor();
    await expectToBeAccessible(page);
    expect(site.faults).toEqual([]);
  });

  test('creates, edits, disables, rotates and deletes a target', async () => {
    await button('New target').click();
    const dialog = page.getByRole('dialog');
    const secretOf = (name: string) =>
      page.getByRole('dialog', { name: `The secret of ${name}`, exact: true });
    await dialog.getByRole('button', { name: 'Create' }).click();
    await dialog.getByText('Enter the URL that requests are sent to.').first().waitFor();
    await dialog.getByLabel('URL').fill(`http://127.0.0.1:${site.s3.port}/made`);
    await dialog.getByLabel('Description').fill('Made here');
    await dialog.getByLabel('export.on_time').uncheck();
    await dialog.getByLabel('Format').selectOption({ label: 'Slack, Mattermost' });
    await expectToBeAccessible(page);
    await dialog.getByRole('button', { name: 'Create' }).click();
    // The secret stays until it is closed: it is shown only now.
    await secretOf('Made here')
      .getByText(/^whsec_/)
      .waitFor();
    await expectToBeAccessible(page);
    await secretOf('Made here').getByRole('button', { name: 'Done' }).click();
    await button('Edit Made here').click();
    await dialog.getByLabel('Description').fill('Changed here');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('heading', { name: 'Changed here' }).waitFor();
    await button('Disable Changed here').click();
    await button('Enable Changed here').click();
    await button('New secret for Changed here').click();
    await dialog.getByRole('button', { name: 'Make a new secret' }).click();
    await secretOf('Changed here')
      .getByText(/^whsec_/)
      .waitFor();
    await secretOf('Changed here').getByRole('button', { name: 'Done' }).click();
    const { results } = (await client.get(targets)).body;
    const made = results.find((each) => each.description === 'Changed here');
    expect(made).toMatchObject({ enabled: true, format: 'slack' });
    expect(made?.events).not.toContain('export.on_time');
    await button('Delete Changed here').click();
    await dialog.getByRole('button', { name: 'Delete the target' }).click();
    await page
      .getByRole('heading', { name: 'Changed here', exact: true })
      .waitFor({ state: 'hidden' });
    expect(site.faults).toEqual([]);
  });

  test('makes a target of all projects of the organization, and says which one it is', async () => {
    await button('New target').click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('URL').fill(`http://127.0.0.1:${site.s3.port}/all`);
    await dialog.getByLabel('Description').fill('Head office');
    expect(await dialog.getByLabel('Hears of').inputValue()).toBe('project');
    await dialog
      .getByLabel('Hears of')
      .selectOption({ label: 'The exports of all projects of Acme' });
    await expectToBeAccessible(page);
    await dialog.getByRole('button', { name: 'Create' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Done' }).click();
    const made = page.getByRole('listitem', { name: 'Head office' });
    await made.getByText('all projects of Acme').waitFor();
    expect(await page.getByText('all projects of Acme').count()).toBe(1);
    const ofAll = '/api/organizations/@current/notification_targets';
    const found = (await client.get(ofAll)).body.results.find(
      ({ description }) => description === 'Head office',
    );
    expect(found).toMatchObject({ team_id: null });
    await button('Send a test to Head office').click();
    await page.getByText(/The test failed: HTTP 4\d\d\./).waitFor();
    await expectToBeAccessible(page);
    await button('Delete Head office').click();
    await dialog.getByRole('button', { name: 'Delete the target' }).click();
    await expect.poll(() => page.getByRole('heading', { name: 'Head office' }).count()).toBe(0);
    expect(site.faults).toEqual([]);
  });
});
