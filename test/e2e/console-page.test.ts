import { readFile } from 'node:fs/promises';
import { gunzipSync } from 'node:zlib';
import { Client } from 'pg';
import type { Page } from 'playwright-core';
import { beforeAll, describe, expect, test } from 'vitest';
import { createTimeFormat } from '../../src/clients/console/times.ts';
import { systemClock } from '../../src/foundation/domain/clock.ts';
import { toTimestamp } from '../../src/foundation/domain/time.ts';
import {
  pageCredentials as credentials,
  hasBrowser,
  pageBucket,
  startPage,
  timezoneId,
} from '../support/page-under-test.ts';
import { signInTo } from '../support/page-checks.ts';
import { useStage } from '../support/use-stage.ts';

const hour = 3_600_000;
const rowsAnHour = 40;
const hours = 3;

describe.skipIf(!hasBrowser)('the page, in a browser, over the whole service', () => {
  let page: Page;
  let key: string;
  /** Of the page, in order. */
  const asked: string[] = [];
  const firstHour = Math.floor(systemClock.now() / hour) * hour - hours * hour;

  const site = useStage(startPage);
  beforeAll(async () => {
    ({ page } = site);
    page.on('request', (request) => asked.push(new URL(request.url()).pathname));
    key = await site.issueKey('batch_export:write');
    await site.insertEvents(firstHour, hours, rowsAnHour);
  });

  test('is found from the root, and asks for a key', async () => {
    await page.goto(site.address);
    expect(new URL(page.url()).pathname).toBe('/console/');
    await page.getByLabel('API key').fill('slc_nonsense');
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('alert').getByText(/key/i).waitFor();
  });

  test('opens with a key, and says that there is no export yet', async () => {
    await page.getByLabel('API key').fill(key);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('heading', { name: 'No exports yet' }).waitFor();
    // It is large, and only forms need it.
    await page.waitForLoadState('networkidle');
    expect(asked).toContain('/api/me');
    expect(asked).not.toContain('/api/openapi.json');
    await page.getByRole('link', { name: 'New export' }).click();
    await page.getByLabel('Name', { exact: true }).waitFor();
    expect(asked.filter((path) => path === '/api/openapi.json')).toHaveLength(1);
    await page.getByRole('link', { name: 'Exports' }).first().click();
  });

  test('creates an export through the form, and never shows its secret again', async () => {
    await page.getByRole('link', { name: 'New export' }).click();
    await page.getByLabel('Name', { exact: true }).fill('Events to acme');
    await page.getByLabel('AWS access key ID').fill(credentials.accessKeyId);
    await page.getByLabel('Bucket name').fill(pageBucket);
    await page.getByLabel('Region').fill('us-east-1');
    await page.getByLabel('AWS secret access key').fill(credentials.secretAccessKey);
    await page.locator('.more > summary').click();
    await page.getByLabel('Prefix').fill('events');
    await page.getByLabel('Endpoint URL').fill(site.s3.endpoint);
    await page.getByLabel('Compression').selectOption('gzip');
    await page.getByRole('button', { name: 'Create export' }).click();
    await page.getByRole('heading', { name: 'Events to acme', level: 1 }).waitFor();
    await page.getByRole('link', { name: 'Settings' }).click();
    await page.getByText('hidden', { exact: true }).first().waitFor();
    expect(await page.content()).not.toContain(credentials.secretAccessKey);
  });

  test('shows what a backfill would do, does it, and every row is at the destination', async () => {
    const writer = new Client({ connectionString: site.databaseUrl, application_name: 'billing' });
    await writer.connect();
    await writer.query('begin; select 1');
    const { inputValue } = createTimeFormat('en-GB', timezoneId);
    const local = (ms: number) => inputValue(toTimestamp(ms));
    await page.getByRole('link', { name: 'Backfills' }).click();
    await page.getByLabel('From').fill(local(firstHour));
    await page.getByLabel('To', { exact: true }).fill(local(firstHour + hours * hour));
    await page.getByRole('button', { name: 'Preview' }).click();
    await page.getByRole('button', { name: `Start ${hours} runs` }).click();
    await page.getByText('Backfill', { exact: false }).first().waitFor();
    await page.getByRole('link', { name: 'Runs', exact: true }).click();
    await page.getByRole('rowheader').first().getByRole('link').click();
    // A run names the transaction that it waits for.
    await page
      .getByText(/^process \d+ \(role .*, application billing, transaction since/)
      .waitFor();
    await writer.end();
    await page.getByRole('link', { name: 'Events to acme' }).click();
    await page.getByRole('link', { name: 'Backfills' }).click();
    await page.getByText(`${hours} of ${hours} runs`).waitFor();
    await page.getByRole('link', { name: 'Runs', exact: true }).click();
    const completed = page.getByRole('cell', { name: 'Completed' });
    await expect.poll(() => completed.count(), { timeout: 20_000 }).toBe(hours);
    expect(await page.getByRole('cell', { name: String(rowsAnHour), exact: true }).count()).toBe(
      hours,
    );
    const keys = site.s3.objects(pageBucket).map((object) => object.key);
    expect(keys.filter((name) => name.endsWith('.jsonl.gz'))).toHaveLength(hours);
    expect(keys.filter((name) => name.endsWith('_manifest.json'))).toHaveLength(hours);
  });

  test('filters runs by their status', async () => {
    await page.getByRole('button', { name: 'Failed' }).click();
    await page.getByRole('heading', { name: 'No runs with this status' }).waitFor();
    await page.getByRole('button', { name: 'Failed' }).click();
    await page.getByRole('cell', { name: 'Completed' }).first().waitFor();
  });

  test('shows all times by one clock, with its zone', async () => {
    const clock = page.getByLabel('Time zone of the page');
    const interval = page.getByRole('rowheader').first();
    expect(await interval.textContent()).toMatch(/:30 GMT\+5:30/);
    await clock.selectOption('utc');
    await expect.poll(() => interval.textContent()).toMatch(/:00 UTC/);
    await page.reload();
    await expect.poll(() => interval.textContent()).toMatch(/:00 UTC/);
    await clock.selectOption('local');
    await expect.poll(() => interval.textContent()).toMatch(/:30 GMT\+5:30/);
  });

  test('shows the logs of a run, and only the levels asked for', async () => {
    await page.getByRole('rowheader').first().getByRole('link').click();
    const lines = page.getByRole('region', { name: 'Logs' }).getByRole('listitem');
    await lines.getByText(/Attempt 1/).waitFor();
    await page.getByRole('button', { name: 'ERROR' }).click();
    await page.getByRole('heading', { name: 'No log entries' }).waitFor();
  });

  test('keeps delivered rows that the source has lost, until a person was shown how many would go', async () => {
    const { inputValue } = createTimeFormat('en-GB', timezoneId);
    await site.query(loseRows, [firstHour, hour, 1]);
    await page.getByRole('link', { name: 'Events to acme' }).click();
    await page.getByRole('link', { name: 'Backfills' }).click();
    await page.getByLabel('From').fill(inputValue(toTimestamp(firstHour)));
    await page.getByLabel('To', { exact: true }).fill(inputValue(toTimestamp(firstHour + hour)));
    await page.getByLabel('Intervals', { exact: true }).selectOption('all');
    await page.getByLabel('Delivered rows that the source').selectOption('drop');
    await page.getByRole('button', { name: 'Preview' }).click();
    const numbers = `${rowsAnHour} rows are delivered, and the source has 1 now. At least ${rowsAnHour - 1} delivered rows`;
    await page.getByText(`${numbers} will be removed`).waitFor();
    await page.getByRole('button', { name: 'Start 1 run' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText(numbers).waitFor();
    // Within one task: the dialog is closed before the page knows it.
    await page.evaluate(`{
      document.querySelector('dialog button[type=button]').click();
      const choice = document.querySelector('option[value=drop]').closest('select');
      choice.value = 'keep';
      choice.dispatchEvent(new Event('change', { bubbles: true }));
    }`);
    await page.getByRole('button', { name: 'Preview' }).click();
    await page.getByText(`${numbers} would go`).waitFor();
    await page.getByRole('button', { name: 'Start 1 run' }).click();
    await page.getByRole('link', { name: 'Runs', exact: true }).click();
    const failed = page.getByRole('rowgroup').filter({ hasText: 'rows_missing' });
    await failed.getByRole('link').first().click({ timeout: 20_000 });
    await page.getByText('To keep the files as they are, there is nothing to do').waitFor();
    const files = () =>
      site.s3.objects(pageBucket).filter((object) => object.key.endsWith('.jsonl.gz'));
    expect(files().filter(({ key: name }) => name.includes('.v'))).toEqual([]);
    await page.getByRole('button', { name: 'Export again and drop missing rows' }).click();
    const lacks = `${rowsAnHour} rows are delivered, 1 rows are in the new files, and ${rowsAnHour - 1} delivered rows are missing`;
    await dialog.getByText(lacks).waitFor();
    await dialog.getByRole('button', { name: 'Remove them' }).click();
    const made = () => files().filter(({ key: name }) => name.includes('.v')).length;
    await expect.poll(made, { timeout: 20_000 }).toBe(1);
    await expect.poll(() => files().length, { timeout: 20_000 }).toBe(hours);
  });

  test('fits a phone, and pauses an export from the list', async () => {
    await page.setViewportSize({ width: 390, height: 844 });
    await page.getByRole('link', { name: 'Exports' }).first().click();
    await page.getByRole('button', { name: 'Pause Events to acme' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Pause' }).click();
    await page.getByText('when unpaused').waitFor();
    expect(await page.locator(':focus').getAttribute('aria-label')).toBe('Unpause Events to acme');
    const width = await page.evaluate('document.documentElement.scrollWidth');
    expect(width).toBeLessThanOrEqual(390);
    await page.getByRole('button', { name: 'Unpause Events to acme' }).waitFor();
  });

  test('says which intervals have no data, and never "up to date" over them', async () => {
    await site.query(setMark);
    await page.reload();
    await page.getByText('up to date').waitFor();
    await site.query(failHours, [firstHour - 4 * hour, 4]);
    await page.reload();
    await page.getByText('4 intervals without data since').waitFor();
    await page.getByText('Incomplete', { exact: true }).waitFor();
    expect(await page.getByText('up to date').count()).toBe(0);
    await page.getByRole('link', { name: 'Events to acme' }).click();
    await page.getByText('4 intervals without data since').waitFor();
    expect(await page.getByText('up to date').count()).toBe(0);
    await page.getByRole('link', { name: 'Exports' }).first().click();
  });

  test('an unpause offers what has no data, in numbers, and says what it leaves out', async () => {
    await page.getByRole('button', { name: 'Unpause Events to acme' }).click();
    const dialog = page.getByRole('dialog');
    const without = dialog.getByLabel(/^Export 4 intervals without data/);
    await without.waitFor();
    await dialog.getByText('All of them are exported again now').waitFor();
    await without.uncheck();
    await dialog
      .getByText('Sluice exports 4 intervals by itself once the cause is over.')
      .waitFor();
    await without.check();
    await dialog.getByRole('button', { name: 'Unpause' }).click();
    await page.getByText('Events to acme is unpaused. 4 runs started.').waitFor();
    // Without rows in these hours, the backfill says what that means.
    await page.getByRole('link', { name: 'Events to acme' }).click();
    await page.getByRole('link', { name: 'Backfills' }).click();
    await page.getByText(/4 of 4 runs.* · the source has no rows in these intervals/).waitFor();
    await expect
      .poll(() => page.getByText(/intervals? without data/).count(), { timeout: 20_000 })
      .toBe(0);
    await page.getByRole('link', { name: 'Exports' }).first().click();
  });

  test('downloads a file with a key that may, and offers it to no other', async () => {
    const openRun = async () => {
      await page.getByRole('link', { name: 'Events to acme' }).click();
      await page.getByRole('link', { name: 'Runs', exact: true }).click();
      const row = page.getByRole('row').filter({ hasText: 'Completed' });
      await row
        .filter({ hasText: String(rowsAnHour) })
        .first()
        .getByRole('link')
        .first()
        .click();
      await page.getByRole('region', { name: 'Files' }).getByText('.jsonl.gz').first().waitFor();
    };
    const change = async (next: string) => {
      await page.getByRole('button', { name: 'Sign out' }).click();
      await signInTo(page, next);
    };
    await openRun();
    const download = page.getByRole('button', { name: /^Download .*\.jsonl\.gz$/ });
    expect(await download.count()).toBe(0);
    await change(await site.issueKey('batch_export:read,file:read'));
    await openRun();
    const [saved] = await Promise.all([page.waitForEvent('download'), download.first().click()]);
    expect(saved.suggestedFilename()).toMatch(/^[\w.-]+\.jsonl\.gz$/);
    const text = gunzipSync(await readFile(await saved.path())).toString();
    expect(text.trim().split('\n')).toHaveLength(rowsAnHour);
    await page.getByRole('link', { name: 'Events to acme' }).click();
    await page.getByRole('link', { name: 'Changes' }).click();
    await page.getByRole('heading', { name: 'linked a file' }).waitFor();
    await change(key);
    await page.getByRole('link', { name: 'Exports' }).first().click();
  });

  test('forgets the key when it is asked to', async () => {
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.reload();
    await page.getByLabel('API key').waitFor();
    // The chosen clock is no secret.
    expect(await page.evaluate('Object.keys({ ...sessionStorage, ...localStorage })')).toEqual([
      'sluice-clock',
    ]);
    expect(site.faults).toEqual([]);
  });
});

/** As if every scheduled interval up to now were exported. */
const setMark = `update batch_exports set high_water_mark = date_trunc('hour', now(), 'UTC')`;

/** Leaves some rows of a span. */
const loseRows = `with span as (
    select uuid from events where inserted_at >= to_timestamp($1::float8 / 1000)
       and inserted_at < to_timestamp(($1::float8 + $2::float8) / 1000) order by uuid offset $3
  ) delete from events where uuid in (select uuid from span)`;

/** As if a backfill of some hours had failed. */
const failHours = `insert into runs (export_id, team_id, status, data_interval_start, data_interval_end, finished_at)
  select e.id, e.team_id, 'Failed', at, at + interval '1 hour', now() from batch_exports e, generate_series(0, $2::int - 1) i,
    lateral (select to_timestamp($1::float8 / 1000) + i * interval '1 hour' as at) t`;
