import { becomeSoleService, type SoleService } from '../state/store/database/sole-service.ts';
import type { Foundation } from './foundation.ts';
import { StartError } from './wait-for-database.ts';

/**
 * Makes this process the only service or quickstart of its data folder. They share the embedded PostgreSQL,
 * which holds the mark. With DATABASE_URL there may be many services, so nothing is claimed.
 *
 * @throws StartError if another one runs, with its address
 */
export async function claimDataFolder({ config, databases }: Foundation): Promise<SoleService> {
  if (!databases.embedded) return { publish: async () => {}, close: async () => {} };
  const claimed = await becomeSoleService(databases.url);
  if ('publish' in claimed) return claimed;
  const folder = config.SLUICE_DATA_DIR;
  const remedy = 'Use that one, stop it first, or set another SLUICE_DATA_DIR';
  throw new StartError(
    claimed.address === null
      ? `another Sluice is starting on ${folder}. ${remedy}.`
      : `already running at ${claimed.address} (on ${folder}). ${remedy}.`,
  );
}
