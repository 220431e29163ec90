import {
  DeleteObjectCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListObjectsV2Command,
} from '@aws-sdk/client-s3';
import { SluiceError } from '../../domain/errors.ts';
import type { S3Connection } from './client.ts';
import { StoreError, toDestinationError } from './errors.ts';

/** Deletions sent at once. One request a key: not every store knows DeleteObjects. */
const deletionsInFlight = 8;

/** @returns null where there is no such object */
export async function readObject(
  connection: S3Connection,
  key: string,
  signal?: AbortSignal,
): Promise<{ readonly body: AsyncIterable<Uint8Array>; readonly etag: string | null } | null> {
  const found = await connection
    .request(
      (client, send) =>
        client.send(new GetObjectCommand({ Bucket: connection.bucket, Key: key }), send),
      signal,
    )
    .catch(nullWhereMissing);
  if (found === null) return null;
  const body = found.Body as AsyncIterable<Uint8Array> | undefined;
  return { body: body ? withOurErrors(body) : emptyBody(), etag: found.ETag ?? null };
}

/** Metadata and size of an object without its bytes, or null. */
export async function headObject(connection: S3Connection, key: string) {
  return await connection
    .request((client, send) =>
      client.send(new HeadObjectCommand({ Bucket: connection.bucket, Key: key }), send),
    )
    .catch(nullWhereMissing);
}

export async function* listObjects(
  connection: S3Connection,
  prefix: string,
): AsyncGenerator<{ readonly key: string; readonly bytes: number }> {
  let token: string | undefined;
  do {
    const page = await connection.request((client, send) =>
      client.send(
        new ListObjectsV2Command({
          Bucket: connection.bucket,
          Prefix: prefix,
          ...(token === undefined ? {} : { ContinuationToken: token }),
        }),
        send,
      ),
    );
    for (const { Key: key = '', Size: bytes = 0 } of page.Contents ?? []) yield { key, bytes };
    token = page.IsTruncated ? page.NextContinuationToken : undefined;
  } while (token !== undefined);
}

export async function deleteObjects(
  connection: S3Connection,
  keys: readonly string[],
): Promise<void> {
  const left = keys.values();
  const work = async (): Promise<void> => {
    for (const key of left) {
      await connection
        .request((client, send) =>
          client.send(new DeleteObjectCommand({ Bucket: connection.bucket, Key: key }), send),
        )
        .catch(nullWhereMissing);
    }
  };
  await Promise.all(Array.from({ length: deletionsInFlight }, work));
}

/** A missing key says NoSuchKey, or 404 without a body to HEAD; a missing bucket stays an error. */
function nullWhereMissing(error: unknown): null {
  const cause = error instanceof SluiceError ? error.cause : undefined;
  const name = cause instanceof StoreError ? cause.name : '';
  if (name === 'NoSuchKey' || name === 'NotFound') return null;
  throw error;
}

/** A body can fail while it is read, too. */
async function* withOurErrors(body: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  try {
    yield* body;
  } catch (error) {
    throw toDestinationError(error, []);
  }
}

async function* emptyBody(): AsyncGenerator<Uint8Array> {}
