import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readConfig } from '../../src/foundation/config/config.ts';
import { eventsModel } from '../../src/foundation/domain/events-model.ts';
import { openFoundation } from '../../src/main/foundation.ts';
import {
  checkModel,
  createPostgresSource,
  ensureEventsTable,
  ensureSourceRole,
} from '../../src/rows/sources/index.ts';
import { createTestDatabase } from '../support/database.ts';
import { mayHaveLateRows } from '../support/late-rows.ts';
import { atNight } from '../support/nightly.ts';
import { startBundled } from '../support/processes.ts';
import { eventsRequest, insertEvents, readAll } from '../support/source-tables.ts';
import { useStage } from '../support/use-stage.ts';
import { refusedQueries } from './refused-queries.ts';

const canary = 'canary-of-another-tenant';
/** A process starts slowly on a busy machine. */
const startMs = 120_000;
const never = new AbortController().signal;
const start = '2024-03-01T00:00:00Z';
const end = '2024-03-01T01:00:00Z';
const role = {
  // Roles belong to the whole server.
  name: `source_${randomBytes(6).toString('hex')}`,
  password: randomBytes(12).toString('hex'),
  maxConnections: 20,
};
const database = useStage(createTestDatabase);
let roleUrl: string;
let client: pg.Client;

beforeAll(async () => {
  const { pool, url } = database;
  await ensureEventsTable(url);
  await insertEvents(pool, { team: 1, start, count: 3, everyMs: 1_000 });
  await insertEvents(pool, { team: 2, start, count: 5, everyMs: 1_000 });
  await pool.query('update events set event = $1, distinct_id = $1 where team_id = 2', [canary]);
  await pool.query('insert into organizations (name) values ($1)', [canary]);
  await ensureSourceRole(database.adminUrl, role, [eventsModel], eventsModel);
  const own = new URL(url);
  own.username = role.name;
  own.password = role.password;
  roleUrl = own.href;
  client = new pg.Client({ connectionString: roleUrl });
  await client.connect();
});
afterAll(async () => {
  await client?.end();
  await database.admin?.query(`drop owned by ${role.name}; drop role ${role.name}`);
});

/** What a statement gives to the role in a transaction for project 1, or how it fails. */
async function attack(statement: string): Promise<string> {
  await client.query(
    `begin; set local sluice.tenant_key = '1'; set local statement_timeout = '500ms'`,
  );
  try {
    return JSON.stringify(await client.query(statement));
  } catch (error) {
    return String(error);
  } finally {
    await client.query('rollback');
  }
}

const countEvents = async () =>
  Number((await database.pool.query('select count(*) as n from events')).rows[0].n);

describe('as the source role itself', () => {
  test.each(refusedQueries)(
    'refused queries read nothing of another tenant: %s',
    async (_, cases) => {
      const queries = cases
        .map(([marked]) => marked.replace('¦', ''))
        // How much a query may need is bounded elsewhere.
        .filter((query) => !query.includes('\0') && !/\d{8}/.test(query));
      expect(queries.length).toBeGreaterThan(5);
      for (const query of queries) expect(await attack(query), query).not.toContain(canary);
      expect(await countEvents()).toBe(8);
    },
  );

  test('only the exported relation can be read', async () => {
    const { rows } = await database.sql<{ name: string }>`
      select format('%I.%I', schemaname, tablename) as name from pg_tables
        where schemaname not in ('pg_catalog', 'information_schema')`;
    expect(rows.length).toBeGreaterThan(15);
    for (const { name } of rows.filter((table) => table.name !== 'public.events')) {
      expect(await attack(`select * from ${name}`), name).toContain('permission denied');
    }
    expect(await attack('select * from pg_authid')).toContain('permission denied');
    expect(await attack(`select pg_read_file('/etc/passwd')`)).toContain('permission denied');
    expect(await attack(`select * from events where event = '${canary}'`)).toContain('"rows":[]');
    expect(JSON.parse(await attack('select uuid from events')).rowCount).toBe(3);
  });

  test('a transaction that names no project fails: rows are never taken for missing', async () => {
    await expect(client.query('select * from events')).rejects.toThrow(
      /sluice\.team_id|invalid input syntax/,
    );
  });

  test('nothing can be written, with or without read-only transactions', async () => {
    const writable = 'set transaction read write';
    for (const statement of [
      'delete from events',
      `update events set event = 'x'`,
      'truncate events',
      'insert into events (uuid, team_id) values (gen_random_uuid(), 1)',
      'create table mine (a int)',
      'alter table events disable row level security',
      `alter role ${role.name} bypassrls`,
      'drop policy sluice_others on events',
      'grant select on api_keys to public',
    ]) {
      expect(await attack(statement), statement).toMatch(
        /read-only|must be (owner|superuser)|permission/,
      );
      expect(await attack(`${writable}; ${statement}`), statement).toMatch(
        /^error: .*(must be (owner|superuser)|permission)/,
      );
    }
    expect(await countEvents()).toBe(8);
  });

  test('has no right that no export needs', async () => {
    const { rows } = await database.sql`select rolsuper, rolbypassrls, rolcreatedb, rolcreaterole,
      rolreplication, rolconnlimit, rolconfig from pg_roles where rolname = ${role.name}`;
    expect(rows).toEqual([
      {
        rolsuper: false,
        rolbypassrls: false,
        rolcreatedb: false,
        rolcreaterole: false,
        rolreplication: false,
        rolconnlimit: 20,
        rolconfig: ['default_transaction_read_only=on'],
      },
    ]);
  });
});

