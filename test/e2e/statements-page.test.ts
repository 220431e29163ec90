import type { Page } from 'playwright-core';
import { beforeAll, describe, expect, test } from 'vitest';
import { systemClock } from '../../src/foundation/domain/clock.ts';
import { toTimestamp } from '../../src/foundation/domain/time.ts';
import { createApiClient } from '../support/api-client.ts';
import { expectToBeAccessible, signInTo } from '../support/page-checks.ts';
import { hasBrowser, pageBucket, pageCredentials, startPage } from '../support/page-under-test.ts';
import { until } from '../support/until.ts';
import { useStage } from '../support/use-stage.ts';

const exportsPath = '/api/projects/@current/batch_exports';
const hour = 3_600_000;

describe.skipIf(!hasBrowser)('the statements of an export, on the page', () => {
  let page: Page;
  let key: string;
  let id: string;

  const site = useStage(startPage);
  beforeAll(async () => {
    ({ page } = site);
    key = await site.issueKey('batch_export:write');
    const start = Math.floor(systemClock.now() / hour) * hour - 2 * hour;
    await site.insertEvents(start, 2, 40);
    const client = createApiClient(site.address, key);
    const config = {
      ...{ bucket_name: pageBucket, region: 'us-east-1', prefix: 'events' },
      ...{ endpoint_url: site.s3.endpoint, aws_access_key_id: pageCredentials.accessKeyId },
      aws_secret_access_key: pageCredentials.secretAccessKey,
    };
    const body = { name: 'Events', interval: 'hour', destination: { type: 'S3', config } };
    id = String((await client.post(exportsPath, body)).body.id);
    const range = { start_at: toTimestamp(start), end_at: toTimestamp(start + 2 * hour) };
    expect((await client.post(`${exportsPath}/${id}/backfill`, range)).status).toBe(200);
    await until(async () => {
      const { body } = await client.get(`${exportsPath}/${id}/runs?status=Completed`);
      return body.results.length === 2;
    });
    await page.goto(`${site.address}/console/#/1/exports/${id}/statements`);
    await signInTo(page, key);
  });

  const button = (name: string | RegExp) => page.getByRole('button', { name });
  const verdict = () => page.getByRole('status', { name: 'Result of the check' });
  const check = async (text: string | RegExp) => {
    await button('Check here').click();
    await verdict().getByText(text).waitFor();
    return verdict().getByRole('listitem').allTextContents();
  };

  test('makes one, and shows what it holds, the key and the command of the checker', async () => {
    await page.getByRole('heading', { name: 'No statements yet' }).waitFor();
    await expectToBeAccessible(page);
    await button('Make one now').click();
    await page.getByRole('rowheader', { name: '1', exact: true }).waitFor();
    const row = page.getByRole('row').filter({ has: page.getByRole('rowheader') });
    expect((await row.getByRole('cell').allTextContents()).slice(1, 5)).toEqual([
      '80',
      '0',
      '0',
      '80',
    ]);
    const { keys } = (await (await fetch(`${site.address}/api/signing_keys/`)).json()) as {
      readonly keys: readonly { readonly key_id: string }[];
    };
    const command = page.getByText(/^node sluice-check\.mjs/);
    expect(await command.textContent()).toMatch(
      new RegExp(`--deep --key ${keys[0]?.key_id}[0-9a-f]{48} --head 1:[0-9a-f]{64}$`),
    );
    await expectToBeAccessible(page);
  });

  test('says what the receiver has loaded, and that it is another number of rows', async () => {
    const client = createApiClient(site.address, key);
    const { sha256 } = (await client.get(`${exportsPath}/${id}/statements/head`)).body;
    const said = { number: 1, sha256, rows: 79 };
    expect((await client.post(`${exportsPath}/${id}/acknowledgements`, said)).status).toBe(201);
    await page.reload();
    await page.getByText('statement 1, 79 rows, but its balance is 80').waitFor();
    await expectToBeAccessible(page);
  });

  test('checks chain and signatures by the script that customers run', async () => {
    await button('Make one now').click();
    await page.getByRole('rowheader', { name: '2', exact: true }).waitFor();
    const lines = await check('The chain and all signatures are right.');
    // A line for each month: the intervals may be of two.
    const rows = lines.map((line) => Number(/ rows (\d+) /.exec(line)?.[1] ?? 0));
    expect(rows.reduce((sum, count) => sum + count)).toBe(80);
    expect(lines.at(-1)).toMatch(/Right\. The head is 2:[0-9a-f]{64}$/);
    await expectToBeAccessible(page);
  });

  test('names the statement that was changed, or is missing', async () => {
    const path = /statements\/1\/?$/;
    await page.route(path, async (route) => {
      const answer = await route.fetch();
      await route.fulfill({
        response: answer,
        body: (await answer.text()).replace('"rows":40', '"rows":41'),
      });
    });
    const changed = await check('This is not shown to be right.');
    expect(changed.at(-1)).toMatch(/^WRONG: _sluice\/statements\/1\.json has no right signature/);
    await page.unroute(path);
    const list = /statements\/?\?limit=1000/;
    await page.route(list, async (route) => {
      // An answer that the page has already would have no body.
      const { 'if-none-match': _, ...headers } = route.request().headers();
      const answer = await route.fetch({ headers });
      const body = (await answer.json()) as { readonly results: readonly unknown[] };
      await route.fulfill({ response: answer, json: { ...body, results: body.results.slice(1) } });
    });
    const cut = await check('This is not shown to be right.');
    expect(cut.at(-1)).toContain('_sluice/statements/2.json is missing');
    await page.unroute(list);
  });

  test('says that it cannot check in a browser without Ed25519', async () => {
    await page.evaluate(
      `SubtleCrypto.prototype.generateKey = () => Promise.reject(new DOMException('', 'NotSupportedError'))`,
    );
    const lines = await check('This is not shown to be right.');
    expect(lines).toEqual([expect.stringMatching(/^NOT CHECKED: this browser cannot/)]);
    await expectToBeAccessible(page);
    expect(site.faults).toEqual([]);
  });
});
