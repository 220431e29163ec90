import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Config } from '../../foundation/config/config.ts';
import { findLocalS3, placeLocalS3, type QuickstartS3, startLocalS3 } from './local-s3.ts';

/** The part of the data folder that records the quickstart's S3. */
const folderOf = (config: Config): string => join(config.SLUICE_DATA_DIR, 's3');
const givenFileOf = (config: Config): string => join(folderOf(config), 'endpoint');

/** Records which S3 the quickstart writes to: that of QUICKSTART_S3_ENDPOINT, else its own. */
export async function placeQuickstartS3(config: Config): Promise<void> {
  const endpoint = config.QUICKSTART_S3_ENDPOINT;
  if (endpoint === null) return placeLocalS3(folderOf(config));
  await mkdir(folderOf(config), { recursive: true });
  await writeFile(givenFileOf(config), endpoint);
}

/** Opens the S3 that the quickstart writes to, at its recorded address. */
export async function openQuickstartS3(config: Config): Promise<QuickstartS3> {
  const endpoint = config.QUICKSTART_S3_ENDPOINT;
  if (endpoint === null) return startLocalS3(folderOf(config));
  return {
    endpoint,
    bucket: config.QUICKSTART_S3_BUCKET,
    accessKeyId: config.QUICKSTART_S3_KEY ?? '',
    secretAccessKey: config.QUICKSTART_S3_SECRET ?? '',
    kept: true,
    stop: async () => {},
  };
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
  const given = await readFile(givenFileOf(config), 'utf8').catch(() => null);
  const endpoints = [await findLocalS3(folderOf(config)), given];
  const hosts = endpoints.flatMap((endpoint) => (endpoint ? [new URL(endpoint).host] : []));
  return {
    ...config,
    ALLOWED_PRIVATE_ENDPOINTS: [...config.ALLOWED_PRIVATE_ENDPOINTS, ...hosts],
  };
}
