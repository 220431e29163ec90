import { join } from 'node:path';
import type { Config } from '../../foundation/config/config.ts';
import { findLocalS3, placeLocalS3, type QuickstartS3, startLocalS3 } from './local-s3.ts';

/** The part of the data folder that records the quickstart's S3. */
const folderOf = (config: Config): string => join(config.SLUICE_DATA_DIR, 's3');

/** Records the address of the quickstart's S3. */
export async function placeQuickstartS3(config: Config): Promise<void> {
  return placeLocalS3(folderOf(config));
}

/** Opens the quickstart's S3 at its recorded address. */
export async function openQuickstartS3(config: Config): Promise<QuickstartS3> {
  return startLocalS3(folderOf(config));
}

/**
 * Starts the quickstart's own S3 again, if a quickstart has run on this data folder, so that its exports
 * continue.
 *
 * @returns null if there is none to start
 * @throws StartError if another program has its port
 */
export async function reopenQuickstartS3(config: Config): Promise<QuickstartS3 | null> {
  const folder = folderOf(config);
  return (await findLocalS3(folder)) === null ? null : startLocalS3(folder);
}

/** Adds the quickstart's S3 to the private endpoints that exports may name. */
export async function allowQuickstartS3(config: Config): Promise<Config> {
  const endpoint = await findLocalS3(folderOf(config));
  const hosts = endpoint ? [new URL(endpoint).host] : [];
  return {
    ...config,
    ALLOWED_PRIVATE_ENDPOINTS: [...config.ALLOWED_PRIVATE_ENDPOINTS, ...hosts],
  };
}
