import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import {
  CreateBucketCommand,
  GetObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
} from '@aws-sdk/client-s3';
import { startFauxqs } from 'fauxqs';

/** An S3 for the quickstart. */
export interface QuickstartS3 {
  readonly endpoint: string;
  readonly bucket: string;
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  /** Whether it may still hold what earlier starts wrote. */
  readonly kept: boolean;
  /** Stops it; what it holds is kept for the next start. */
  stop(): Promise<void>;
}

const bucket = 'sluice-quickstart';
const credentials = { accessKeyId: 'quickstart', secretAccessKey: 'quickstart' };

/**
 * Starts an independent S3 server on loopback. It holds everything in memory, so its objects are
 * written into `folder` when it is stopped and read back by the next start, on the same port.
 */
export async function startLocalS3(folder: string): Promise<QuickstartS3> {
  await mkdir(folder, { recursive: true });
  const portFile = join(folder, 'port');
  const wanted = Number(await readFile(portFile, 'utf8').catch(() => '0'));
  const server = await start(wanted).catch(() => start(0));
  await writeFile(portFile, String(server.port));
  const endpoint = `http://127.0.0.1:${server.port}`;
  const client = new S3Client({
    endpoint,
    credentials,
    region: 'us-east-1',
    forcePathStyle: true,
    requestChecksumCalculation: 'WHEN_REQUIRED',
  });
  await client.send(new CreateBucketCommand({ Bucket: bucket }));
  const kept = await restore(client, join(folder, 'objects'));
  return {
    endpoint,
    bucket,
    ...credentials,
    kept,
    async stop() {
      await save(client, join(folder, 'objects'));
      client.destroy();
      await server.stop();
    },
  };
}

function start(port: number) {
  return startFauxqs({ port, host: '127.0.0.1', logger: false });
}

/** @returns whether there was anything */
async function restore(client: S3Client, folder: string): Promise<boolean> {
  const names = await readdir(folder).catch(() => []);
  for (const name of names) {
    const Body = await readFile(join(folder, name));
    const Key = decodeURIComponent(name);
    await client.send(new PutObjectCommand({ Bucket: bucket, Key, Body }));
  }
  // What is read back is written again when this start ends, or is lost with it.
  await rm(folder, { recursive: true, force: true });
  return names.length > 0;
}

async function save(client: S3Client, folder: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  let ContinuationToken: string | undefined;
  do {
    const page = await client.send(new ListObjectsV2Command({ Bucket: bucket, ContinuationToken }));
    for (const { Key } of page.Contents ?? []) {
      const { Body } = await client.send(new GetObjectCommand({ Bucket: bucket, Key }));
      const bytes = await Body?.transformToByteArray();
      if (Key !== undefined && bytes) await writeFile(join(folder, encodeURIComponent(Key)), bytes);
    }
    ContinuationToken = page.NextContinuationToken;
  } while (ContinuationToken !== undefined);
}
