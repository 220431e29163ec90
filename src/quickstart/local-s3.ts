import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import {
  CreateBucketCommand,
  GetObjectCommand,
  HeadBucketCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
} from '@aws-sdk/client-s3';
import { type FauxqsServer, startFauxqs } from 'fauxqs';

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
const host = '127.0.0.1';
/** A killed process loses what its S3 was given in this time. */
const saveEveryMs = 5_000;

/** The address of the local S3 of an earlier start; null if there was none. */
export async function findLocalS3(folder: string): Promise<string | null> {
  const port = Number(await readFile(join(folder, 'port'), 'utf8').catch(() => '0'));
  return port > 0 ? `http://${host}:${port}` : null;
}

/**
 * Starts an independent S3 server on loopback, at the address that it had before. It holds everything
 * in memory: its objects are saved in `folder` and read back by the next start. If another process
 * of this data folder runs it already, that one is used.
 *
 * @throws Error if another program has its port and `port` is `fixed`
 */
export async function startLocalS3(folder: string, port: 'fixed' | 'any'): Promise<QuickstartS3> {
  const before = await findLocalS3(folder);
  if (before !== null && (await answers(before))) {
    return { endpoint: before, bucket, ...credentials, kept: true, stop: async () => {} };
  }
  const server = await start(before === null ? 0 : Number(new URL(before).port), port);
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, 'port'), String(server.port));
  const endpoint = `http://${host}:${server.port}`;
  const client = connect(endpoint);
  await client.send(new CreateBucketCommand({ Bucket: bucket }));
  const objects = await openObjects(client, join(folder, 'objects'));
  const saving = setInterval(() => void objects.save().catch(() => {}), saveEveryMs);
  return {
    endpoint,
    bucket,
    ...credentials,
    kept: objects.restored > 0,
    async stop() {
      clearInterval(saving);
      await objects.save();
      client.destroy();
      await server.stop();
    },
  };
}

function start(port: number, wanted: 'fixed' | 'any'): Promise<FauxqsServer> {
  const options = { host, logger: false };
  const started = startFauxqs({ ...options, port });
  return wanted === 'fixed' ? started : started.catch(() => startFauxqs({ ...options, port: 0 }));
}

function connect(endpoint: string): S3Client {
  return new S3Client({
    endpoint,
    credentials,
    region: 'us-east-1',
    forcePathStyle: true,
    requestChecksumCalculation: 'WHEN_REQUIRED',
  });
}

/** Whether an S3 with our bucket is there. */
async function answers(endpoint: string): Promise<boolean> {
  const client = connect(endpoint);
  const head = new HeadBucketCommand({ Bucket: bucket });
  const answered = client.send(head, { abortSignal: AbortSignal.timeout(2_000) }).then(
    () => true,
    () => false,
  );
  return answered.finally(() => client.destroy());
}

interface SavedObjects {
  /** How many were read back. */
  readonly restored: number;
  /** Makes the folder hold what the bucket holds. */
  save(): Promise<void>;
}

/** Puts the objects of the folder into the bucket, a file each, named by its key. */
async function openObjects(client: S3Client, folder: string): Promise<SavedObjects> {
  await mkdir(folder, { recursive: true });
  const isWhole = (name: string) => !name.endsWith(unfinished);
  const names = (await readdir(folder)).filter(isWhole);
  for (const name of names) {
    const Body = await readFile(join(folder, name));
    await client.send(
      new PutObjectCommand({ Bucket: bucket, Key: decodeURIComponent(name), Body }),
    );
  }
  /** The tags of what is saved, by file name. */
  let saved = await listTags(client);
  const save = async () => {
    const found = await listTags(client);
    for (const [name, tag] of found) {
      if (saved.get(name) !== tag) await saveObject(client, folder, name);
    }
    for (const name of saved.keys()) {
      if (!found.has(name)) await rm(join(folder, name), { force: true });
    }
    saved = found;
  };
  let last = Promise.resolve();
  return {
    restored: names.length,
    save() {
      last = last.catch(() => {}).then(save);
      return last;
    },
  };
}

const unfinished = '.unfinished';

async function saveObject(client: S3Client, folder: string, name: string): Promise<void> {
  const Key = decodeURIComponent(name);
  const { Body } = await client.send(new GetObjectCommand({ Bucket: bucket, Key }));
  const path = join(folder, name);
  await writeFile(path + unfinished, (await Body?.transformToByteArray()) ?? '');
  await rename(path + unfinished, path);
}

async function listTags(client: S3Client): Promise<ReadonlyMap<string, string>> {
  const tags = new Map<string, string>();
  let ContinuationToken: string | undefined;
  do {
    const page = await client.send(new ListObjectsV2Command({ Bucket: bucket, ContinuationToken }));
    for (const { Key = '', ETag = '' } of page.Contents ?? []) {
      tags.set(encodeURIComponent(Key), ETag);
    }
    ContinuationToken = page.NextContinuationToken;
  } while (ContinuationToken !== undefined);
  return tags;
}
