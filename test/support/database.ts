import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, Pool } from 'pg';
import { inject } from 'vitest';

/** A database of one test file's own, with our tables in it. */
export interface TestDatabase {
  readonly url: string;
  /** For a test's own looks into it, at most five connections. Opened at the first query. */
  readonly pool: Pool;
  /** Ends all connections and drops it. May be called again. */
  drop(): Promise<void>;
}

const attempts = 40;
/** PostgreSQL: object_in_use, here `source database is being accessed by other users`. */
const objectInUse = '55006';

/** Clones the migrated template. Whatever is not dropped goes at the end of the run. */
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
  const url = new URL(inject('postgres').adminUrl);
  url.pathname = `/${name}`;
  const pool = new Pool({ connectionString: url.href, max: 5 });
  // Connections that are cut while idle (a test stops the server, `drop`) are no error of the test.
  pool.on('error', () => {});
  let dropping: Promise<void> | null = null;
  const drop = async (): Promise<void> => {
    await pool.end();
    await runAsAdmin(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
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
      return await runAsAdmin(`CREATE DATABASE ${name} TEMPLATE ${template}`);
    } catch (error) {
      if ((error as { code?: string }).code !== objectInUse || attempt === attempts) throw error;
      await sleep(50);
    }
  }
}

async function runAsAdmin(statement: string): Promise<void> {
  const client = new Client({ connectionString: inject('postgres').adminUrl });
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}
