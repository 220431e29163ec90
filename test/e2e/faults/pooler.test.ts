import { Client } from 'pg';
import { beforeAll, describe, expect, test } from 'vitest';
import { createEmptyDatabase, createTestDatabase } from '../../support/database.ts';
import {
  backfill,
  countParts,
  createS3Export,
  insertEvents,
  retireExports,
  slowDown,
  untilEnded,
} from '../../support/exported-events.ts';
import { startInstallation } from '../../support/installation.ts';
import { expectInvariants } from '../../support/invariants.ts';
import { hasPgbouncer, startPgbouncer } from '../../support/pgbouncer.ts';
import { startBundled } from '../../support/processes.ts';
import { ownRedisAvailable } from '../../support/redis.ts';
import { openTestPool } from '../../support/run-side.ts';
import { until } from '../../support/until.ts';
import { useStage } from '../../support/use-stage.ts';

const rows = 600;
const encryptionKey = `test:${Buffer.alloc(32, 7).toString('base64')}`;

describe.skipIf(!hasPgbouncer)('PgBouncer in transaction mode, before our own database', () => {
  const database = useStage(createTestDatabase);
  const pooler = useStage(async () => {
    // What the sessions of our own settings must not depend on.
    await database.pool.query(
      `do $$ begin execute format('alter database %I set timezone to ''Asia/Kolkata''', current_database());
         execute format('alter database %I set datestyle to ''SQL, DMY''', current_database()); end $$`,
    );
    return startPgbouncer(database.adminUrl);
  });

  describe.skipIf(!ownRedisAvailable())('with queues in Redis', () => {
    const installation = useStage(() =>
      startInstallation({
        queue: 'redis',
        workers: 2,
        databaseUrl: database.url,
        reachedAt: (url) => pooler.reach(url),
      }),
    );
    beforeAll(async () => {
      const team = installation.tenant.projectIds[0];
      await insertEvents(installation.pool, { team, rows });
    });

    test('exports intervals, beside a client with other settings in the same sessions', async () => {
      const stranger = new Client({ connectionString: pooler.reach(database.url) });
      await stranger.connect();
      await stranger.query(`set timezone = 'America/New_York'`);
      const exportId = await createS3Export(installation);
      const range = { start: '2024-03-01T00:00:00Z', end: '2024-03-01T06:00:00Z' };
      await backfill(installation, exportId, range, { concurrency: 3 });
      const ended = untilEnded(installation, exportId, { count: 6 });
      let hasEnded = false;
      void ended.finally(() => {
        hasEnded = true;
      });
      while (!hasEnded) await stranger.query('select now()');
      expect((await ended).map(({ status }) => status)).toEqual(
        Array.from({ length: 6 }, () => 'Completed'),
      );
      await stranger.end();
      expect(await expectInvariants(installation)).toMatchObject({ intervals: 6, rows });
      await retireExports(installation);
    });

    test('ended and started again in the middle of a run: the run is retried, its rows are whole', async () => {
      const { s3, client } = installation;
      const team = installation.tenant.projectIds[0];
      const later = { start: '2024-03-03T00:00:00Z', end: '2024-03-03T01:00:00Z' };
      await insertEvents(installation.pool, { team, rows: 4_000, rowBytes: 8_000, ...later });
      const exportId = await createS3Export(installation, { name: 'over a restart' });
      await slowDown(installation, 'UploadPart', 700);
      await backfill(installation, exportId, later);
      await until(async () => (await countParts(installation, exportId)) >= 1);
      await pooler.kill();
      await until(async () => (await client.get('/readyz')).status === 503);
      await pooler.restart();
      await until(async () => (await client.get('/readyz')).status === 200);
      await s3.faults.clear();
      const [run] = await untilEnded(installation, exportId, { timeoutMs: 90_000 });
      expect(run).toMatchObject({ status: 'Completed', rows: 4_000 });
      expect(run?.fence).toBeGreaterThan(1);
      await expectInvariants(installation);
      await retireExports(installation);
    });
  });

  test('a transaction limits itself, and leaves to the next client only what each of our sessions has', async () => {
    const db = openTestPool(pooler.reach(database.url), 2);
    const read = `select current_setting('idle_in_transaction_session_timeout') as idle,
      current_setting('statement_timeout') as statement, now() as now`;
    const utc = expect.stringMatching(/^2\d{3}-\d\d-\d\dT[\d:.]+Z$/);
    await db.transaction(async (tx) => {
      expect(await tx.query(read)).toEqual([{ idle: '10s', statement: '55s', now: utc }]);
    });
    expect(await db.query(read)).toEqual([{ idle: '0', statement: '55s', now: utc }]);
    await db.close();
  });

  /** Starts a worker that is expected to end. @returns what it printed that is not a log line */
  async function startRefused(env: Readonly<Record<string, string>>): Promise<string> {
    const worker = startBundled('main/worker.js', [], {
      env: { ENCRYPTION_KEYS: encryptionKey, REDIS_URL: '', ...env },
    });
    const { code } = await worker.waitForExit();
    expect(code).toBe(1);
    const lines = worker.output().split('\n');
    return lines.filter((line) => !line.startsWith('{')).join('\n');
  }

  test('queues in PostgreSQL are refused, unless DATABASE_DIRECT_URL leads past the pooler', async () => {
    const pooled = { DATABASE_URL: pooler.reach(database.url) };
    expect(await startRefused(pooled)).toMatch(
      /transaction mode, and queues in PostgreSQL need .*DATABASE_DIRECT_URL .* or REDIS_URL/s,
    );
    const worker = startBundled('main/worker.js', [], {
      env: {
        ...pooled,
        ENCRYPTION_KEYS: encryptionKey,
        REDIS_URL: '',
        DATABASE_DIRECT_URL: database.url,
      },
    });
    await worker.waitForLine(/^ready worker/);
    worker.kill('SIGTERM');
    await worker.waitForExit();
  });

  test('in session mode nothing is refused', async () => {
    const other = await startPgbouncer(database.adminUrl, 'session');
    const worker = startBundled('main/worker.js', [], {
      env: {
        DATABASE_URL: other.reach(database.url),
        ENCRYPTION_KEYS: encryptionKey,
        REDIS_URL: '',
        DATABASE_POOL_SIZE: '4',
      },
    });
    await worker.waitForLine(/^ready worker/);
    worker.kill('SIGTERM');
    await worker.waitForExit();
    await other.stop();
  });

  test('migrations are refused, and run at DATABASE_DIRECT_URL', async () => {
    const empty = await createEmptyDatabase();
    const pooled = { DATABASE_URL: pooler.reach(empty.url), REDIS_URL: 'redis://127.0.0.1:1' };
    expect(await startRefused(pooled)).toMatch(/migrations need .*Set DATABASE_DIRECT_URL/s);
    const { rows: before } = await empty.pool.query(`select to_regclass('runs') as runs`);
    expect(before).toEqual([{ runs: null }]);
    const migrating = startBundled('clients/cli/sluice.js', ['migrate'], {
      env: { ...pooled, DATABASE_DIRECT_URL: empty.url },
    });
    await migrating.waitForLine(/^migrated: 0001_release/);
    await empty.drop();
  });

  test('a direct address of another database, and a wrong password, are named', async () => {
    const other = await createEmptyDatabase();
    const pooled = pooler.reach(database.url);
    expect(await startRefused({ DATABASE_URL: pooled, DATABASE_DIRECT_URL: other.url })).toMatch(
      /^sluice worker: DATABASE_DIRECT_URL leads to another database/,
    );
    await other.drop();
    const wrong = new URL(pooled);
    wrong.password = 'wrong';
    expect(await startRefused({ DATABASE_URL: wrong.href })).toMatch(
      /DATABASE_URL: PgBouncer .*refuses the user or the password; correct the address/,
    );
  });
});
