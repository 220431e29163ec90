import axe from 'axe-core';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type ApiClient, createApiClient } from '../support/api-client.ts';
import { hasBrowser, type PageUnderTest, startPage } from '../support/page-under-test.ts';

const targets = '/api/projects/@current/notification_targets';

describe.skipIf(!hasBrowser)('the page of notifications, over the whole service', () => {
  let site: PageUnderTest;
  let page: Page;
  let client: ApiClient;

  beforeAll(async () => {
    site = await startPage();
    ({ page } = site);
    const key = await site.issueKey('batch_export:write');
    client = createApiClient(site.address, key);
    await page.goto(site.address);
    await signIn(key);
  });
  afterAll(() => site?.close());

  async function signIn(key: string): Promise<void> {
    await page.getByLabel('API key').fill(key);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('button', { name: 'Sign out' }).waitFor();
  }

  const button = (name: string) => page.getByRole('button', { name, exact: true });

  async function expectAccessible(what: string): Promise<void> {
    await page.evaluate(axe.source);
    const found = (await page.evaluate('axe.run()')) as axe.AxeResults;
    const faults = found.violations.map(({ id, nodes }) => `${id}: ${nodes.map((n) => n.html)}`);
    expect(faults, what).toEqual([]);
  }

  test('says how to create a target, lists it, tests it and sends a delivery again', async () => {
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
    await button('Show deliveries').click();
    await page.getByText('Given up').waitFor();
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme });
      await expectAccessible(colorScheme);
    }
    await page.setViewportSize({ width: 390, height: 844 });
    await expectAccessible('phone');
    const width = await page.evaluate('document.documentElement.scrollWidth');
    expect(width).toBeLessThanOrEqual(390);
    await page.setViewportSize({ width: 1_440, height: 900 });
    await button('Send again: test').click();
    await page.getByText('The delivery is sent again within seconds.').waitFor();
    // The worker has attempted it.
    await page
      .getByText(/2 attempts|Given up/)
      .first()
      .waitFor();
    expect(site.faults).toEqual([]);
  });

  test('offers a key that only reads neither test nor repetition', async () => {
    await button('Sign out').click();
    await signIn(await site.issueKey('batch_export:read'));
    await page.goto(`${site.address}/#/notifications`);
    await page.getByRole('heading', { name: 'On-call' }).waitFor();
    await button('Show deliveries').click();
    await page.getByRole('region', { name: 'Deliveries' }).waitFor();
    expect(await button('Send a test to On-call').count()).toBe(0);
    expect(await button('Send again: test').count()).toBe(0);
  });
});
