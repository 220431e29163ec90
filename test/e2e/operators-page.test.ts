import type { Page } from 'playwright-core';
import { beforeAll, describe, expect, test } from 'vitest';
import { type ApiClient, createApiClient } from '../support/api-client.ts';
import { expectToBeAccessible, signInTo } from '../support/page-checks.ts';
import {
  failFirstTicks,
  failNextTick,
  insertFile,
  insertRetrying,
  planBackfill,
} from '../support/page-rows.ts';
import { hasBrowser, type PageUnderTest, startPage } from '../support/page-under-test.ts';
import { useStage } from '../support/use-stage.ts';
import { testCauses } from './operators-page/causes.ts';
import { testHealing } from './operators-page/healing.ts';
import { testKeysAndChanges } from './operators-page/keys-and-changes.ts';

/** Tests of the customers, with the key of an operator. It begins and ends signed in. */
function testCustomers(open: () => PageUnderTest): void {
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

const exportsPath = '/api/projects/@current/batch_exports';

/** Without a worker, so that everything stays as the tests make it. */
describe.skipIf(!hasBrowser)('the page for operators, over the API alone', () => {
  let page: Page;
  let client: ApiClient;
  let id: string;

  const site = useStage(() => startPage('main/api.js'));
  beforeAll(async () => {
    ({ page } = site);
    client = createApiClient(site.address, await site.issueKey('batch_export:write'));
    const destination = { type: 'NoOp', config: {} };
    const body = { name: 'Events to acme', interval: 'hour', destination };
    id = String((await client.post(exportsPath, body)).body.id);
    await page.goto(site.address);
    await signIn(await site.issueKey('batch_export:write'));
  });

  const button = (name: string) => page.getByRole('button', { name, exact: true });
  const open = async (path: string) => {
    await page.goto(`${site.address}/console/#/exports/${id}${path}`);
    await page.reload();
  };

  const signIn = (key: string) => signInTo(page, key);

  test('says that no worker is alive, and the API is degraded but answers', async () => {
    const banner = page.getByRole('region', { name: 'State of the service' });
    await banner.getByText('Workers: no worker has reported for 30 s').waitFor();
    const ready = await client.get('/readyz');
    expect(ready.status).toBe(200);
    expect(ready.body).toMatchObject({ status: 'degraded', checks: { postgres: 'ok' } });
    await site.query(`insert into workers (id, capacity, small_capacity) values ('one', 4, 0)`);
    await page.reload();
    await page.getByRole('heading', { name: 'Exports' }).waitFor();
    // An answer is shown again for a second.
    await expect
      .poll(async () => (await client.get('/readyz')).body.status, { timeout: 10_000 })
      .toBe('ok');
    await page.reload();
    await page.getByRole('link', { name: 'Events to acme' }).waitFor();
    await expect.poll(() => banner.count()).toBe(0);
  });

  test('shows that a run waits for its next attempt, which, and when', async () => {
    await site.query(insertRetrying, [id]);
    await open('/runs');
    const row = page.getByRole('row', { name: /Retrying \(5\/10\)/ });
    await row.getByText(/next at/).waitFor();
    await row.getByRole('rowheader').getByRole('link').click();
    await page.getByRole('heading', { level: 1 }).waitFor();
    await page.getByText('Retrying (5/10)').first().waitFor();
    await expectToBeAccessible(page);
    await site.query(`delete from outbox`);
    await site.query(`update runs set status = 'Cancelled', finished_at = now()`);
  });

  test('shows what holds the mark, exports it again, and accepts it as it is', async () => {
    await site.query(failFirstTicks, [id]);
    await open('/coverage');
    const blocker = page.getByRole('region', { name: 'What holds the export back' });
    await blocker.getByText('2 intervals not exported: the run failed').waitFor();
    await expectToBeAccessible(page);
    const states = (name: string) => page.getByRole('gridcell', { name: `: ${name}` }).count();
    await expect.poll(() => states('failed')).toBe(2);
    await blocker.getByRole('button', { name: 'Export 2 intervals again' }).press('Enter');
    await page.getByText('2 intervals are exported again.').waitFor();
    // The keyboard goes on from there, and what a worker does next shows in the grid within seconds.
    expect(await page.locator(':focus').textContent()).toBe('Export 2 intervals again');
    // A message stays as long as the focus is in it.
    const cancel = page.getByRole('status').getByRole('button', { name: 'Cancel' });
    await cancel.focus();
    await site.query(planBackfill, [id]);
    await expect.poll(() => states('running'), { timeout: 12_000 }).toBe(2);
    const { results } = (await client.get(`${exportsPath}/${id}/backfills`)).body;
    expect(results).toHaveLength(1);
    expect(results[0]).toMatchObject({ total_runs: 2, reprocess: 'failed' });
    // The message itself can take it back.
    await cancel.press('Enter');
    await page.getByText('Cancelled.', { exact: true }).waitFor();
    await expect.poll(() => states('running'), { timeout: 5_000 }).toBe(0);
    const path = `${exportsPath}/${id}/backfills/${results[0]?.id}`;
    expect((await client.get(path)).body.status).toBe('Cancelled');

    await open('/runs');
    await blocker.getByRole('button', { name: 'Accept as it is' }).click();
    const dialog = page.getByRole('dialog');
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'hidden' });
    expect(await page.locator(':focus').textContent()).toBe('Accept as it is');
    await page.keyboard.press('Enter');
    await dialog.waitFor();
    // As by Escape, and within one task: the browser has not yet said that the dialog is closed.
    await page.evaluate(`(async () => {
      document.querySelector('dialog').requestClose();
      await null;
      document.activeElement.click();
    })()`);
    await dialog.getByLabel('Reason').fill('the source had no data');
    await dialog.getByRole('button', { name: 'Accept as it is' }).click();
    await page.getByText('2 intervals accepted.').waitFor();
    // The hours after them were never due: they may be what holds the mark now.
    await expect.poll(() => blocker.getByText('the run failed').count()).toBe(0);
    const activity = (await client.get(`${exportsPath}/${id}/activity`)).body.results[0];
    expect(JSON.stringify(activity)).toContain('the source had no data');
  });

  test('exports a single interval again', async () => {
    await site.query(failNextTick, [id]);
    await open('/runs');
    const blocker = page.getByRole('region', { name: 'What holds the export back' });
    await blocker.getByText('1 interval not exported: the run failed').waitFor();
    await blocker.getByRole('button', { name: 'Export again' }).click();
    await page.getByText('1 interval is exported again.').waitFor();
    const { results } = (await client.get(`${exportsPath}/${id}/backfills`)).body;
    expect(results[0]).toMatchObject({ status: 'Running', total_runs: 1 });
    await client.post(`${exportsPath}/${id}/backfills/${results[0]?.id}/cancel`);
    // As if its run had begun before.
    await site.query(
      `update runs set status = 'Cancelled' where export_id = $1 and status = 'Failed'
          and data_interval_start = date_trunc('hour', now(), 'UTC') - interval '3 hours'`,
      [id],
    );
  });

  test('shows coverage as a grid; a range of cells, dragged or by keys, becomes a backfill', async () => {
    await site.query(failNextTick.replace('(3, 3)', '(2, 2)'), [id]);
    await open('/coverage');
    const grid = page.getByRole('grid', { name: 'Coverage' });
    const failed = grid.getByRole('gridcell', { name: /: failed$/ });
    await failed.waitFor();
    expect(await failed.textContent()).toContain('×');
    await expectToBeAccessible(page);
    await failed.click();
    const status = page.getByRole('status').filter({ hasText: '1 interval failed' });
    await status.waitFor();
    await page.keyboard.press('Shift+ArrowLeft');
    await page.getByText(/: 1 interval failed, 1 interval \w+/).waitFor();
    expect(await grid.locator('[aria-selected=true]').count()).toBe(2);
    await button('Preview').click();
    await button('Start 2 runs').waitFor();

    const { missing } = (await client.get(`${exportsPath}/${id}`)).body;
    const { count } = missing as { count: number };
    // One click: exactly the intervals without data, although others of the range were never asked for.
    await page
      .getByText(`${count} ${count === 1 ? 'interval' : 'intervals'} without data`)
      .last()
      .waitFor();
    const coverage = page.getByRole('region', { name: 'Coverage of the export' });
    await coverage.getByRole('button', { name: /^Export (\d+ intervals )?again$/ }).click();
    await page.getByText(/(is|are) exported again\./).waitFor();
    await expectToBeAccessible(page);
    const [begun] = (await client.get(`${exportsPath}/${id}/backfills`)).body.results;
    expect(begun).toMatchObject({ reprocess: 'missing', status: 'Running' });
    await client.post(`${exportsPath}/${id}/backfills/${begun?.id}/cancel`);
    // What the next tests expect is the hour before.
    const latest = `data_interval_start >= date_trunc('hour', now(), 'UTC') - interval '2 hours'`;
    await site.query(`delete from runs where ${latest}`);
    await site.query(`delete from ticks where ${latest}`);
  });

  test('lists the files of a run, with paths to copy', async () => {
    await site.query(insertFile, [id]);
    await open('/runs');
    await page
      .getByRole('row', { name: /Completed/ })
      .getByRole('rowheader')
      .getByRole('link')
      .click();
    const files = page.getByRole('region', { name: 'Files' });
    await files.getByText('ab'.repeat(32)).waitFor();
    await files.getByText('events/2024.jsonl.gz', { exact: true }).waitFor();
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    await files.getByRole('button', { name: 'Copy events/2024.jsonl.gz' }).click();
    await page.getByText('The path is copied.').waitFor();
    expect(await page.evaluate('navigator.clipboard.readText()')).toBe('events/2024.jsonl.gz');
    // While it fades in, its colours are not its own.
    await page.getByText('The path is copied.').waitFor({ state: 'hidden' });
    await expectToBeAccessible(page);
  });

  test('says of a backfill that it has nothing to do', async () => {
    await button('Sign out').click();
    await signIn(await site.issueKey('batch_export:write'));
    await open('/backfills');
    const local = (hoursAgo: number) =>
      page.evaluate(
        `new Date(Math.floor(Date.now() / 36e5) * 36e5 - ${hoursAgo} * 36e5 + 5.5 * 36e5).toISOString().slice(0, 16)`,
      );
    await page.getByLabel('From').fill(String(await local(5)));
    await page.getByLabel('To', { exact: true }).fill(String(await local(3)));
    await page.getByLabel('Intervals').selectOption({ label: 'Only those that never ran' });
    await button('Preview').click();
    await page.getByText('0 runs.').waitFor();
    await page.getByLabel('Intervals').selectOption({ label: 'Only those without data' });
    await button('Preview').click();
    await button('Start 2 runs').click();
    await page.getByText('The backfill has started.').waitFor();
    await page.getByRole('status').getByRole('button', { name: 'Cancel' }).press('Enter');
    await page.getByText('Cancelled.', { exact: true }).waitFor();
    const [started] = (await client.get(`${exportsPath}/${id}/backfills`)).body.results;
    expect(started).toMatchObject({ status: 'Cancelled', reprocess: 'failed' });
    expect(site.faults).toEqual([]);
  });

  test('switches between projects by name; the address and a new tab keep the project', async () => {
    await site.query(
      `insert into projects (organization_id, name) select id, 'App' from organizations where name = 'Acme'`,
    );
    await page.goto(`${site.address}/console/#/`);
    await page.reload();
    await page.waitForURL((url) => url.hash === '#/1/');
    await page.getByLabel('Project', { exact: true }).selectOption({ label: 'App (2)' });
    await page.getByRole('heading', { name: 'No exports yet' }).waitFor();
    expect(new URL(page.url()).hash).toBe('#/2/');
    expect(await page.getByRole('link', { name: 'New export' }).first().getAttribute('href')).toBe(
      '#/2/new',
    );
    await expectToBeAccessible(page);

    const other = await page.context().newPage();
    await other.goto(`${site.address}/console/#/1/exports/${id}/runs`);
    await other.getByRole('heading', { name: 'Events to acme', level: 1 }).waitFor();
    expect(await other.getByLabel('Project', { exact: true }).inputValue()).toBe('1');
    // The key is where the tab's end deletes it, and nowhere else.
    expect(await other.evaluate('JSON.stringify([{ ...localStorage }, document.cookie])')).toBe(
      '[{},""]',
    );
    await button('Sign out').click();
    await other.getByText('You signed out in another tab.').waitFor();
    await other.reload();
    await other.getByRole('button', { name: 'Sign in' }).waitFor();
    await other.close();
  });

  test('asks which project to open, if the key has several and the address names none', async () => {
    await page.goto(`${site.address}/console/#/`);
    await page.getByLabel('API key').fill(await site.issueKey('batch_export:read'));
    await button('Sign in').click();
    await page.getByLabel('Project', { exact: true }).selectOption({ label: 'App (2)' });
    await button('Sign in').click();
    await page.getByRole('heading', { name: 'No exports yet' }).waitFor();
    expect(new URL(page.url()).hash).toBe('#/2/');
  });

  describe('with an export that heals', () => testHealing(() => site));
  describe('with keys that end', () => testKeysAndChanges(() => ({ site, id })));
  describe('over all customers', () => testCauses(() => site));
  describe('of the customers', () => testCustomers(() => site));
});
