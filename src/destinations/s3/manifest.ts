import { PutObjectCommand } from '@aws-sdk/client-s3';
import { SluiceError } from '../../domain/errors.ts';
import type { ManifestTag } from '../destination.ts';
import type { S3Connection } from './client.ts';
import { isNotImplemented } from './errors.ts';
import { readObject } from './objects.ts';

/** What must hold for a put to take place. */
export type PutCondition = { readonly IfNoneMatch: '*' } | { readonly IfMatch: string } | null;

/**
 * Puts the manifest where the one in force is still `expected`. A refusal whose cause is our own
 * earlier put, whose answer was lost, is a success: the object in force has exactly these bytes.
 */
export async function commitManifest(
  connection: S3Connection,
  key: string,
  body: Uint8Array,
  expected: ManifestTag,
): Promise<{ readonly etag: ManifestTag }> {
  const condition: PutCondition = expected === null ? { IfNoneMatch: '*' } : { IfMatch: expected };
  try {
    return await putSmallObject(connection, key, body, condition);
  } catch (error) {
    if (isNotImplemented(error)) return await putSmallObject(connection, key, body, null);
    if (!(error instanceof SluiceError) || error.code !== 'destination.conflict') throw error;
    const inForce = await readObject(connection, key);
    if (inForce === null || !(await hasBytes(inForce.body, body))) throw error;
    return { etag: inForce.etag };
  }
}

export async function putSmallObject(
  connection: S3Connection,
  key: string,
  body: Uint8Array,
  condition: PutCondition,
): Promise<{ readonly etag: ManifestTag }> {
  const { ETag: etag } = await connection.request((client, send) =>
    client.send(
      new PutObjectCommand({
        Bucket: connection.bucket,
        Key: key,
        Body: body,
        ContentLength: body.length,
        ContentType: 'application/json',
        ...connection.encryption,
        ...(condition ?? {}),
      }),
      send,
    ),
  );
  return { etag: etag ?? null };
}

async function hasBytes(stream: AsyncIterable<Uint8Array>, bytes: Uint8Array): Promise<boolean> {
  let at = 0;
  for await (const chunk of stream) {
    const same = Buffer.compare(chunk, bytes.subarray(at, at + chunk.length)) === 0;
    if (!same) return false;
    at += chunk.length;
  }
  return at === bytes.length;
}
