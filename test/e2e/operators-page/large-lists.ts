import type { Page } from 'playwright-core';
import { beforeAll, expect, test } from 'vitest';
import { fillProject } from '../../support/many-exports.ts';
import { expectToBeAccessible, signInTo } from '../../support/page-checks.ts';
import type { PageUnderTest } from '../../support/page-under-test.ts';

/** Tests of a signed-in page: it fills the second project, and ends signed in there. */
export function testLargeLists(open: () => PageUnderTest): void {
  let site: PageUnderTest;
  let page: Page;
  const button = (name: string) => page.getByRole('button', { name, exact: true });

  beforeAll(async () => {
    site = open();
    ({ page } = site);
    await site.query(fillProject, [2]);
    await site.query('vacuum analyze batch_exports');
    await button('Sign out').click();
    await signInTo(page, await site.issueKey('batch_export:write'));
  });

  const reloadAt = async (hash: string) => {
    await page.goto(`${site.address}/console/#/${hash}`);
    await page.reload();
  };
  const hash = () => new URL(page.url()).hash;

  test('says how many have which health, and why the failing ones fail', async () => {
    await reloadAt('2/');
    for (const text of ['4 failing', '3 late', '2 incomplete', '2 paused', '4,989 fine']) {
      await page.getByRole('link', { name: text, exact: true }).waitFor();
    }
    await page.getByText('1–50 of 5,000').waitFor();
    expect(await page.getByText('Access denied. Allow the key to write.').count()).toBe(4);
    // The page asks again, and the answer says that nothing has changed.
    const isList = (url: string) => url.includes('/batch_exports/summaries');
    const again = page.waitForResponse((answer) => isList(answer.url()));
    await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))");
    expect((await again).status()).toBe(304);
    await page.getByText('1–50 of 5,000').waitFor();
    await expectToBeAccessible(page);
  });

  test('keeps filter, search, order and page in the address', async () => {
    await page.getByRole('link', { name: '3 late', exact: true }).click();
    await page.getByRole('list', { name: '3 exports' }).waitFor();
    expect(hash()).toBe('#/2/?health=late');
    await page.reload();
    await page.getByRole('list', { name: '3 exports' }).waitFor();
    await page.goBack();
    await page.getByText('1–50 of 5,000').waitFor();
    await page.getByLabel('Search exports').fill('port 49');
    await page.getByRole('list', { name: '100 exports' }).waitFor();
    await page.getByLabel('Order of the exports').selectOption({ label: 'By name' });
    await page.getByRole('link', { name: 'Export 4900' }).waitFor();
    await button('Next →').click();
    await page.getByRole('link', { name: 'Export 4999' }).waitFor();
    expect(hash()).toBe('#/2/?search=port+49&ordering=name&from=51');
    await page.reload();
    await page.getByText('51–100 of 100').waitFor();
    expect(await page.getByLabel('Search exports').inputValue()).toBe('port 49');
  });

  test('turns the pages of 5,000 runs, and comes back to the same page', async () => {
    await reloadAt('2/?search=Export%200012');
    await page.getByRole('link', { name: 'Export 0012' }).click();
    await page.getByRole('button', { name: 'Completed' }).click();
    await expect.poll(hash).toContain('status=Completed');
    await button('Older →').click();
    await expect.poll(hash).toContain('cursor=');
    const first = page.getByRole('rowheader').first();
    await button('← Newer').and(page.locator(':not([aria-disabled=true])')).waitFor();
    const shown = await first.textContent();
    await page.reload();
    await button('← Newer').and(page.locator(':not([aria-disabled=true])')).waitFor();
    expect(await first.textContent()).toBe(shown);
    await expectToBeAccessible(page);
  });

  test('shows all projects of the organization with the health of their exports', async () => {
    await page.getByRole('link', { name: 'Projects' }).click();
    await page.getByRole('heading', { name: 'Projects of Acme' }).waitFor();
    const rows = page.getByRole('list', { name: '2 projects' }).getByRole('heading');
    await expect.poll(() => rows.allTextContents()).toEqual(['App 2', 'Web 1']);
    await expectToBeAccessible(page);
    await page.getByRole('link', { name: '4 failing' }).click();
    await page.getByRole('list', { name: '4 exports' }).waitFor();
    expect(hash()).toBe('#/2/?health=failing');
  });
}
