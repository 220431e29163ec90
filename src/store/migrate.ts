import { fileURLToPath } from 'node:url';
import { runner } from 'node-pg-migrate';
import { Client } from 'pg';

/** Any constant: processes that migrate at once wait for each other under this advisory lock. */
const lockId = 7_140_551_090;

const migrationsDir = fileURLToPath(new URL('../../migrations', import.meta.url));

/**
 * Brings the schema of our own tables up to date. Safe from any number of processes at once: the
 * second waits for the first and finds nothing to do.
 *
 * @returns the names of the migrations that were run, oldest first
 */
export async function migrate(connectionString: string): Promise<readonly string[]> {
  const client = new Client({ connectionString, application_name: 'sluice-migrate' });
  await client.connect();
  try {
    await client.query('select pg_advisory_lock($1)', [lockId]);
    const done = await runner({
      dbClient: client,
      dir: migrationsDir,
      direction: 'up',
      migrationsTable: 'sluice_migrations',
      noLock: true,
      checkOrder: true,
      log: () => {},
    });
    return done.map((migration) => migration.name);
  } finally {
    await client.end();
  }
}
