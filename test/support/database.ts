import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Pool } from 'pg';
import { afterAll, inject } from 'vitest';
import { dropDatabase, withClient } from './drop-database.ts';
import { until } from './until.ts';

/** A database of one test file's own, with our tables in it. */
export interface TestDatabase {
  readonly url: string;
  /** For a test's own looks into it, at most five connections. Opened at the first query. */
  readonly pool: Pool;
  /** Ends all connections and transactions, prepared ones too, and drops it. May be called again. */
  drop(): Promise<void>;
}

const attempts = 40;
/** PostgreSQL: object_in_use, here `source database is being accessed by other users`. */
const objectInUse = '55006';

const made = new Set<string>();

/**
 * Drops what a failed test of this file did not, so that its transactions hold up no other file. Leaves the pools:
 * with a connection in use they would not end.
 */
export async function dropLeftovers(): Promise<void> {
  if (made.size === 0) return;
  const { adminUrl } = inject('postgres');
  const names = [...made];
  made.clear();
  await Promise.all(names.map((name) => dropDatabase(adminUrl, name)));
}
afterAll(dropLeftovers);

/** Clones the migrated template. Whatever is not dropped goes at the end of the file. */
export async function createTestDatabase(): Promise<TestDatabase> {
  const { prefix, template } = inject('postgres');
  return create(`${prefix}${randomBytes(6).toString('hex')}`, template);
}

/** A database without our tables: for migrations, and for sources. */
export async function createEmptyDatabase(): Promise<TestDatabase> {
  const { prefix } = inject('postgres');
  return create(`${prefix}${randomBytes(6).toString('hex')}`, 'template0');
}

async function create(name: string, template: string): Promise<TestDatabase> {
  await createFrom(name, template);
  made.add(name);
  const url = new URL(inject('postgres').adminUrl);
  url.pathname = `/${name}`;
  const pool = new Pool({ connectionString: url.href, max: 5 });
  // Connections that are cut while idle (a test stops the server, `drop`) are no error of the test.
  pool.on('error', () => {});
  pool.on('connect', (client) => client.on('error', () => {}));
  let dropping: Promise<void> | null = null;
  const drop = async (): Promise<void> => {
    await pool.end();
    await dropDatabase(inject('postgres').adminUrl, name);
    made.delete(name);
  };
  return {
    url: url.href,
    pool,
    drop: () => {
      dropping ??= drop();
      return dropping;
    },
  };
}

/** Autovacuum and the end of the migration's connection can hold the template for a moment. */
async function createFrom(name: string, template: string): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await withClient(inject('postgres').adminUrl, async (client) => {
        await client.query(`CREATE DATABASE ${name} TEMPLATE ${template} STRATEGY FILE_COPY`);
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
  const { rows } = await pool.query<{ next: string }>(
    'SELECT pg_snapshot_xmax(pg_current_snapshot())::text AS next',
  );
  const ended =
    'SELECT FROM pg_current_snapshot() AS s WHERE pg_snapshot_xmin(s) >= $1::text::xid8';
  await until(async () => (await pool.query(ended, [rows[0]?.next])).rowCount === 1, {
    timeoutMs: 150_000,
    everyMs: 50,
    message: 'the transactions of other tests have ended',
  });
}
