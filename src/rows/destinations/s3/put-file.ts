import { SluiceError } from '../../../foundation/domain/errors.ts';
import type { FileOptions, PutLease, StoreTraits } from '../destination.ts';
import type { S3Connection } from './client.ts';
import { checkSize, headOrNothing } from './complete-upload.ts';
import { isSameTag } from './conditions.ts';
import { isCollision, isNotImplemented } from './errors.ts';
import { hasMark, metadataHeaders } from './object-metadata.ts';
import type { PartSums } from './part-digest.ts';
import { putObject } from './put-object.ts';
import { codeOf } from './uploads.ts';

/** A file that is sent in one request, to a key that is free. */
export interface WholeFile extends FileOptions {
  readonly body: Uint8Array;
  readonly sums: PartSums;
  /** Random, and the same for each try. */
  readonly mark: string;
}

/** When a file is put, and what is known of its store. */
export interface FilePut {
  readonly lease: PutLease | undefined;
  /** Probes again how the store treats conditional puts, and sets the connection's traits. */
  readonly probe: (signal: AbortSignal) => Promise<StoreTraits>;
  readonly signal: AbortSignal;
}

/**
 * Puts a file if its key is free, and checks that the object is whole. If the answer was lost, the object's mark shows
 * that it is ours.
 *
 * A store that refuses the put although the key is free is probed once more. If it goes on, its traits lose the
 * condition, and the next attempt uses an upload: without a condition a put could replace what another worker wrote.
 *
 * @returns the object's ETag
 * @throws SluiceError `destination.conflict` if the key is not free; `run.lease_lost`
 */
export async function putFile(
  connection: S3Connection,
  file: WholeFile,
  put: FilePut,
): Promise<string> {
  const first = await tryPut(connection, file, put);
  if (typeof first === 'string') return first;
  const { ifNoneMatch } = await put.probe(put.signal);
  const second = ifNoneMatch ? await tryPut(connection, file, put) : first;
  if (typeof second === 'string') return second;
  const { traits } = connection;
  // A collision says nothing about the condition.
  if (traits && !isCollision(second.cause)) connection.traits = { ...traits, ifNoneMatch: false };
  const detail = `the store refuses ${file.key}, although there is no object`;
  throw new SluiceError('destination.conflict', detail, second.cause);
}

/** The store refused a put whose condition was true. */
interface Contradiction {
  readonly cause: unknown;
}

async function tryPut(
  connection: S3Connection,
  file: WholeFile,
  put: FilePut,
): Promise<string | Contradiction> {
  const { key, mark, body } = file;
  try {
    return await putChecked(connection, file, put);
  } catch (error) {
    if (isNotImplemented(error)) return { cause: error };
    if (codeOf(error) !== 'destination.conflict') throw error;
    const head = await headOrNothing(connection, key, put.signal);
    if (head === null) return { cause: error };
    if (head === 'not allowed' || !head.ETag || !hasMark(head.Metadata, mark)) throw error;
    checkSize(head.ContentLength, body.length);
    return head.ETag;
  }
}

/**
 * @throws SluiceError `destination.unavailable` if the tag that the store names is not the digest of these bytes (with
 *   KMS it never is), and the object there is not ours: a proxy may have given the answer to another request
 */
async function putChecked(
  connection: S3Connection,
  file: WholeFile,
  { signal, lease }: FilePut,
): Promise<string> {
  const { key, body, mark, contentType } = file;
  const { sha256, md5 } = file.sums;
  const object = {
    ...{ key, body, md5, payloadHash: sha256 ?? 'UNSIGNED-PAYLOAD' },
    headers: {
      'content-type': contentType,
      'x-amz-storage-class': connection.asks.storageClass ?? undefined,
      ...metadataHeaders(mark, file),
    },
  };
  const { etag } = await putObject(connection, object, { IfNoneMatch: '*' }, { signal, lease });
  if (isSameTag(etag, md5)) return etag;
  const head = await headOrNothing(connection, key, signal);
  if (head === 'not allowed') return etag;
  if (head?.ETag && hasMark(head.Metadata, mark)) {
    checkSize(head.ContentLength, body.length);
    return head.ETag;
  }
  throw new SluiceError('destination.unavailable', `the store took ${key}, but does not show it`);
}
