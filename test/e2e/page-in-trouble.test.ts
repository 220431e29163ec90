import type { Page, Route } from 'playwright-core';
import { beforeAll, describe, expect, test } from 'vitest';
import { type ApiClient, createApiClient } from '../support/api-client.ts';
import { failFirstTicks, insertElements } from '../support/page-rows.ts';
import { expectToBeAccessible, signInTo } from '../support/page-checks.ts';
import { hasBrowser, startPage } from '../support/page-under-test.ts';
import { useStage } from '../support/use-stage.ts';

const exportsPath = '/api/projects/@current/batch_exports';

/** Without a worker, so that everything stays as the tests make it. */
describe.skipIf(!hasBrowser)('the page, if something is wrong between it and the service', () => {
  let page: Page;
  let client: ApiClient;
  let id: string;

  const site = useStage(() => startPage('main/api.js'));
  beforeAll(async () => {
    ({ page } = site);
    const key = await site.issueKey('batch_export:write,plugin:write');
    client = createApiClient(site.address, key);
    const destination = { type: 'NoOp', config: {} };
    const made = { name: 'Orders', interval: 'hour', destination };
    id = String((await client.post(exportsPath, made)).body.id);
    await site.query(failFirstTicks, [id]);
    await page.goto(site.address);
    await signInTo(page, key);
  });

  const button = (name: string | RegExp) => page.getByRole('button', { name });
  const show = async (path: string) => {
    await page.goto(`${site.address}/console/#/1/${path}`);
    await page.reload();
  };
  const backfills = async () => (await client.get(`${exportsPath}/${id}/backfills`)).body.results;
  /** The next POST to a path takes effect, and its answer is lost. */
  const loseAnswer = (path: string) =>
    page.route(path, async (route: Route) => {
      if (route.request().method() !== 'POST') return route.fallback();
      await route.fetch();
      await route.abort();
      await page.unroute(path);
    });

  test('a change whose answer is lost is made once, however often it is asked for', async () => {
    await show(`exports/${id}/runs`);
    await loseAnswer('**/backfill');
    const again = button('Export 2 intervals again');
    await again.click();
    const alert = page.getByRole('alert').filter({ hasText: 'may have been done' });
    await alert.waitFor();
    expect(await page.locator(':focus').textContent()).toBe('Export 2 intervals again');
    await expectToBeAccessible(page);
    await again.click();
    await page.getByText('2 intervals are exported again.').waitFor();
    await expect.poll(() => alert.count()).toBe(0);
    expect(await backfills()).toHaveLength(1);
    await button('Cancel').last().click();
    await page.getByText('Cancelled.', { exact: true }).waitFor();
  });

  test.each([
    [
      502,
      '<html>Bad gateway</html>',
      'The service is unavailable. What you asked for may have been done',
    ],
    [
      429,
      '{"code": "throttled", "detail": "Too many requests. Try again in 7 s.", "attr": null}',
      'Try again in 7 s',
    ],
    [
      409,
      '{"code": "conflict", "detail": "The export was deleted.", "attr": null}',
      'The export was deleted.',
    ],
  ])(
    'shows an answer %i beside the button, and keeps the focus there',
    async (status, body, text) => {
      await show(`exports/${id}/runs`);
      await page.route('**/pause', (route) => route.fulfill({ status, body }));
      await button('Pause Orders').press('Enter');
      const dialog = page.getByRole('dialog');
      await dialog.getByRole('button', { name: 'Pause' }).press('Enter');
      await dialog.getByRole('alert').getByText(text).waitFor();
      expect(await page.locator(':focus').textContent()).toBe('Pause');
      expect(await dialog.getByText('automatically').count()).toBe(0);
      await page.keyboard.press('Escape');
      await dialog.waitFor({ state: 'hidden' });
      expect(await page.locator(':focus').getAttribute('aria-label')).toBe('Pause Orders');
      await page.unroute('**/pause');
    },
  );

  /** Holds requests back, until it may let them go. */
  async function hold(path: string): Promise<() => Promise<void>> {
    const held: Route[] = [];
    let holds = true;
    await page.route(path, (route) => (holds ? void held.push(route) : route.continue()));
    return async () => {
      holds = false;
      for (const route of held) await route.continue();
    };
  }

  test('says that a row is not read yet, and then that there is none', async () => {
    const release = await hold('**/batch_exports/preview');
    await show('new');
    await page.getByText('not read yet').waitFor();
    expect(await page.getByText('none yet').count()).toBe(0);
    await release();
    await page.getByText(/none yet|says why there is none/).waitFor();
    await page.unroute('**/batch_exports/preview');
  });

  test('says that the service does not answer, and goes on once it does', async () => {
    await page.clock.install();
    await page.route('**/runs?**', () => {});
    await show(`exports/${id}/runs`);
    await page.getByRole('heading', { name: 'Orders', level: 1 }).waitFor();
    await page.clock.fastForward(31_000);
    const alert = page.getByRole('alert').filter({ hasText: 'The service does not answer.' });
    await alert.waitFor();
    await page.unroute('**/runs?**');
    await alert.getByRole('button', { name: 'Try again' }).click();
    await page
      .getByRole('row', { name: /Failed/ })
      .first()
      .waitFor();
    await page.clock.resume();
  });

  test('an export of changes shows elements instead of cells, and offers to run the newest interval', async () => {
    const made = { name: 'Changing', interval: 'hour', destination: { type: 'NoOp', config: {} } };
    const changing = String((await client.post(exportsPath, made)).body.id);
    await site.query(insertElements, [changing]);
    await show(`exports/${changing}/coverage`);
    const list = page.getByRole('region', { name: 'List of elements' });
    await list.waitFor();
    await page
      .getByText(/in (element 7|base 4)/)
      .first()
      .waitFor();
    const rows = (await list.getByRole('row').allTextContents()).slice(1);
    expect(rows).toEqual([
      expect.stringMatching(/1 interval failed$/),
      expect.stringMatching(
        /^7.*1,2003What changed since 4, from version 120931\. In place of 2 intervals that were never made: .*none yet$/,
      ),
      expect.stringMatching(/^4.*1,2000All rows: a new base, because it is the first one.*7$/),
    ]);
    expect(await page.getByRole('grid').count()).toBe(0);
    await expectToBeAccessible(page);
    await button('Pause Changing').click();
    await page.getByRole('dialog').getByRole('button', { name: 'Pause' }).click();
    // An export without a past refuses to export what it missed.
    await button('Unpause Changing').click();
    await page.getByRole('dialog').getByRole('button', { name: 'Unpause' }).click();
    await page.getByText('Changing is unpaused.').waitFor();
    await button('Run now: Changing').first().click();
    await page.getByText('1 interval is exported.').waitFor();
  });

  test('an operator skips to the content, and gets the focus there on another part of the page', async () => {
    await button('Sign out').click();
    await page.goto(`${site.address}/console/#/`);
    await signInTo(page, await site.issueOperatorKey('*'));
    const focused = () => page.evaluate('document.activeElement.id');
    await page.getByRole('link', { name: 'Notifications', exact: true }).press('Enter');
    await page.getByRole('heading', { name: 'Notifications' }).waitFor();
    await expect.poll(focused).toBe('main');
    await button('Skip to the content').press('Enter');
    expect(await focused()).toBe('main');
    await expectToBeAccessible(page);
  });
});