describe('an export with the source role', () => {
  test('reads the rows of its project and settles', async () => {
    const source = createPostgresSource({ connectionString: roleUrl });
    const request = eventsRequest(2, start, end);
    expect(await source.settle(request.interval, never)).toMatchObject({
      settled: true,
      reason: null,
    });
    const snapshot = await source.open(request, never);
    try {
      const blocks = await readAll(snapshot, never);
      expect(blocks.reduce((sum, { rowCount }) => sum + rowCount, 0)).toBe(5);
      const keys = snapshot.keySet();
      const earlier = {
        snapshot: snapshot.snapshot,
        digest: keys?.digest ?? null,
        count: keys?.count ?? 0,
      };
      expect(await mayHaveLateRows(source, request, earlier, null, never)).toBe(false);
    } finally {
      await snapshot.close();
    }
    expect((await source.inspect(never)).findings).toEqual([]);
    expect(await source.findExcessRights(never)).toEqual([]);
  });

  test('still reads an interval by its index', async () => {
    const { findings, plan } = await checkModel(roleUrl, eventsModel, ['2'], {});
    expect(plan.length).toBeGreaterThan(0);
    expect(findings.map(({ detail }) => detail).filter((text) => text.includes('reads'))).toEqual(
      [],
    );
  });

  test('leaves what other roles see and write as it was', async () => {
    const other = `${role.name}_other`;
    const { admin: pool } = database;
    await pool.query(`create role ${other}; grant select, insert on events to ${other}`);
    const session = await pool.connect();
    try {
      await session.query(`set role ${other}`);
      expect((await session.query('select from events')).rowCount).toBe(8);
      await session.query(
        'begin; insert into events (uuid, team_id) values (gen_random_uuid(), 9); rollback',
      );
    } finally {
      await session.query('reset role');
      session.release();
      await pool.query(`drop owned by ${other}; drop role ${other}`);
    }
  });

  test('loses the right to a relation that is exported no longer', async () => {
    const { pool, adminUrl: url } = database;
    await pool.query('create table visits (team_id int)');
    const visits = {
      ...eventsModel,
      name: 'visits',
      relation: { schema: 'public', name: 'visits' },
    };
    await ensureSourceRole(url, role, [eventsModel, visits], eventsModel);
    expect(await attack('select * from visits')).toContain('"rows":[]');
    await ensureSourceRole(url, role, [eventsModel], eventsModel);
    expect(await attack('select * from visits')).toContain('permission denied');
    expect(JSON.parse(await attack('select uuid from events')).rowCount).toBe(3);
  });
});

describe('a source role with more rights', () => {
  const startApi = (env: Readonly<Record<string, string | undefined>>) =>
    startBundled('main/api.js', [], {
      env: {
        DATABASE_URL: database.url,
        SOURCE_DATABASE_URL: database.adminUrl,
        PORT: '0',
        ENCRYPTION_KEYS: key,
        LOG_LEVEL: 'warn',
        ...env,
      },
    });
  const key = `k:${randomBytes(32).toString('base64')}`;

  test('is named, and stops the start in production', async () => {
    const api = startApi({ NODE_ENV: 'production' });
    expect((await api.waitForExit(startMs)).code, api.output()).toBe(1);
    expect(api.output()).toContain(
      "The source role of model events is a superuser and may read Sluice's own tables. Set SOURCE_DATABASE_URL",
    );
    expect(api.output()).not.toMatch(/^\s+at /m);
  });

  atNight('is a warning elsewhere', async () => {
    const api = startApi({ NODE_ENV: 'development' });
    await api.waitForLine(/^ready/, startMs);
    expect(api.output()).toContain('The source role of model events is a superuser');
    api.kill();
    expect((await api.waitForExit()).code).toBe(0);
  });

  atNight('is none after sluice migrate --source-role', async () => {
    const env = { DATABASE_URL: database.adminUrl, SOURCE_DATABASE_URL: roleUrl };
    const migrate = startBundled('clients/cli/sluice.js', ['migrate', '--source-role'], { env });
    expect((await migrate.waitForExit(startMs)).code, migrate.output()).toBe(0);
    expect(migrate.output()).toContain(`source role: ${role.name}`);
    const api = startApi({ ...env, NODE_ENV: 'production' });
    await api.waitForLine(/^ready/, startMs);
    expect(api.output()).not.toContain('source role');
    api.kill();
    await api.waitForExit();
  });
});

atNight('the embedded server exports with a role of its own', async () => {
  const folder = await mkdtemp(path.join(tmpdir(), 'sluice-source-role-'));
  const config = readConfig({ SLUICE_DATA_DIR: folder, LOG_LEVEL: 'silent' });
  const foundation = await openFoundation(config, 'test');
  try {
    const source = foundation.sourceOf('events');
    expect(await source.findExcessRights(never)).toEqual([]);
    const owner = new pg.Client({ connectionString: foundation.databases.url });
    await owner.connect();
    try {
      await insertEvents(owner, { team: 4, start, count: 1, everyMs: 1_000 });
      const { rows } = await owner.query(`select rolname from pg_roles where rolname ~ '^sluice_'`);
      expect(rows).toEqual([{ rolname: 'sluice_source' }]);
    } finally {
      await owner.end();
    }
    const snapshot = await source.open(eventsRequest(4, start, end), never);
    expect(snapshot.totalCount).toBe(1);
    await snapshot.close();
  } finally {
    await foundation.close();
    await rm(folder, { recursive: true, force: true });
  }
});
