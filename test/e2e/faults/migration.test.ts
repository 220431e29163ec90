import { cp, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { createTestDatabase } from '../../support/database.ts';
import {
  backfill,
  createS3Export,
  hour,
  insertEvents,
  projectPath,
  untilEnded,
} from '../../support/exported-events.ts';
import { type Installation, startInstallation } from '../../support/installation.ts';
import { expectInvariants } from '../../support/invariants.ts';
import { projectRoot, startBundled, startProcess } from '../../support/processes.ts';
import { until } from '../../support/until.ts';
import { useStage } from '../../support/use-stage.ts';

const next = '9999_next_release';

/** The build of a next release: this one, and a migration that expands the schema. */
async function makeNextBuild(): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), 'sluice-next-'));
  for (const part of ['dist', 'migrations', 'client/check', 'package.json']) {
    await cp(path.join(projectRoot, part), path.join(folder, part), { recursive: true });
  }
  await symlink(path.join(projectRoot, 'node_modules'), path.join(folder, 'node_modules'));
  await writeFile(
    path.join(folder, 'migrations', `${next}.sql`),
    `create table notes (id bigint generated always as identity primary key, run_id uuid not null references runs (id), note text);
     alter table batch_exports add column note text;
     alter table runs add column note text, add column weight integer not null default 1;
     alter table upload_places add column note text;
     alter table receipts add column note text;`,
  );
  return folder;
}

test('old and new build run together across a migration: no 5xx, every run ends, nothing is lost', async () => {
  const installation = await startInstallation({ workers: 2 });
  const nextBuild = await makeNextBuild();
  try {
    const { client, env, pool, sql, tenant } = installation;
    const team = tenant.projectIds[0];
    const day = { start: hour.start, end: '2024-03-02T00:00:00Z' };
    await insertEvents(pool, { team, rows: 2_400, ...day });
    const exports = [await createS3Export(installation), await createS3Export(installation)];
    for (const id of exports) await backfill(installation, id, day, { concurrency: 2 });
    const load = keepAsking(installation, exports[0] ?? '');

    // A backup holds every table meanwhile: the migration must not make others queue behind it.
    const backup = await pool.connect();
    await backup.query('begin; lock table runs, batch_exports in access share mode');
    const start = (entry: string, more: Readonly<Record<string, string>> = {}) =>
      startProcess(process.execPath, [path.join(nextBuild, 'dist/main', entry)], {
        env: { ...env, ...more },
      });
    const newApi = start('api.js', { PORT: '0' });
    await until(
      async () => {
        const { rows } = await sql`select from pg_stat_activity
          where application_name = 'sluice-migrate' and wait_event_type = 'Lock'`;
        return rows.length > 0;
      },
      { message: 'the migration waits for the backup' },
    );
    const asked = load.count();
    await until(() => load.count() > asked + 20, { message: 'others are served meanwhile' });
    await backup.query('commit');
    backup.release();
    const address = (await newApi.waitForLine(/^ready http/)).replace(/^ready /, '');
    const newWorker = start('worker.js');
    await newWorker.waitForLine(/^ready/);
    const { rows: applied } = await pool.query('select name from sluice_migrations order by id');
    expect(applied.at(-1)).toEqual({ name: next });
    await pool.query('create index concurrently runs_by_note on runs (note)');

    // An old process that is started again finds a newer schema.
    await installation.startWorker();
    const list = `${projectPath(installation)}/batch_exports/`;
    const answer = await fetch(`${address}${list}`, {
      headers: { authorization: `Bearer ${tenant.key}` },
    });
    expect(answer.status).toBe(200);
    await createS3Export(installation, { name: 'made by the old build' });
    for (const id of exports) {
      const runs = await untilEnded(installation, id, { count: 24, timeoutMs: 90_000 });
      expect(new Set(runs.map(({ status }) => status))).toEqual(new Set(['Completed']));
    }
    await load.stop();
    expect(load.failures()).toEqual([]);
    expect((await client.get(list)).status).toBe(200);
    for (const process_ of [newWorker, newApi]) {
      process_.kill('SIGTERM');
      expect(await process_.waitForExit()).toMatchObject({ code: 0 });
    }
    expect(await expectInvariants(installation)).toMatchObject({ intervals: 48, rows: 4_800 });
  } finally {
    await installation.close();
    await rm(nextBuild, { recursive: true, force: true });
  }
});

/** Requests of a client, one after the other, until it is stopped. */
function keepAsking(installation: Installation, exportId: string) {
  const path_ = `${projectPath(installation)}/batch_exports/${exportId}/`;
  let asked = 0;
  let stopped = false;
  const failures: string[] = [];
  const ask = async () => {
    const answers = [
      await installation.client.get(`${path_}runs/?limit=5`),
      await installation.client.patch(path_, { name: `renamed ${asked}` }),
    ];
    asked += answers.length;
    failures.push(...answers.filter(({ status }) => status !== 200).map(({ text }) => text));
  };
  const asking = until(
    async () => {
      await ask().catch((error: unknown) => failures.push(String(error)));
      return stopped;
    },
    { everyMs: 20, timeoutMs: 600_000, message: 'the client is stopped' },
  );
  return {
    count: () => asked,
    failures: () => failures,
    async stop() {
      stopped = true;
      await asking;
    },
  };
}

describe('a process', () => {
  const database = useStage(createTestDatabase);

  const env = () => ({
    DATABASE_URL: database.url,
    REDIS_URL: '',
    PORT: '0',
    ENCRYPTION_KEYS: `test:${Buffer.alloc(32, 7).toString('base64')}`,
  });

  test.each(['true', 'false'])('starts on a newer schema (AUTO_MIGRATE=%s)', async (auto) => {
    await database.pool.query(
      `insert into sluice_migrations (name, run_on) select $1::text, now() where not exists (select from sluice_migrations where name = $1::text)`,
      [next],
    );
    const api = startBundled('main/api.js', [], { env: { ...env(), AUTO_MIGRATE: auto } });
    await api.waitForLine(/^ready http/);
    api.kill('SIGTERM');
    expect(await api.waitForExit()).toMatchObject({ code: 0 });
  });

  test.each(['api', 'worker'])(
    'refuses an older schema, and says what to do: %s',
    async (entry) => {
      await database.pool.query(`delete from sluice_migrations where name ~ '^(0001|9999)'`);
      const started = startBundled(`main/${entry}.js`, [], {
        env: { ...env(), AUTO_MIGRATE: 'false' },
      });
      expect(await started.waitForExit()).toMatchObject({ code: 1 });
      expect(started.output()).toMatch(
        /older than this build: it lacks 0001_release\. Run `sluice migrate`/,
      );
      expect(started.output()).not.toContain('    at ');
    },
  );
});
