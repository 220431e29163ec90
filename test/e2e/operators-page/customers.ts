import type { Page } from 'playwright-core';
import { beforeAll, expect, test } from 'vitest';
import { createApiClient } from '../../support/api-client.ts';
import { expectToBeAccessible, signInTo } from '../../support/page-checks.ts';
import type { PageUnderTest } from '../../support/page-under-test.ts';

/** Tests of the customers, with the key of an operator. It begins and ends signed in. */
export function testCustomers(open: () => PageUnderTest): void {
  let site: PageUnderTest;
  let page: Page;
  const button = (name: string | RegExp) => page.getByRole('button', { name });
  const dialog = () => page.getByRole('dialog');
  const submit = (name: string) => dialog().getByRole('button', { name }).click();

  beforeAll(async () => {
    site = open();
    ({ page } = site);
    await button(/^Sign out$/).click();
    await page.goto(`${site.address}/console/#/`);
    await signInTo(page, await site.issueOperatorKey('*'));
    await page.getByRole('link', { name: 'Customers', exact: true }).click();
  });

  const customer = (name: string) => page.getByRole('listitem').filter({ hasText: name }).first();

  test('shows each customer with rows and bytes of a month', async () => {
    await customer('Acme')
      .getByText(/^\d.* rows, .* in \d{4}-\d\d · \d projects? · /)
      .waitFor();
    await expectToBeAccessible(page);
  });

  test('creates a customer with a project and a key, which works and is shown once', async () => {
    await button('Create an organization').click();
    await submit('Create');
    await dialog().getByText('may not be blank').waitFor();
    await dialog().getByLabel('Name').fill('Umbrella');
    await submit('Create');
    await button('Projects and keys of Umbrella').click();
    await button('New project of Umbrella').click();
    await dialog().getByLabel('Name').fill('Hive');
    await dialog().getByLabel('Tenant key').fill('hive-1');
    await submit('Create');
    await page.getByText(/Project Hive has the id \d+\. No row has this tenant_key yet/).waitFor();
    const projects = page.getByRole('list', { name: 'Projects of Umbrella' });
    await projects.getByText('hive-1').waitFor();
    await button('New key of Umbrella').click();
    await dialog().getByLabel('Name').fill('ci');
    await expectToBeAccessible(page);
    await submit('Create');
    const secret = page.getByRole('dialog', { name: 'The key of ci' });
    const key = await secret.getByText(/^slc_/).textContent();
    await secret.getByRole('button', { name: 'Done' }).click();
    const client = createApiClient(site.address, key);
    const me = await client.get('/api/me');
    expect(me.body).toMatchObject({
      organization: { name: 'Umbrella' },
      projects: [{ name: 'Hive' }],
    });
    expect(await page.getByText(key ?? '').count()).toBe(0);
    await button('Revoke ci').click();
    await submit('Revoke');
    await page.getByText('revoked').waitFor();
    expect((await client.get('/api/me')).status).toBe(401);
    await expectToBeAccessible(page);
  });
}
