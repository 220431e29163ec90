import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Pool } from 'pg';
import { type Browser, chromium, type Page } from 'playwright-core';
import { type Database, openDatabase } from '../../src/state/store/database/database.ts';
import { insertOrganization, insertProject } from '../../src/state/store/tenants/tenants.ts';
import { issueKey } from '../../src/service/use-cases/tenants/keys.ts';
import { createTestDatabase, type TestDatabase } from './database.ts';
import { startBundled, type TestProcess } from './processes.ts';
import { type S3Server, startS3Server } from './s3-server/server.ts';
import { planShop, type Shop, shopVariable, writeShopModels } from './stranger-shop.ts';

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

/** Whether this machine can show the page. */
export const hasBrowser = executablePath !== undefined;
/** Half an hour off UTC: a page that mixed up the two would ask for other intervals. */
export const timezoneId = 'Asia/Kolkata';
export const pageBucket = 'acme';
export const pageCredentials = { accessKeyId: 'AKIAPAGE', secretAccessKey: 'canary-of-the-page' };

/** The page of a whole service, in a browser. */
export interface PageUnderTest {
  readonly address: string;
  readonly s3: S3Server;
  readonly page: Page;
  /** Errors that the page threw, and violations of its content policy. */
  readonly faults: readonly string[];
  /** A key of the organization Acme, which has one project, made as an operator makes it. */
  issueKey(scopes: string): Promise<string>;
  /** A key of an operator. */
  issueOperatorKey(scopes: string): Promise<string>;
  /** Events of the project that arrived over some hours. */
  insertEvents(from: number, hours: number, rowsAnHour: number): Promise<void>;
  /** The database of the models besides `events`. */
  readonly shop: Pool;
  /** Of the service's database, whose events are exported. */
  readonly databaseUrl: string;
  /** A statement in the database of the service. */
  query(text: string, values?: readonly unknown[]): Promise<void>;
  close(): Promise<void>;
}

/** @param program `main/api.js`: no worker changes what a test made */
export async function startPage(program = 'main/all-in-one.js'): Promise<PageUnderTest> {
  const folder = await mkdtemp(path.join(tmpdir(), 'sluice-page-'));
  const s3 = await startS3Server({ buckets: [pageBucket], credentials: pageCredentials });
  const database = await createTestDatabase();
  const planned = planShop();
  const shop = await planned.open();
  const sluice = startBundled(program, [], {
    env: {
      SLUICE_DATA_DIR: path.join(folder, 'data'),
      PORT: '0',
      MAX_JITTER_SECONDS: '0',
      DATABASE_URL: database.url,
      MODELS_FILE: await writeShopModels(folder),
      [shopVariable]: planned.url,
      SOURCE_DATABASE_URL: undefined,
      REDIS_URL: undefined,
      ENCRYPTION_KEYS: `test:${randomBytes(32).toString('base64')}`,
      ALLOWED_PRIVATE_ENDPOINTS: `127.0.0.1:${s3.port}`,
    },
  });
  const [{ browser, page, faults }, line] = await Promise.all([
    openBrowser(),
    sluice.waitForLine(/^ready /, 90_000),
  ]);
  const db = openDatabase({
    connectionString: database.url,
    applicationName: 'test',
    maxConnections: 1,
    onError: () => {},
  });
  const { id: organizationId } = await insertOrganization(db, 'Acme');
  await insertProject(db, { organizationId, name: 'Web' });
  const query = async (text: string, values: readonly unknown[] = []) => {
    await database.pool.query(text, [...values]);
  };
  return {
    address: line.slice('ready '.length),
    s3,
    shop,
    databaseUrl: database.url,
    page,
    faults,
    async issueKey(scopes) {
      const wanted = { organizationId, projectIds: null, name: 'page', expiresAt: null };
      return (await issueKey(db, { ...wanted, scopes: scopes.split(',') })).key;
    },
    async issueOperatorKey(scopes) {
      const wanted = { organizationId: null, projectIds: null, name: 'operator', expiresAt: null };
      return (await issueKey(db, { ...wanted, scopes: scopes.split(',') })).key;
    },
    insertEvents: (...given) => query(insertRows, given),
    query,
    close: () => close({ browser, sluice, s3, folder, db, database, shop: planned }),
  };
}

/** A browser with an empty page. `faults`: errors that the page threw, and violations of its content policy. */
export async function openBrowser(): Promise<{
  readonly browser: Browser;
  readonly page: Page;
  readonly faults: readonly string[];
}> {
  const browser = await chromium.launch({ executablePath: executablePath ?? '', args: flags });
  const locale = { timezoneId, locale: 'en-GB', reducedMotion: 'reduce' } as const;
  const page = await (await browser.newContext(locale)).newPage();
  const faults: string[] = [];
  page.setDefaultTimeout(20_000);
  page.on('pageerror', (error) => faults.push(error.message));
  page.on('console', (message) => {
    if (/Content Security Policy/i.test(message.text())) faults.push(message.text());
  });
  return { browser, page, faults };
}

interface Parts {
  readonly browser: Browser;
  readonly sluice: TestProcess;
  readonly s3: S3Server;
  readonly folder: string;
  readonly db: Database;
  readonly database: TestDatabase;
  readonly shop: Shop;
}

async function close({ browser, sluice, s3, folder, db, database, shop }: Parts): Promise<void> {
  await browser.close();
  sluice.kill('SIGTERM');
  await sluice.waitForExit();
  await s3.close();
  await db.close();
  await database.drop();
  await shop.drop();
  await rm(folder, { recursive: true, force: true });
}

/** Parameters: the first instant, hours, rows an hour. */
const insertRows = `insert into events (uuid, team_id, event, distinct_id, properties, timestamp, inserted_at)
  select gen_random_uuid(), 1, 'signed_up', 'u' || i, '{"plan": "pro"}', at, at
  from generate_series(0, $2::int * $3::int - 1) i,
    lateral (select to_timestamp($1::float8 / 1000) + i * interval '1 hour' / $3::int as at) t`;
