import {
  AbortMultipartUploadCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListMultipartUploadsCommand,
  ListPartsCommand,
  NotFound,
  paginateListObjectsV2,
  S3Client,
} from '@aws-sdk/client-s3';
import type { S3Credentials } from './s3-server/authentication.ts';
import { sendRaw } from './s3-server/raw-request.ts';
import type { ObjectSnapshot, UploadSnapshot } from './s3-server/snapshots.ts';
import type { SpawnedS3Server } from './s3-server/spawn.ts';

/** An S3 that is not ours, and already runs. */
export interface ForeignS3 {
  readonly endpoint: string;
  readonly region: string;
  readonly credentials: S3Credentials;
}

/**
 * Makes the bucket, or empties it, and answers a test's questions through the S3 API. It has no
 * faults and keeps no list of requests or writes: these fail.
 */
export async function openForeignS3(store: ForeignS3, bucket: string): Promise<SpawnedS3Server> {
  const client = new S3Client({
    endpoint: store.endpoint,
    region: store.region,
    credentials: store.credentials,
    forcePathStyle: true,
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
  });
  const unknown = async (): Promise<never> => {
    throw new Error('A foreign store has no faults and no list of requests.');
  };
  // By hand: the official client adds a region that only AWS knows.
  const made = await sendRaw({ ...store, method: 'PUT', path: `/${bucket}` });
  const isThere = made.code === 'BucketAlreadyOwnedByYou' || made.code === 'BucketAlreadyExists';
  if (made.status !== 200 && !isThere) {
    throw new Error(`The bucket was not made: ${made.status} ${made.text}`);
  }
  await emptyBucket(client, bucket);
  return {
    endpoint: store.endpoint,
    faults: { add: unknown, clear: async () => {} },
    requests: unknown,
    objects: (name) => listObjects(client, name),
    body: async (name, key) => {
      const { Body } = await client.send(new GetObjectCommand({ Bucket: name, Key: key }));
      return Buffer.from((await Body?.transformToByteArray()) ?? []);
    },
    uploads: (name) => listUploads(client, name),
    writes: unknown,
    namedKeyViolations: async () => [],
    setQuirks: unknown,
    remove: async (name, key) => {
      await client.send(new DeleteObjectCommand({ Bucket: name, Key: key }));
    },
    close: async () => client.destroy(),
  };
}

async function emptyBucket(client: S3Client, bucket: string): Promise<void> {
  for (const key of await listKeys(client, bucket)) {
    await client.send(new DeleteObjectCommand({ Bucket: bucket, Key: key }));
  }
  for (const { key, uploadId } of await listUploads(client, bucket)) {
    const upload = { Bucket: bucket, Key: key, UploadId: uploadId };
    await client.send(new AbortMultipartUploadCommand(upload));
  }
}

async function listKeys(client: S3Client, bucket: string): Promise<string[]> {
  const keys: string[] = [];
  for await (const { Contents = [] } of paginateListObjectsV2({ client }, { Bucket: bucket })) {
    keys.push(...Contents.map(({ Key = '' }) => Key));
  }
  return keys;
}

async function listObjects(
  client: S3Client,
  bucket: string,
): Promise<Omit<ObjectSnapshot, 'body'>[]> {
  const objects: Omit<ObjectSnapshot, 'body'>[] = [];
  for (const key of await listKeys(client, bucket)) {
    const head = await headIfThere(client, bucket, key);
    if (head === null) continue;
    objects.push({
      key,
      bytes: head.ContentLength ?? 0,
      etag: head.ETag ?? '',
      contentType: head.ContentType,
      contentEncoding: head.ContentEncoding,
      metadata: head.Metadata ?? {},
      encryption: head.ServerSideEncryption ?? '',
      kmsKeyId: head.SSEKMSKeyId,
      parts: head.PartsCount,
      crc32: undefined,
      modifiedAt: head.LastModified?.getTime() ?? 0,
    });
  }
  return objects;
}

/** @returns null if the object was deleted after it was listed */
async function headIfThere(client: S3Client, bucket: string, key: string) {
  return await client
    .send(new HeadObjectCommand({ Bucket: bucket, Key: key }))
    .catch((error: unknown) => {
      if (error instanceof NotFound) return null;
      throw error;
    });
}

/** None at a store that does not list them. */
async function listUploads(client: S3Client, bucket: string): Promise<UploadSnapshot[]> {
  const { Uploads = [] } = await client
    .send(new ListMultipartUploadsCommand({ Bucket: bucket }))
    .catch((error: Error) => {
      if (error.name === 'NotImplemented') return { Uploads: [] };
      throw error;
    });
  const found = Uploads.map(async ({ Key: key = '', UploadId: uploadId = '', Initiated }) => {
    const upload = { Bucket: bucket, Key: key, UploadId: uploadId };
    const { Parts = [] } = await client.send(new ListPartsCommand(upload));
    const parts = Parts.map(({ PartNumber: partNumber = 0, Size: bytes = 0, ETag: etag = '' }) => ({
      partNumber,
      bytes,
      etag,
    }));
    return { key, uploadId, initiatedAt: Initiated?.getTime() ?? 0, parts };
  });
  return await Promise.all(found);
}
