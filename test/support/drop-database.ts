import { Client } from 'pg';

/** PostgreSQL: object_in_use. A forced drop fails with it if the database has a prepared transaction. */
const objectInUse = '55006';
const attempts = 5;

/**
 * Drops a database with all that still uses it: sessions, and transactions that a failed test left prepared.
 * These would hold back what every other database of the server sees.
 */
export async function dropDatabase(adminUrl: string, name: string): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await withClient(adminUrl, async (client) => {
        await client.query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
      });
    } catch (error) {
      if ((error as { code?: string }).code !== objectInUse || attempt === attempts) throw error;
      const url = new URL(adminUrl);
      url.pathname = `/${name}`;
      await endTransactions(url.href);
    }
  }
}

/** Ends every other session of a database, and rolls back what is prepared in it. */
export function endTransactions(databaseUrl: string): Promise<void> {
  return withClient(databaseUrl, async (client) => {
    await client.query(
      `SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()`,
    );
    const { rows } = await client.query<{ rollBack: string }>(
      `SELECT format('ROLLBACK PREPARED %L', gid) AS "rollBack" FROM pg_prepared_xacts
        WHERE database = current_database()`,
    );
    for (const { rollBack } of rows) await client.query(rollBack);
  });
}

/** Gives a connection for as long as `work` takes. */
export async function withClient<T>(url: string, work: (client: Client) => Promise<T>): Promise<T> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}
