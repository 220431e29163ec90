import type { Page } from 'playwright-core';
import { beforeAll, expect, test } from 'vitest';
import { type ApiClient, createApiClient } from '../../support/api-client.ts';
import { allowBriefReceipts } from '../../support/brief-receipts.ts';
import { expectToBeAccessible, signInTo } from '../../support/page-checks.ts';
import { insertHealing } from '../../support/page-rows.ts';
import type { PageUnderTest } from '../../support/page-under-test.ts';

/** Tests of an export that heals and has missed deadlines. It ends signed in. */
export function testHealing(open: () => PageUnderTest): void {
  let site: PageUnderTest;
  let page: Page;
  let id: string;
  let client: ApiClient;
  const button = (name: string) => page.getByRole('button', { name, exact: true });
  const show = async (tab: string) => {
    await page.goto(`${site.address}/console/#/1/exports/${id}/${tab}`);
    await page.reload();
  };

  /** Of the runs of the intervals that heal. */
  const setStatus = (status: string) =>
    site.query(
      `update runs set status = $2 where export_id = $1 and status in ('Failed', 'FailedRetryable')`,
      [id, status],
    );

  beforeAll(async () => {
    site = open();
    ({ page } = site);
    await allowBriefReceipts(site);
    const key = await site.issueKey('batch_export:write');
    client = createApiClient(site.address, key);
    const made = await client.post('/api/projects/1/batch_exports', {
      name: 'Heals',
      interval: 'hour',
      destination: { type: 'NoOp', config: {} },
      deadline_minutes: 10,
    });
    id = String(made.body.id);
    await site.query(insertHealing, [id]);
    await button('Sign out').click();
    await signInTo(page, key);
  });

  test('says in the list that it heals, when it is probed next, and whose turn it is', async () => {
    await page.goto(`${site.address}/console/#/1/`);
    const row = page.getByRole('listitem').filter({ hasText: 'Heals' });
    await row
      .getByText(/healing 2 intervals, next probe .* \(the owner of the destination can end this\)/)
      .waitFor();
    await expectToBeAccessible(page);
  });

  test('says of failed runs that heal what happens next by itself, also while a person pauses the export', async () => {
    await setStatus('Failed');
    await show('runs');
    const blocker = page.getByRole('region', { name: 'What holds the export back' });
    await blocker
      .getByText(
        /^2 intervals not exported: the run failed\. Once the cause is fixed, Sluice exports them by itself\. It looks next at .*\.$/,
      )
      .waitFor();
    await expectToBeAccessible(page);
    await client.post(`/api/projects/1/batch_exports/${id}/pause`, {});
    await page.reload();
    await blocker.getByText('fixed and the export is unpaused, Sluice exports them').waitFor();
    await button('Unpause Heals').click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel(/^Export 2 intervals without data/).uncheck();
    await dialog
      .getByText(/^Sluice exports 2 intervals by itself once the cause is over/)
      .waitFor();
    await dialog.getByRole('button', { name: 'Unpause' }).click();
    await page.getByText('Heals is unpaused.').waitFor();
    await setStatus('FailedRetryable');
  });

  test('says of a failed run that its interval was exported later, on the open page and in the list', async () => {
    await show('runs');
    const failed = page.getByRole('row', { name: /Retries exhausted/ }).first();
    const href = await failed.getByRole('rowheader').getByRole('link').getAttribute('href');
    const open = await page.context().newPage();
    await open.clock.install();
    await open.goto(`${site.address}/console/${href}`);
    await open.getByText('destination.unavailable').first().waitFor();
    await open.getByRole('button', { name: 'Export again' }).waitFor();
    expect(await open.getByText('The interval was exported later').count()).toBe(0);
    await site.query(completeAgain, [href?.split('/').at(-1)]);
    await open.clock.fastForward('01:00');
    await open.getByText('The interval was exported later').waitFor();
    await open.close();
    await page.reload();
    // One row for the interval, with the run that failed as an earlier try.
    await failed.getByText(/tr(y|ies), before:/).waitFor();
    await page.goto(`${site.address}/console/#/1/`);
    await page.getByRole('link', { name: /^Retries exhausted: .*, exported later$/ }).waitFor();
    await site.query(`delete from receipts where export_id = $1`, [id]);
  });
}

/** As if the interval of a run had been exported again. */
const completeAgain = `with run as (
    insert into runs (export_id, team_id, status, data_interval_start, data_interval_end, generation, finished_at)
    select export_id, team_id, 'Completed', data_interval_start, data_interval_end, generation + 1, now() from runs where id = $1
    returning *)
  insert into receipts (export_id, data_interval_start, data_interval_end, run_id, files, rows, bytes, settled)
  select export_id, data_interval_start, data_interval_end, id, '[]', 0, 0, true from run`;
