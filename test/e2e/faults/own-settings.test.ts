/** Whatever the role or the database sets: each session to our own tables has the settings that it relies on. */

import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { pinnedSettings } from '../../../src/state/store/database/sessions.ts';
import { withClient } from '../../support/drop-database.ts';
import {
  backfill,
  createS3Export,
  insertEvents,
  projectPath,
  untilEnded,
} from '../../support/exported-events.ts';
import { type QueueKind, startInstallation } from '../../support/installation.ts';
import { expectInvariants } from '../../support/invariants.ts';
import { hasPgbouncer, startPgbouncer } from '../../support/pgbouncer.ts';
import { startBundled } from '../../support/processes.ts';
import { findOpenSettings } from '../../support/server-settings.ts';
import { ownRedisAvailable } from '../../support/redis.ts';
import { type OwnPostgres, startOwnPostgres } from '../../support/postgres-server.ts';
import { findPostgresPrograms } from '../../support/stock-postgres.ts';
import { inTest } from '../../support/use-stage.ts';

const bin = findPostgresPrograms();
const role = 'shop_exports';
const sixHours = { start: '2024-03-01T00:00:00Z', end: '2024-03-01T06:00:00Z' };

/** What a role may open, for our tables and the rows. */
const limited: readonly { limit: number; workers: number; queue: QueueKind }[] = [
  { limit: 8, workers: 2, queue: 'redis' },
  { limit: 20, workers: 2, queue: 'postgres' },
  { limit: 20, workers: 2, queue: 'redis' },
  { limit: 8, workers: 1, queue: 'postgres' },
];

/** Each is another one than we need. */
const hostile: Readonly<Record<string, string>> = {
  array_nulls: 'off',
  backslash_quote: 'off',
  bytea_output: 'escape',
  datestyle: 'German, DMY',
  default_transaction_deferrable: 'on',
  default_transaction_isolation: 'serializable',
  exit_on_error: 'on',
  extra_float_digits: '-15',
  gin_fuzzy_search_limit: '1',
  idle_in_transaction_session_timeout: '200ms',
  idle_session_timeout: '10s',
  intervalstyle: 'sql_standard',
  jit: 'on',
  jit_above_cost: '0',
  lock_timeout: '1ms',
  quote_all_identifiers: 'on',
  restrict_nonsystem_relation_kind: 'view, foreign-table',
  row_security: 'off',
  standard_conforming_strings: 'off',
  statement_timeout: '200ms',
  synchronous_commit: 'off',
  timezone: 'Asia/Kolkata',
  transaction_timeout: '200ms',
  transform_null_equals: 'on',
};

