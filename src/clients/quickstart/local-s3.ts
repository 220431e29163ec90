import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { CreateBucketCommand, HeadBucketCommand, S3Client } from '@aws-sdk/client-s3';
import type { Config } from '../../foundation/config/config.ts';
import { tryPort } from '../../state/embedded-postgres/server-process.ts';
import { StartError } from '../../main/wait-for-database.ts';
import { makeFolder } from '../../state/embedded-postgres/make-folder.ts';

/** An S3 for the quickstart. */
export interface QuickstartS3 {
  readonly endpoint: string;
  readonly bucket: string;
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  /** True if it may still contain what earlier starts wrote. */
  readonly kept: boolean;
  /** Stops it; its objects are already on disk. */
  stop(): Promise<void>;
}

const bucket = 'sluice-quickstart';
const credentials = { accessKeyId: 'quickstart', secretAccessKey: 'quickstart' };
const host = '127.0.0.1';
/** Below the ports of outgoing connections, which can be taken at any time. */
const ports = { from: 20_000, count: 10_000 };

/** The part of the data folder that has the S3. */
const folderOf = (config: Config): string => join(config.SLUICE_DATA_DIR, 's3');
const portFileOf = (config: Config): string => join(folderOf(config), 'port');

/** The address of the quickstart's S3, running or not; null if it has none yet. */
async function findAddress(config: Config): Promise<string | null> {
  const port = Number(await readFile(portFileOf(config), 'utf8').catch(() => '0'));
  return port > 0 ? `http://${host}:${port}` : null;
}

/** Gives the quickstart's S3 a permanent address, because exports name it. */
export async function placeQuickstartS3(config: Config): Promise<void> {
  if ((await findAddress(config)) !== null) return;
  await makeFolder(folderOf(config));
  let port = ports.from + (process.pid % ports.count);
  while ((await tryPort(port)) === null) port += 1;
  await writeFile(portFileOf(config), String(port));
}

/** Adds the quickstart's S3 to the private endpoints that exports may name. */
export async function allowQuickstartS3(config: Config): Promise<Config> {
  const address = await findAddress(config);
  const hosts = address ? [new URL(address).host] : [];
  return { ...config, ALLOWED_PRIVATE_ENDPOINTS: [...config.ALLOWED_PRIVATE_ENDPOINTS, ...hosts] };
}

/**
 * Starts an independent S3 server on loopback, at the address of this data folder, with its earlier objects: even a kill loses none,
 * and the exports of an earlier quickstart continue. If another process of this data folder already runs it, that one is used.
 *
 * @returns null if no quickstart has run on this data folder
 * @throws StartError if another program has its port, or the server's package is not installed
 */
export async function openQuickstartS3(config: Config): Promise<QuickstartS3 | null> {
  const endpoint = await findAddress(config);
  if (endpoint === null) return null;
  if (await answers(endpoint)) {
    return { endpoint, bucket, ...credentials, kept: true, stop: async () => {} };
  }
  // Loaded only here, so that `sluice verify`, which needs only the address, starts sooner.
  const { openDurableS3 } = await import('./durable-s3.ts').catch(explainMissingServer);
  const { app, restored } = await openDurableS3(join(folderOf(config), 'bucket'));
  const port = Number(new URL(endpoint).port);
  await app.listen({ port, host }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EADDRINUSE') throw error;
    throw new StartError(
      `Another program uses port ${port}, the port of the quickstart's S3. Stop that program, or delete ${portFileOf(config)}: the quickstart then takes another port and exports its rows again.`,
    );
  });
  const client = connect(endpoint, credentials);
  await client.send(new CreateBucketCommand({ Bucket: bucket })).finally(() => client.destroy());
  return { endpoint, bucket, ...credentials, kept: restored > 0, stop: () => app.close() };
}

type Keys = Pick<QuickstartS3, 'accessKeyId' | 'secretAccessKey'>;

function connect(endpoint: string, { accessKeyId, secretAccessKey }: Keys): S3Client {
  const credentials = { accessKeyId, secretAccessKey };
  return new S3Client({ endpoint, credentials, region: 'us-east-1', forcePathStyle: true });
}

/** The server is a development package: a production install leaves it out. */
function explainMissingServer(error: NodeJS.ErrnoException): never {
  if (error.code !== 'ERR_MODULE_NOT_FOUND') throw error;
  throw new StartError(
    "The quickstart's S3 server is the package fauxqs, which is not installed. Run npm ci without --omit=dev (and without NODE_ENV=production).",
  );
}

/** Says whether an S3 with our bucket is there. */
async function answers(endpoint: string): Promise<boolean> {
  const client = connect(endpoint, credentials);
  const head = new HeadBucketCommand({ Bucket: bucket });
  const answered = client.send(head, { abortSignal: AbortSignal.timeout(2_000) }).then(
    () => true,
    () => false,
  );
  return answered.finally(() => client.destroy());
}
