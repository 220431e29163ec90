import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Database } from '../../../src/state/store/database/database.ts';
import { createTestDatabase, testServer } from '../../support/database.ts';
import { withClient } from '../../support/drop-database.ts';
import { startBundled } from '../../support/processes.ts';
import { createExportOfThePast, hourMs, listRuns, openTestPool } from '../../support/run-side.ts';
import { createTenant } from '../../support/tenants.ts';
import { until } from '../../support/until.ts';
import { useStage } from '../../support/use-stage.ts';

let copyName: string;
let copyUrl: string;
const encryptionKey = `test:${Buffer.alloc(32, 7).toString('base64')}`;

const original = useStage(createTestDatabase);
beforeAll(async () => {
  copyName = `${new URL(original.url).pathname.slice(1)}_copy`;
  const url = new URL(original.url);
  url.pathname = `/${copyName}`;
  copyUrl = url.href;
});
afterAll(async () => {
  await asAdmin(`drop database if exists ${copyName} with (force)`);
});

const asAdmin = (sql: string) => withClient(testServer().adminUrl, (client) => client.query(sql));

const envOf = (url: string) => ({
  DATABASE_URL: url,
  REDIS_URL: '',
  ENCRYPTION_KEYS: encryptionKey,
  MAX_JITTER_SECONDS: '0',
  PORT: '0',
});

async function withDatabase<T>(url: string, work: (db: Database) => Promise<T>): Promise<T> {
  const db = openTestPool(url);
  return work(db).finally(() => db.close());
}

/** An hourly export of three hours, none of whose ticks is decided yet. */
async function makeExport(db: Database): Promise<string> {
  const { projectIds } = await createTenant(db);
  const made = await createExportOfThePast(
    { db, teamId: projectIds[0] },
    { createdMsAgo: 3 * hourMs },
  );
  return made.id;
}

const untilCompleted = (db: Database, exportId: string) =>
  until(
    async () => {
      const runs = await listRuns(db, exportId);
      return runs.length === 3 && runs.every(({ status }) => status === 'Completed');
    },
    { message: 'every interval is exported' },
  );

async function sluice(
  url: string,
  ...args: string[]
): Promise<{ code: number | null; text: string }> {
  const called = startBundled('clients/cli/sluice.js', args, { env: envOf(url) });
  const { code } = await called.waitForExit();
  return { code, text: called.output() };
}

test('a copy of the database is held until an operator accepts it; then its ticks are caught up', async () => {
  const first = startBundled('main/worker.js', [], { env: envOf(original.url) });
  await first.waitForLine(/^ready/);
  await withDatabase(original.url, async (db) => untilCompleted(db, await makeExport(db)));
  first.kill('SIGTERM');
  expect(await first.waitForExit()).toMatchObject({ code: 0 });
  expect(first.output()).not.toContain('A new era began');

  // A copy of a database needs its sessions to end first.
  await asAdmin(
    `select pg_terminate_backend(pid) from pg_stat_activity where datname = '${copyName.replace(/_copy$/, '')}'`,
  );
  await asAdmin(
    `create database ${copyName} owner ${testServer().owner.name} template ${copyName.replace(/_copy$/, '')}`,
  );
  await withDatabase(copyUrl, async (db) => {
    const exportId = await makeExport(db);
    const api = startBundled('main/api.js', [], { env: envOf(copyUrl) });
    const worker = startBundled('main/worker.js', [], { env: envOf(copyUrl) });
    const address = (await api.waitForLine(/^ready http/)).replace(/^ready /, '');
    await worker.waitForLine(/^ready/);
    await until(() => /A new era began.*the database \(/.test(`${api.output()}${worker.output()}`));
    expect(worker.output()).toMatch(/"level":"warn".*The service is held/);
    const ready = await fetch(`${address}/readyz`);
    expect(ready.status).toBe(200);
    expect(await ready.json()).toMatchObject({
      status: 'degraded',
      checks: { postgres: 'ok', era: expect.stringContaining('sluice eras accept') },
    });

    // While it reports twice, several ticks and a sweep come.
    const reports = async () => {
      const rows = await db.query<{ at: string }>('select max(heartbeat_at) as at from workers');
      return rows[0]?.at ?? '';
    };
    for (let report = 0, last = await reports(); report < 2; report += 1) {
      last = await until(
        async () => {
          const now = await reports();
          return now > last ? now : null;
        },
        { message: 'the worker reports' },
      );
    }
    expect(await listRuns(db, exportId)).toEqual([]);

    const listed = await sluice(copyUrl, 'eras', 'list', '--json');
    expect(JSON.parse(listed.text)).toMatchObject([
      { number: 1, held: false },
      { number: 2, held: true },
    ]);
    const accepted = await sluice(copyUrl, 'eras', 'accept', '--json');
    expect(JSON.parse(accepted.text)).toMatchObject({ number: 2, held: false });
    await untilCompleted(db, exportId);
    const accept = await fetch(`${address}/readyz`);
    expect(await accept.json()).toMatchObject({ checks: { era: 'ok' } });

    for (const started of [api, worker]) {
      started.kill('SIGTERM');
      expect(await started.waitForExit()).toMatchObject({ code: 0 });
    }
  });
});
