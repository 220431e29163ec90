import type { Config } from '../config/config.ts';
import { startEmbeddedPostgres } from '../embedded-postgres/start.ts';

/** The addresses of our own tables and of the rows that are exported. */
export interface Databases {
  readonly url: string;
  readonly sourceUrl: string;
  readonly embedded: boolean;
  /** Stops what was started here. */
  stop(): Promise<void>;
}

/** Uses DATABASE_URL. Without it, uses the embedded PostgreSQL and starts it if necessary. */
export async function openDatabases(
  config: Config,
  log: (message: string) => void,
): Promise<Databases> {
  if (config.DATABASE_URL !== null) {
    const url = config.DATABASE_URL;
    return {
      url,
      sourceUrl: config.SOURCE_DATABASE_URL ?? url,
      embedded: false,
      stop: async () => {},
    };
  }
  const postgres = await startEmbeddedPostgres({ dataDir: config.SLUICE_DATA_DIR, log });
  return {
    url: postgres.url,
    sourceUrl: config.SOURCE_DATABASE_URL ?? postgres.url,
    embedded: true,
    stop: () => postgres.stop(),
  };
}
