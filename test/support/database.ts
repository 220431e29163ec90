import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Pool } from 'pg';
import { afterAll, inject } from 'vitest';
import { dropDatabase, withClient } from './drop-database.ts';
import { type PoolSqlTag, poolSqlOf } from './sql.ts';
import { type OwnedServer, type TestPostgres, urlOf } from './template-database.ts';
import { until } from './until.ts';

/** A database of one test file's own, with our tables in it. */
export interface TestDatabase {
  /** Of the role that owns it, and that may do nothing else on its server. */
  readonly url: string;
  /** As that role, for a test's own looks into it, at most five connections. Opened at the first query. */
  readonly pool: Pool;
  readonly sql: PoolSqlTag;
  /** The same of a superuser. */
  readonly adminUrl: string;
  /** As a superuser: for what the administrator of a server does. */
  readonly admin: Pool;
  readonly adminSql: PoolSqlTag;
  /** Ends all connections and transactions, prepared ones too, and drops it. May be called again. */
  drop(): Promise<void>;
}

const attempts = 40;
/** PostgreSQL: object_in_use, here `source database is being accessed by other users`. */
const objectInUse = '55006';

/** Its server, by name. */
const made = new Map<string, OwnedServer>();

/** The server that the files of this worker use. */
export function testServer(): TestPostgres {
  const servers = inject('postgres');
  const server = servers[(Number(process.env.VITEST_POOL_ID) - 1) % servers.length];
  if (!server) throw new Error('the setup has started no PostgreSQL');
  return server;
}

/**
 * Drops what a failed test of this file did not, so that its transactions hold up no other file. Leaves the pools:
 * with a connection in use they would not end.
 */
export async function dropLeftovers(): Promise<void> {
  if (made.size === 0) return;
  const left = [...made];
  made.clear();
  await Promise.all(left.map(([name, { adminUrl }]) => dropDatabase(adminUrl, name)));
}
afterAll(dropLeftovers);

/** Clones the migrated template. Whatever is not dropped goes at the end of the file. */
export async function createTestDatabase(): Promise<TestDatabase> {
  const server = testServer();
  return create(server, server.template);
}

/**
 * A database without our tables: for migrations, and for sources.
 *
 * @param more options of CREATE DATABASE
 */
export function createEmptyDatabase(
  server: OwnedServer = testServer(),
  more = '',
): Promise<TestDatabase> {
  return create(server, `template0 ${more}`);
}

async function create(server: OwnedServer, template: string): Promise<TestDatabase> {
  const name = `${server.prefix}${randomBytes(6).toString('hex')}`;
  await createFrom(server, name, template);
  made.set(name, server);
  const url = urlOf(server, name);
  const pool = openPool(url, 5);
  const adminUrl = urlOf(server, name, true);
  const admin = openPool(adminUrl, 3);
  let dropping: Promise<void> | null = null;
  const drop = async (): Promise<void> => {
    await Promise.all([pool.end(), admin.end()]);
    await dropDatabase(server.adminUrl, name);
    made.delete(name);
  };
  return {
    ...{ url, pool, adminUrl, admin, sql: poolSqlOf(pool), adminSql: poolSqlOf(admin) },
    drop: () => {
      dropping ??= drop();
      return dropping;
    },
  };
}

function openPool(connectionString: string, max: number): Pool {
  const pool = new Pool({ connectionString, max });
  // Connections that are cut while idle (a test stops the server, `drop`) are no error of the test.
  pool.on('error', () => {});
  pool.on('connect', (client) => client.on('error', () => {}));
  return pool;
}

/** Autovacuum and the end of the migration's connection can hold the template for a moment. */
async function createFrom(server: OwnedServer, name: string, template: string): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      const made = `${name} OWNER ${server.owner.name} TEMPLATE ${template} STRATEGY FILE_COPY`;
      return await withClient(server.adminUrl, async (client) => {
        await client.query(`CREATE DATABASE ${made}`);
      });
    } catch (error) {
      if ((error as { code?: string }).code !== objectInUse || attempt === attempts) throw error;
      await sleep(50);
    }
  }
}

/**
 * Waits until every transaction of the server that has written by now has ended, also those of the other files'
 * databases: a snapshot knows all of them, and what was written after the oldest of them does not show that it is
 * older than the snapshot.
 */
export async function untilWritersEnded(pool: Pool): Promise<void> {
  const { rows } = await poolSqlOf(pool)<{ next: string }>`SELECT
    pg_snapshot_xmax(pg_current_snapshot())::text AS next`;
  const ended =
    'SELECT FROM pg_current_snapshot() AS s WHERE pg_snapshot_xmin(s) >= $1::text::xid8';
  await until(async () => (await pool.query(ended, [rows[0]?.next])).rowCount === 1, {
    timeoutMs: 150_000,
    everyMs: 50,
    message: 'the transactions of other tests have ended',
  });
}
