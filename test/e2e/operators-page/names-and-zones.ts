import type { Page } from 'playwright-core';
import { beforeAll, expect, test } from 'vitest';
import { createApiClient } from '../../support/api-client.ts';
import { expectToBeAccessible, signInTo } from '../../support/page-checks.ts';
import { beginRun } from '../../support/page-rows.ts';
import type { PageUnderTest } from '../../support/page-under-test.ts';

const exportsPath = '/api/projects/1/batch_exports';
const longName = 'x'.repeat(200);

/** Tests of an export with a long name and a zone of its own. */
export function testNamesAndZones(open: () => PageUnderTest): void {
  let site: PageUnderTest;
  let page: Page;
  let id: string;
  const goTo = (path: string) => page.goto(`${site.address}/console/#/1/exports/${id}${path}`);
  const signInAgain = async (scopes: string) => {
    await page.getByRole('button', { name: 'Sign out', exact: true }).click();
    await signInTo(page, await site.issueKey(scopes));
  };

  beforeAll(async () => {
    site = open();
    ({ page } = site);
    const client = createApiClient(site.address, await site.issueKey('*'));
    const destination = { type: 'NoOp', config: {} };
    const body = { name: longName, interval: 'day', timezone: 'America/New_York', destination };
    id = String((await client.post(exportsPath, body)).body.id);
    const range = { start_at: '2024-03-01T00:00:00Z', end_at: '2024-03-02T00:00:00Z' };
    expect((await client.post(`${exportsPath}/${id}/backfill`, range)).status).toBe(200);
    await site.query(beginRun, [id]);
    await goTo('/edit');
    await signInAgain('*');
  });

  test('fits a phone with links to all places, and a name of 200 characters without a space', async () => {
    await goTo('/edit');
    await page.getByRole('heading', { name: 'Edit', level: 1 }).waitFor();
    await page.getByRole('link', { name: longName }).waitFor();
    await page.getByRole('link', { name: 'Notifications', exact: true }).waitFor();
    await expectToBeAccessible(page);
    await goTo('/runs');
    await page.getByRole('heading', { name: longName, level: 1 }).waitFor();
    await expectToBeAccessible(page);
  });

  test('shows a run that is opened by its address in the zone of its export', async () => {
    await page.getByRole('region', { name: 'Runs' }).getByRole('rowheader').first().waitFor();
    const link = page.getByRole('rowheader').filter({ hasText: '2 Mar' }).getByRole('link').first();
    await link.click();
    await page.getByRole('heading', { name: 'Logs' }).waitFor();
    const clock = page.getByLabel('Time zone of the page');
    await clock.selectOption('export');
    await page.reload();
    await page.getByRole('heading', { level: 1, name: /GMT-5$/ }).waitFor();
    await clock.selectOption('local');
    await page.getByRole('heading', { level: 1, name: /GMT\+5:30$/ }).waitFor();
  });

  test('has headings in order for a key that only reads', async () => {
    await signInAgain('batch_export:read');
    await goTo('/backfills');
    await page.getByRole('heading', { name: longName, level: 1 }).waitFor();
    await page.getByRole('region', { name: 'Backfills' }).getByRole('listitem').first().waitFor();
    await expectToBeAccessible(page);
  });
}
