import type { Page } from 'playwright-core';
import { beforeAll, expect, test } from 'vitest';
import { createApiClient } from '../../support/api-client.ts';
import { expectToBeAccessible, signInTo } from '../../support/page-checks.ts';
import type { PageUnderTest } from '../../support/page-under-test.ts';

/** Tests of the page over all customers, with the key of an operator. There is no worker, so runs wait. */
export function testCauses(open: () => PageUnderTest): void {
  let site: PageUnderTest;
  let page: Page;
  const button = (name: string | RegExp) => page.getByRole('button', { name });

  beforeAll(async () => {
    site = open();
    ({ page } = site);
    await site.query(
      `insert into batch_exports (team_id, name, destination_type, destination_config, "interval", schedule, next_tick_at,
              failing_since, failing_code, failing_error)
       select e.team_id, 'To the dead bucket ' || n, 'S3', '{"bucket_name": "dead-bucket"}', e."interval", e.schedule, now() + interval '1 day',
              now(), 'destination.bucket_not_found', 'destination.bucket_not_found: The bucket does not exist.'
         from (select * from batch_exports order by created_at limit 1) e, generate_series(1, 37) n`,
    );
    await button(/^Sign out$/).click();
    await page.goto(`${site.address}/console/#/`);
    await signInTo(page, await site.issueOperatorKey('*'));
  });

  test('shows one row for 37 exports of one dead bucket, with whose turn it is', async () => {
    const row = page.getByRole('listitem').filter({ hasText: 'S3 dead-bucket' });
    await row.getByText('37 exports').waitFor();
    await row.getByText('the customer', { exact: true }).waitFor();
    await row.getByRole('button', { name: 'Exports' }).click();
    await page.getByText('To the dead bucket 37', { exact: true }).waitFor();
    await expectToBeAccessible(page);
  });

  test('searches by customer, and filters by whose turn it is', async () => {
    await page.getByLabel('Customer').fill('no such customer');
    await page.getByText('No cause matches').waitFor();
    await page.getByLabel('Customer').fill('acme');
    await page.getByText('S3 dead-bucket').first().waitFor();
    await page.getByLabel('Whose turn').selectOption({ label: 'The source’s owner' });
    await expect.poll(() => page.getByText('S3 dead-bucket').count()).toBe(0);
    await page.getByLabel('Whose turn').selectOption({ label: 'The customer' });
    await page.getByText('S3 dead-bucket').first().waitFor();
  });

  test('retries all, one by one, after it has said how much that is', async () => {
    await button(/^Retry all: .*dead-bucket/).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText('37 exports of 1 customer').waitFor();
    await expectToBeAccessible(page);
    await dialog.getByRole('button', { name: 'Retry all' }).click();
    await page.getByText(/^Retry all: 37 exports/).waitFor({ timeout: 120_000 });
    expect(await page.locator(':focus').getAttribute('aria-label')).toMatch(/^Retry all: /);
    expect(site.faults).toEqual([]);
  });

  test('keeps filter, page and the open cause in the address', async () => {
    const dead = page.getByRole('listitem').filter({ hasText: 'S3 dead-bucket' });
    expect(new URL(page.url()).hash).toMatch(/\?(.*&)?search=acme&turn=customer(&|$)/);
    await page.reload();
    expect(await page.getByLabel('Customer').inputValue()).toBe('acme');
    await dead
      .getByRole('button', { name: 'Exports' })
      .and(page.locator('[aria-expanded=true]'))
      .waitFor();
    await page.getByText('To the dead bucket 37', { exact: true }).waitFor();
  });

  test('opens an export from the link of a message about it, only to read', async () => {
    const client = createApiClient(site.address, await site.issueOperatorKey('operator:read'));
    const listed = (await client.get('/api/admin/exports?turn=customer&search=acme')).body.results;
    const one = listed.find((found) => found.name === 'To the dead bucket 37');
    await page.getByRole('link', { name: 'To the dead bucket 37', exact: true }).click();
    const at = `/console/#/${one?.project_id}/exports/${one?.id}/runs`;
    await page.waitForURL((url) => `${url.pathname}${url.hash}` === at);
    // As the reader does who was signed out.
    await page.goto(site.address + at);
    await page.reload();
    await page.getByRole('heading', { name: 'To the dead bucket 37', level: 1 }).waitFor();
    await page.getByText('You look at an export of a customer.').waitFor();
    const parts = page.getByRole('navigation', { name: 'Parts of the export' });
    for (const part of ['Coverage', 'Backfills', 'Logs', 'Settings', 'Changes']) {
      await parts.getByRole('link', { name: part }).click();
      await page
        .getByRole('region', { name: new RegExp(part, 'i') })
        .first()
        .waitFor();
      await expectToBeAccessible(page);
      expect(
        await button(/^(Run|Pause|Unpause|Edit|Delete|Export|Test|Show rows|Start)/).count(),
      ).toBe(0);
      expect(await page.getByRole('searchbox').count()).toBe(0);
      expect(await page.getByRole('alert').count()).toBe(0);
    }
    await page.getByRole('heading', { name: 'viewed by an operator' }).waitFor();
    await page.getByRole('link', { name: 'All customers' }).click();
    await page.getByText('37 exports').waitFor();
    expect(site.faults).toEqual([]);
  });

  test('shows a key that only reads why it gets no buttons, and none that the API would refuse', async () => {
    const client = createApiClient(site.address, await site.issueOperatorKey('operator:write'));
    const targets = '/api/admin/notification_targets';
    const url = `http://127.0.0.1:${site.s3.port}/hooks`;
    const target = await client.post(targets, { url, description: 'Of the operators' });
    await button(/^Sign out$/).click();
    await signInTo(page, await site.issueOperatorKey('operator:read'));
    await page.getByText('sign in with a key that has the scope operator:write').waitFor();
    await page.getByRole('listitem').filter({ hasText: 'S3 dead-bucket' }).first().waitFor();
    expect(await button(/^(Probe now|Retry all|Pause all)/).count()).toBe(0);
    await expectToBeAccessible(page);
    await page.getByRole('link', { name: 'Notifications' }).click();
    await page.getByRole('heading', { name: 'Of the operators' }).waitFor();
    await page.getByText('sign in with a key that has the scope operator:write').waitFor();
    // It may look at what was sent.
    await button('Show deliveries of Of the operators').waitFor();
    expect(await button(/target$|(?<!deliveries of )Of the operators$/).count()).toBe(0);
    await client.delete(`${targets}/${target.body.id}`);
    expect(site.faults).toEqual([]);
  });
}
