import type { Config } from '../foundation/config/config.ts';
import { connectQueues } from '../state/queue/connection.ts';
import { ensureEventsTable } from '../rows/sources/index.ts';
import { openQueuePool } from '../state/store/database/database.ts';
import { checkServer } from '../state/store/database/check-server.ts';
import { migrate } from '../state/store/database/migrate.ts';
import { pinRoleSettings } from '../state/store/database/role-settings.ts';
import { requireOwnSession } from '../state/store/database/sessions.ts';
import { isSourceToo, needsEventsTable } from './models.ts';

/** Queues in PostgreSQL wait for jobs by LISTEN. @throws PoolerError if the address cannot do that */
export async function requireQueueSession(url: string): Promise<void> {
  const remedy =
    'Set DATABASE_DIRECT_URL to the address of PostgreSQL itself, or REDIS_URL to a Redis for the queues.';
  await requireOwnSession(url, 'queues in PostgreSQL', remedy);
}

/**
 * Brings every schema up to date: our own tables, the queue's if it is in Postgres, and the built-in
 * `events` table if our database is also the source. Behind a pooler the role gets the settings of our sessions. Many processes may call it at once.
 *
 * @param url of PostgreSQL itself, not of a pooler
 * @returns the migrations that were run
 * @throws ServerError if the database cannot hold our tables
 * @throws PoolerError if it leads to a pooler in transaction mode and there is something to do
 */
export async function prepareSchemas(config: Config, url: string): Promise<readonly string[]> {
  await checkServer(url);
  const done = await migrate(url);
  if (config.DATABASE_DIRECT_URL !== null) await pinRoleSettings(url);
  if (isSourceToo(config, url) && needsEventsTable(config)) await ensureEventsTable(url);
  if (config.REDIS_URL === null) {
    await requireQueueSession(url);
    const queuePool = openQueuePool({
      connectionString: url,
      applicationName: 'sluice-migrate',
      maxConnections: 2,
      onError: () => {},
    });
    try {
      await connectQueues({ kind: 'postgres', pool: queuePool.pool }, () => {}).prepare();
    } finally {
      await queuePool.close();
    }
  }
  return done;
}
