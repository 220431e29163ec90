import { mkdir, stat } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { systemClock } from '../../src/foundation/domain/clock.ts';
import { toTimestamp } from '../../src/foundation/domain/time.ts';
import { type ApiClient, createApiClient } from '../support/api-client.ts';
import { signInTo } from '../support/page-checks.ts';
import {
  type PageUnderTest,
  pageBucket,
  pageCredentials,
  startPage,
} from '../support/page-under-test.ts';
import { projectRoot } from '../support/processes.ts';
import { until } from '../support/until.ts';

/** Not a test: `npm run screenshots` runs it. */

const folder = path.join(projectRoot, 'docs/images');
const exportsPath = '/api/projects/@current/batch_exports';
const hour = 3_600_000;
const hours = 48;
const maxBytes = 150_000;

let site: PageUnderTest;
let client: ApiClient;
let id: string;

beforeAll(async () => {
  await mkdir(folder, { recursive: true });
  site = await startPage();
  const key = await site.issueKey('batch_export:write,plugin:write');
  client = createApiClient(site.address, key);
  const now = Math.floor(systemClock.now() / hour) * hour;
  for (let ago = hours; ago > 0; ago -= 1) {
    // Fewer rows at night.
    const rows = Math.round(400 - 300 * Math.cos((ago / 24) * 2 * Math.PI));
    await site.insertEvents(now - ago * hour, 1, rows);
  }
  id = await create('Events, hourly', { bucket_name: pageBucket, compression: 'gzip' });
  await client.post(`${exportsPath}/${id}/backfill`, {
    start_at: toTimestamp(now - hours * hour),
    end_at: toTimestamp(now),
  });
  await until(
    async () => {
      const { results } = (await client.get(`${exportsPath}/${id}/backfills`)).body;
      return results[0]?.status === 'Completed';
    },
    { timeoutMs: 120_000 },
  );
  const broken = await create('Sign-ups to the warehouse', { bucket_name: 'no-such-bucket' });
  const failed = { start_at: toTimestamp(now - 2 * hour), end_at: toTimestamp(now) };
  await client.post(`${exportsPath}/${broken}/backfill`, failed);
  const paused = await create('Billing, daily', { bucket_name: pageBucket }, 'day');
  await client.post(`${exportsPath}/${paused}/pause`);
  await until(
    async () => {
      const { results } = (await client.get(`${exportsPath}/${broken}/backfills`)).body;
      return results[0]?.status !== 'Running';
    },
    { timeoutMs: 60_000 },
  );
  await site.page.setViewportSize({ width: 1280, height: 800 });
  await site.page.goto(site.address);
  await signInTo(site.page, key);
  await site.page.getByLabel('Time zone of the page').selectOption({ label: 'UTC' });
});
afterAll(() => site?.close());

async function create(name: string, config: object, interval = 'hour'): Promise<string> {
  const body = {
    name,
    interval,
    destination: {
      type: 'S3',
      config: {
        region: 'us-east-1',
        prefix: name.split(/[ ,]/, 1)[0]?.toLowerCase(),
        endpoint_url: site.s3.endpoint,
        aws_access_key_id: pageCredentials.accessKeyId,
        aws_secret_access_key: pageCredentials.secretAccessKey,
        ...config,
      },
    },
  };
  const answer = await client.post(exportsPath, body);
  expect(answer.status, answer.text).toBe(201);
  return answer.body.id;
}

test.each([
  ['exports', '', 'Events, hourly'],
  ['coverage', 'exports/ID/coverage', 'Coverage'],
  ['form', 'new', 'Test destination'],
])('the picture of %s', async (name, route, text) => {
  await site.page.goto(`${site.address}/console/#/${route.replace('ID', id)}`);
  await site.page.reload();
  await take(name, text);
});

test('the picture of causes, for an operator', async () => {
  await site.page.getByRole('button', { name: 'Sign out' }).click();
  await site.page.goto(`${site.address}/console/#/`);
  await signInTo(site.page, await site.issueOperatorKey('*'));
  await take('causes', 'no-such-bucket');
});

/** @param text what the page shows once it is complete */
async function take(name: string, text: string): Promise<void> {
  const { page } = site;
  await page.getByText(text).first().waitFor();
  await page.waitForLoadState('networkidle');
  const file = path.join(folder, `${name}.png`);
  await page.screenshot({ path: file });
  expect((await stat(file)).size).toBeLessThanOrEqual(maxBytes);
}