describe.skipIf(bin === null)('a role and a database with other settings', () => {
  let server: OwnPostgres;
  let admin: Client;
  let known: ReadonlySet<string>;
  /** As SQL has them. */
  let defaults: ReadonlyMap<string, string>;

  beforeAll(async () => {
    server = await startOwnPostgres({}, bin);
    admin = new Client({ connectionString: server.adminUrl });
    await admin.connect();
    await admin.query(`create role ${role} login password 'app'`);
    const { rows } = await admin.query<{ name: string; value: string }>(
      `select lower(name) as name, case when lower(name) = 'datestyle' then setting else quote_literal(setting) end as value from pg_settings`,
    );
    known = new Set(rows.map(({ name }) => name));
    defaults = new Map(rows.map(({ name, value }) => [name, value]));
  });
  afterAll(async () => {
    await admin?.end();
    await server?.stop();
  });

  /** A database of the role, and the superuser's session to it, which has none of the hostile settings. */
  async function createDatabase(
    name: string,
    owner = role,
  ): Promise<{ readonly url: string; readonly appUrl: string }> {
    await admin.query(`create database ${name} owner ${owner} template template0`);
    const url = new URL(server.adminUrl);
    url.pathname = `/${name}`;
    const appUrl = new URL(url);
    [appUrl.username, appUrl.password] = [owner, 'app'];
    await withClient(url.href, async (client) => {
      // The installation has tables of its own, which a trigger writes.
      await client.query(`alter default privileges grant all on tables to ${owner}`);
      await client.query(`alter default privileges grant usage on schemas to ${owner}`);
    });
    return { url: url.href, appUrl: appUrl.href };
  }

  async function sets(whose: string): Promise<void> {
    for (const [name, value] of Object.entries(hostile)) {
      if (!known.has(name)) continue;
      await admin.query(`${whose} set ${name} = ${name === 'datestyle' ? value : `'${value}'`}`);
    }
  }

  const lanes = [
    { name: 'of the role, with queues in Redis', queue: 'redis', of: 'role', isPooled: false },
    {
      name: 'of the database, with queues in it',
      queue: 'postgres',
      of: 'database',
      isPooled: false,
    },
    { name: 'of the role, behind PgBouncer', queue: 'redis', of: 'role', isPooled: true },
  ] as const;

  test.each(lanes)(
    '$name: migrates, starts, creates, runs, backfills, verifies',
    async (lane) => {
      if (lane.queue === 'redis' && !ownRedisAvailable()) return;
      if (lane.isPooled && !hasPgbouncer) return;
      const database = `lane_${lanes.indexOf(lane)}`;
      const { url, appUrl } = await createDatabase(database);
      await sets(lane.of === 'role' ? `alter role ${role}` : `alter database ${database}`);
      for (const name of [...Object.keys(hostile)].filter((each) => known.has(each)))
        await admin.query(
          `alter role postgres in database ${database} set ${name} = ${defaults.get(name)}`,
        );
      const pooler = lane.isPooled ? await startPgbouncer(server.adminUrl) : null;
      const installation = await startInstallation({
        queue: lane.queue,
        workers: 1,
        databaseUrl: url,
        reachedAt: () => (pooler ? pooler.reach(appUrl) : appUrl),
        env: pooler ? { DATABASE_DIRECT_URL: appUrl, DATABASE_POOL_SIZE: '6' } : {},
      });
      try {
        const team = installation.tenant.projectIds[0];
        await insertEvents(installation.pool, { team, rows: 300 });
        const exportId = await createS3Export(installation);
        const path = `${projectPath(installation)}/batch_exports/${exportId}/`;
        const { body } = await installation.client.get(path);
        const { latest_runs: _, id: __, ...copy } = body;
        copy.destination.config.aws_access_key_id = installation.secrets.get('the access key id');
        copy.destination.config.aws_secret_access_key =
          installation.secrets.get('the secret access key');
        const created = await Promise.all(
          Array.from({ length: 32 }, (_, n) =>
            installation.client.post(`${projectPath(installation)}/batch_exports/`, {
              ...copy,
              name: `copy ${n}`,
            }),
          ),
        );
        expect(created.map(({ status }) => status)).toEqual(created.map(() => 201));
        await backfill(installation, exportId, sixHours);
        const runs = await untilEnded(installation, exportId, { count: 6, timeoutMs: 90_000 });
        expect(runs.map(({ status, attempt }) => [status, attempt])).toEqual(
          runs.map(() => ['Completed', 1]),
        );
        expect(await expectInvariants(installation)).toMatchObject({ intervals: 6, rows: 300 });
        for (const command of ['verify', 'doctor']) {
          const process = startBundled('clients/cli/sluice.js', [command], {
            env: installation.env,
          });
          expect(await process.waitForExit(), process.output()).toMatchObject({ code: 0 });
          if (command === 'doctor' && lane.isPooled) {
            expect(process.output()).toMatch(
              /behind a pooler; the role shop_exports has the settings/,
            );
          }
        }
        const errors = installation.processes.flatMap((process) =>
          process
            .output()
            .split('\n')
            .filter((line) => /"level":"(warn|error)"/.test(line)),
        );
        expect(
          errors.filter((line) => /timeout|serializ|unreachable|terminat/i.test(line)),
        ).toEqual([]);
      } finally {
        await installation.close();
        await pooler?.stop();
        await admin.query(`alter role ${role} reset all`);
      }
    },
    240_000,
  );

  test('each setting that a role may have is pinned, or known to change nothing of ours', async () => {
    expect(await findOpenSettings(admin, Object.keys(pinnedSettings), 'our own database')).toEqual(
      [],
    );
  });

  test('a setting that only a superuser may change back is named', async () => {
    const { appUrl } = await createDatabase('lane_replica');
    await admin.query(`alter role ${role} set session_replication_role = replica`);
    const worker = startBundled('main/worker.js', [], {
      env: {
        DATABASE_URL: appUrl,
        REDIS_URL: '',
        ENCRYPTION_KEYS: `test:${Buffer.alloc(32, 7).toString('base64')}`,
      },
    });
    expect(await worker.waitForExit()).toMatchObject({ code: 1 });
    expect(worker.output()).toMatch(
      /DATABASE_URL: .*session_replication_role.*RESET session_replication_role/s,
    );
    expect(worker.output()).not.toMatch(/^ {4}at /m);
    await admin.query(`alter role ${role} reset all`);
  });

  test.each(limited)(
    '$limit connections, queue in $queue, $workers workers: slow, and nothing stops or fails',
    async (lane) => {
      const { limit, workers, queue } = lane;
      if (queue === 'redis' && !ownRedisAvailable()) return;
      const name = `few_${limited.indexOf(lane)}`;
      await admin.query(`create role ${name} login password 'app' connection limit ${limit}`);
      const { url, appUrl } = await createDatabase(name, name);
      const installation = await inTest(
        startInstallation({
          ...{ queue, workers, databaseUrl: url, reachedAt: () => appUrl },
          env: { LEASE_SECONDS: '5' },
        }),
      );
      const { pool, tenant } = installation;
      const [teamId] = tenant.projectIds;
      await insertEvents(pool, { team: teamId, rows: 600, ...sixHours });
      const exportIds = [];
      for (const name of ['one', 'two', 'three']) {
        exportIds.push(await createS3Export(installation, { name }));
      }
      await Promise.all(exportIds.map((id) => backfill(installation, id, sixHours)));
      for (const id of exportIds) {
        const runs = await untilEnded(installation, id, { count: 6, timeoutMs: 120_000 });
        const ends = runs.map(({ status, attempt }) => `${status} ${attempt}`);
        expect(new Set(ends)).toEqual(new Set(['Completed 1']));
      }
      for (const { output } of installation.workers) {
        expect(output()).not.toMatch(/an attempt failed|leases could not be renewed/);
      }
      await expectInvariants(installation);
    },
  );
});
