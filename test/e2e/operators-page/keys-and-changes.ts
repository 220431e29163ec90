import type { Page } from 'playwright-core';
import { beforeAll, expect, test } from 'vitest';
import { type ApiClient, createApiClient } from '../../support/api-client.ts';
import { expectToBeAccessible, signInTo } from '../../support/page-checks.ts';
import { beginRun } from '../../support/page-rows.ts';
import type { PageUnderTest } from '../../support/page-under-test.ts';

interface Opened {
  readonly site: PageUnderTest;
  /** An export of the first project. */
  readonly id: string;
}

/** Tests of a signed-in page: what an export shows, and what a key's end leaves. Revokes all keys. */
export function testKeysAndChanges(open: () => Opened): void {
  let site: PageUnderTest;
  let page: Page;
  let client: ApiClient;
  let id: string;
  const button = (name: string) => page.getByRole('button', { name, exact: true });

  beforeAll(async () => {
    ({ site, id } = open());
    ({ page } = site);
    client = createApiClient(site.address, await site.issueKey('batch_export:write'));
  });

  test('shows each setting before and after a change; of a secret, that it changed', async () => {
    const config = { bucket_name: 'acme', region: 'us-east-1', prefix: 'old' };
    const secret = { aws_access_key_id: 'AKIAPAGE', aws_secret_access_key: 'canary-one' };
    const destination = { type: 'S3', config: { ...config, ...secret } };
    // Longer than a phone is wide.
    const dsl_query = `SELECT uuid, event, timestamp FROM events WHERE event <> '${'x'.repeat(120)}'`;
    const body = { name: 'To a bucket', interval: 'hour', destination, dsl_query };
    const made = String((await client.post('/api/projects/1/batch_exports', body)).body.id);
    const change = { prefix: 'new', aws_secret_access_key: 'canary-two' };
    await client.patch(`/api/projects/1/batch_exports/${made}`, {
      destination: { config: change },
    });
    await client.patch(`/api/projects/1/batch_exports/${made}`, { name: 'To the bucket' });
    await page.goto(`${site.address}/console/#/1/exports/${made}/changes`);
    await page.getByRole('row', { name: 'prefix old new' }).waitFor();
    await page.getByRole('row', { name: 'destination secrets changed' }).waitFor();
    await page.getByRole('row', { name: 'name not set To a bucket' }).waitFor();
    expect(await page.content()).not.toContain('canary-');
    await page.getByRole('row', { name: 'name To a bucket To the bucket' }).waitFor();
    await expectToBeAccessible(page);
    await page.goto(`${site.address}/console/#/1/exports/${made}/settings`);
    await page.getByText('x'.repeat(120)).waitFor();
    await expectToBeAccessible(page);
  });

  test('follows the log of a live run, not while hidden or with a revoked key, and misses nothing', async () => {
    await site.query(beginRun, [id]);
    const runs = await client.get(`/api/projects/1/batch_exports/${id}/runs?status=Running`);
    const run = String(runs.body.results[0]?.id);
    const log = (message: string) =>
      site.query(
        `insert into log_entries (team_id, export_id, run_id, level, message) values (1, $1, $2, 'INFO', $3)`,
        [id, run, message],
      );
    const hide = (hidden: boolean) =>
      page.evaluate(
        `Object.defineProperty(document, 'hidden', { value: ${hidden}, configurable: true }); document.dispatchEvent(new Event('visibilitychange'))`,
      );
    await page.clock.install();
    await page.goto(`${site.address}/console/#/1/exports/${id}/runs/${run}`);
    await page.reload();
    const lines = page.getByRole('region', { name: 'Logs' }).getByRole('listitem');
    await page.getByText('No log entries').waitFor();
    await log('It begins.');
    await lines.getByText('It begins.').waitFor();
    await hide(true);
    const asked: string[] = [];
    page.on('request', (request) => asked.push(request.url()));
    await log('While hidden.');
    await page.clock.fastForward(60_000);
    expect(asked).toEqual([]);
    await log('At last.');
    await hide(false);
    await lines.getByText('At last.').waitFor();
    expect((await lines.allTextContents()).map((text) => text.replace(/^.*INFO/, ''))).toEqual([
      'At last.',
      'While hidden.',
      'It begins.',
    ]);
    // The connection is cut, and comes back after more than a page holds.
    await page.context().setOffline(true);
    await page.clock.fastForward(10_000);
    await page.getByRole('region', { name: 'Logs' }).getByText('unreachable').waitFor();
    expect(await lines.count()).toBe(3);
    await site.query(
      `insert into log_entries (team_id, export_id, run_id, level, message)
       select 1, $1, $2, 'INFO', 'Cut off ' || n from generate_series(1, 250) n`,
      [id, run],
    );
    await page.context().setOffline(false);
    await page.clock.fastForward(10_000);
    await expect.poll(() => lines.count()).toBe(200);
    await lines.getByText('Cut off 250').waitFor();
    await expect.poll(() => page.getByText('unreachable').count()).toBe(0);
    const asks = () => asked.filter((url) => url.includes('/logs?'));
    expect(asks()).not.toEqual([]);

    await site.query(`update api_keys set revoked_at = now()`);
    await log('Not for a revoked key.');
    await page.getByText('The API key is no longer accepted.').waitFor();
    expect(await page.content()).not.toContain('Not for a revoked key.');
    asked.length = 0;
    await page.clock.fastForward(60_000);
    expect(asks()).toEqual([]);
    await signInTo(page, await site.issueKey('batch_export:write'));
    await lines.getByText('Not for a revoked key.').waitFor();
    await site.query(`update runs set status = 'Cancelled', finished_at = now() where id = $1`, [
      run,
    ]);
  });

  test('keeps no secret that was typed, and nothing after a sign-out', async () => {
    await page.goto(`${site.address}/console/#/1/new`);
    await page.getByLabel('Bucket name').fill('acme');
    await page.getByLabel('AWS secret access key').fill('canary-typed');
    const storage = String(await page.evaluate('JSON.stringify({ ...sessionStorage })'));
    expect(storage).not.toContain('canary-');
    await button('Sign out').click();
    expect(await page.evaluate('sessionStorage.length')).toBe(0);
  });

  test('shows a key that may only read no button that changes something', async () => {
    const places = ['', 'new', 'transformations', 'notifications', `exports/${id}/edit`];
    for (const tab of ['runs', 'coverage', 'backfills', 'logs', 'settings', 'changes']) {
      places.push(`exports/${id}/${tab}`);
    }
    const changing =
      /pause|delete|edit|new |create|save|retry\b|again|cancel\b|start|accept|test|add/i;
    const findButtons = async () => {
      const found = new Map<string, string[]>();
      for (const place of places) {
        await page.goto(`${site.address}/console/#/1/${place}`);
        await page.getByRole('heading', { level: 1 }).waitFor();
        await expect.poll(() => page.getByRole('status', { name: 'Loading' }).count()).toBe(0);
        const texts = await page.locator('main').locator('button, a.button').allTextContents();
        found.set(
          place,
          texts.filter((text) => changing.test(text)),
        );
      }
      return found;
    };
    await signInTo(page, await site.issueKey('batch_export:write,plugin:write'));
    const offered = await findButtons();
    expect([...offered].filter(([, texts]) => texts.length === 0)).toEqual([]);
    await button('Sign out').click();
    await signInTo(page, await site.issueKey('batch_export:read,plugin:read'));
    const left = [...(await findButtons())].filter(([, texts]) => texts.length > 0);
    expect(left).toEqual([]);
  });
}
