import type { Config } from '../config/config.ts';
import { connectQueues } from '../queue/connection.ts';
import { ensureEventsTable } from '../sources/index.ts';
import { openQueuePool } from '../store/database.ts';
import { migrate } from '../store/migrate.ts';
import { isSourceToo } from './source-role.ts';

/**
 * Brings every schema up to date: our own tables, the queue's if it is in Postgres, and the built-in
 * `events` table if our database is also the source. Many processes may call it at once.
 *
 * @returns the migrations that were run
 */
export async function prepareSchemas(config: Config, url: string): Promise<readonly string[]> {
  const done = await migrate(url);
  if (isSourceToo(config, url)) await ensureEventsTable(url);
  if (config.REDIS_URL === null) {
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
