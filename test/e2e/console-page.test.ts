import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { Client } from 'pg';
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createTimeFormat } from '../../src/console/times.ts';
import { systemClock } from '../../src/domain/clock.ts';
import { toTimestamp } from '../../src/domain/time.ts';
import { findEmbeddedPostgres } from '../../src/embedded-postgres/start.ts';
import { projectRoot, startSluice, type TestProcess } from '../support/processes.ts';
import { type S3Server, startS3Server } from '../support/s3-server/server.ts';

const executablePath = ['/usr/bin/chromium', '/usr/bin/chromium-browser'].find(existsSync);
const flags = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];
if (!executablePath) {
  if (process.env.REQUIRE_BROWSER === '1') throw new Error('REQUIRE_BROWSER=1, but no chromium.');
  console.log('The page is not tested in a browser: there is no /usr/bin/chromium.');
}

/** Half an hour off UTC: a page that mixed up the two would ask for other intervals. */
const timezoneId = 'Asia/Kolkata';
const hour = 3_600_000;
const credentials = { accessKeyId: 'AKIAPAGE', secretAccessKey: 'canary-of-the-page' };
const rowsAnHour = 40;
const hours = 3;

describe.skipIf(!executablePath)('the page, in a browser, over the whole service', () => {
  let folder: string;
  let s3: S3Server;
  let sluice: TestProcess;
  let address: string;
  let key: string;
  let browser: Browser;
  let context: BrowserContext;
  let page: Page;
  const faults: string[] = [];
  const firstHour = Math.floor(systemClock.now() / hour) * hour - hours * hour;

  beforeAll(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'sluice-page-'));
    const build = path.join(projectRoot, 'scripts/build-console.mjs');
    await promisify(execFile)(process.execPath, [build]);
    s3 = await startS3Server({ buckets: ['acme'], credentials });
    sluice = startSluice('main/all-in-one.js', [], {
      env: {
        ...serviceEnv(folder),
        ALLOWED_PRIVATE_ENDPOINTS: `127.0.0.1:${s3.port}`,
      },
    });
    address = (await sluice.waitForLine(/^ready /, 90_000)).slice('ready '.length);
    key = await issueKey(folder);
    await insertEvents(folder, firstHour);
    browser = await chromium.launch({ executablePath: executablePath ?? '', args: flags });
    context = await browser.newContext({ timezoneId, locale: 'en-GB' });
    page = await context.newPage();
    page.setDefaultTimeout(20_000);
    page.on('pageerror', (error) => faults.push(error.message));
    page.on('console', (message) => {
      if (/Content Security Policy/i.test(message.text())) faults.push(message.text());
    });
  });

  afterAll(async () => {
    await browser?.close();
    sluice?.kill('SIGTERM');
    await sluice?.waitForExit();
    await s3?.close();
    await rm(folder, { recursive: true, force: true });
  });

  test('is found from the root, and asks for a key', async () => {
    await page.goto(address);
    expect(new URL(page.url()).pathname).toBe('/console/');
    await page.getByLabel('API key').fill('slc_nonsense');
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('alert').getByText(/key/i).waitFor();
  });

  test('opens with a key, and says that there is no export yet', async () => {
    await page.getByLabel('API key').fill(key);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('heading', { name: 'No exports yet' }).waitFor();
  });

  test('shows what the API finds wrong at the field that it names', async () => {
    await page.getByRole('link', { name: 'New export' }).click();
    await page.getByLabel('Name', { exact: true }).fill('Events to acme');
    await page.getByLabel('AWS access key ID').fill(credentials.accessKeyId);
    await page.getByRole('button', { name: 'Create export' }).click();
    const bucket = page.getByLabel('Bucket name');
    await expect.poll(() => bucket.getAttribute('aria-invalid')).toBe('true');
    expect(await page.locator(':focus').getAttribute('id')).toBe(await bucket.getAttribute('id'));
    expect(await page.getByLabel('Name', { exact: true }).inputValue()).toBe('Events to acme');
  });

  test('creates an export through the form, and never shows its secret again', async () => {
    await page.getByLabel('Bucket name').fill('acme');
    await page.getByLabel('Region').fill('us-east-1');
    await page.getByLabel('AWS secret access key').fill(credentials.secretAccessKey);
    await page.getByLabel('Prefix').fill('events');
    await page.getByText('More settings').click();
    await page.getByLabel('Endpoint URL').fill(s3.endpoint);
    await page.getByLabel('Compression').selectOption('gzip');
    await page.getByRole('button', { name: 'Create export' }).click();
    await page.getByRole('heading', { name: 'Events to acme', level: 1 }).waitFor();
    await page.getByRole('link', { name: 'Settings' }).click();
    await page.getByText('hidden', { exact: true }).first().waitFor();
    expect(await page.content()).not.toContain(credentials.secretAccessKey);
  });

  test('tests the destination, and shows the next intervals', async () => {
    await page.getByRole('button', { name: 'Test the destination' }).click();
    const steps = page.locator('.steps').getByRole('listitem');
    await steps.last().waitFor();
    expect(await steps.allTextContents()).toEqual(
      expect.not.arrayContaining([expect.stringContaining('failed')]),
    );
    expect(await page.locator('.schedule').first().getByRole('listitem').count()).toBe(10);
  });

  test('shows what a backfill would do, does it, and every row is at the destination', async () => {
    const { inputValue } = createTimeFormat('en-GB', timezoneId);
    const local = (ms: number) => inputValue(toTimestamp(ms));
    await page.getByRole('link', { name: 'Backfills' }).click();
    await page.getByLabel('From').fill(local(firstHour));
    await page.getByLabel('To', { exact: true }).fill(local(firstHour + hours * hour));
    await page.getByRole('button', { name: 'Preview' }).click();
    await page.getByRole('button', { name: `Start ${hours} runs` }).click();
    await page.getByText(`${hours} of ${hours} runs`).waitFor();
    await page.getByRole('link', { name: 'Runs', exact: true }).click();
    const completed = page.getByRole('cell', { name: 'Completed' });
    await expect.poll(() => completed.count(), { timeout: 20_000 }).toBe(hours);
    expect(await page.getByRole('cell', { name: String(rowsAnHour), exact: true }).count()).toBe(
      hours,
    );
    const keys = s3.objects('acme').map((object) => object.key);
    expect(keys.filter((name) => name.endsWith('.jsonl.gz'))).toHaveLength(hours);
    expect(keys.filter((name) => name.endsWith('_manifest.json'))).toHaveLength(hours);
  });

  test('filters runs by their status', async () => {
    await page.getByRole('button', { name: 'Failed' }).click();
    await page.getByRole('heading', { name: 'No runs with this status' }).waitFor();
    await page.getByRole('button', { name: 'Failed' }).click();
    await page.getByRole('cell', { name: 'Completed' }).first().waitFor();
  });

  test('shows the logs of a run, and only the levels asked for', async () => {
    await page.getByRole('rowheader').first().getByRole('link').click();
    const lines = page.getByRole('region', { name: 'Logs' }).getByRole('listitem');
    await lines.getByText(/Attempt 1/).waitFor();
    await page.getByRole('button', { name: 'ERROR' }).click();
    await page.getByRole('heading', { name: 'No log entries' }).waitFor();
  });

  test('fits a phone, and pauses an export from the list', async () => {
    await page.setViewportSize({ width: 390, height: 844 });
    await page.getByRole('link', { name: 'Exports' }).click();
    await page.getByRole('button', { name: 'Pause Events to acme' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Pause' }).click();
    await page.getByText('when unpaused').waitFor();
    const width = await page.evaluate('document.documentElement.scrollWidth');
    expect(width).toBeLessThanOrEqual(390);
    await page.getByRole('button', { name: 'Unpause Events to acme' }).waitFor();
  });

  test('says so if the key is refused later on', async () => {
    const session = await page.evaluate("sessionStorage.getItem('sluice-session')");
    const revoked = String(session).replace(key, 'slc_revoked');
    await page.evaluate(`sessionStorage.setItem('sluice-session', ${JSON.stringify(revoked)})`);
    await page.reload();
    await page.getByText('no longer accepted').waitFor();
    await page.getByLabel('API key').fill(key);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('heading', { name: 'Exports' }).waitFor();
  });

  test('forgets the key when it is asked to', async () => {
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.reload();
    await page.getByLabel('API key').waitFor();
    expect(await page.evaluate('sessionStorage.length + localStorage.length')).toBe(0);
  });

  test('violates no rule of its content policy, and throws nothing', async () => {
    const answer = await fetch(`${address}/console/`);
    const html = await answer.text();
    expect(answer.headers.get('content-security-policy')).toContain("script-src 'self'");
    expect(answer.headers.get('cache-control')).toBe('no-cache');
    const [script = ''] = /\/console\/assets\/[^"]+\.js/.exec(html) ?? [];
    const asset = await fetch(`${address}${script}`);
    expect(asset.headers.get('cache-control')).toContain('immutable');
    expect((await fetch(`${address}/console/assets/none.js`)).status).toBe(404);
    expect(faults).toEqual([]);
  });
});

function serviceEnv(folder: string): Record<string, string | undefined> {
  return {
    SLUICE_DATA_DIR: path.join(folder, 'data'),
    PORT: '0',
    MAX_JITTER_SECONDS: '0',
    DATABASE_URL: undefined,
    SOURCE_DATABASE_URL: undefined,
    REDIS_URL: undefined,
  };
}

/** A key of a new organization with one project, made as an operator makes it. */
async function issueKey(folder: string): Promise<string> {
  const cli = async (...args: string[]): Promise<Record<string, unknown>> => {
    const file = path.join(projectRoot, 'dist/cli/sluice.js');
    const { stdout } = await promisify(execFile)(process.execPath, [file, ...args, '--json'], {
      cwd: projectRoot,
      env: { ...process.env, ...serviceEnv(folder) },
    });
    return JSON.parse(stdout);
  };
  const { id } = await cli('organizations', 'create', '--name', 'Acme');
  const organization = ['--organization', String(id)];
  await cli('projects', 'create', ...organization, '--name', 'Web');
  const rights = ['--scopes', 'batch_export:write', '--name', 'page'];
  return String((await cli('keys', 'create', ...organization, ...rights)).key);
}

/** Events of the first project that arrived over the hours before this one. */
async function insertEvents(folder: string, from: number): Promise<void> {
  const url = await findEmbeddedPostgres(path.join(folder, 'data'));
  const client = new Client({ connectionString: url ?? '' });
  await client.connect();
  try {
    await client.query(
      `insert into events (uuid, team_id, event, distinct_id, properties, timestamp, inserted_at)
       select gen_random_uuid(), 1, 'signed_up', 'u' || i, '{"plan": "pro"}', at, at
       from generate_series(0, $2::int * $3::int - 1) i,
         lateral (select to_timestamp($1::float8 / 1000) + i * interval '1 hour' / $3::int as at) t`,
      [from, hours, rowsAnHour],
    );
  } finally {
    await client.end();
  }
}
