import { createHash } from 'node:crypto';
import { SluiceError } from '../../../foundation/domain/errors.ts';
import type {
  CompleteOptions,
  UploadRef,
  FileOptions,
  PutLease,
  StoreTraits,
} from '../destination.ts';
import { checkLength } from './answer.ts';
import type { S3Connection } from './client.ts';
import { completionCondition, isSameTag } from './conditions.ts';
import { isCollision, isInternalError, isNotImplemented } from './errors.ts';
import { headObject } from './objects.ts';
import { guardedBy, putObject } from './put-object.ts';
import { textsOf } from './store-client.ts';
import {
  codeOf,
  completion,
  isOwnObject,
  isUnknown,
  partEtag,
  type UploadPart,
} from './uploads.ts';
import { hasMark, metadataHeaders } from './object-metadata.ts';
import type { PartSums } from './part-digest.ts';

/** An upload that is to be completed. */
export interface WholeUpload extends CompleteOptions {
  readonly parts: readonly UploadPart[];
  /** True if the tags that the store gave the parts are the MD5 digests of what was sent. */
  readonly areDigests: boolean;
  /** True if the store has refused a condition that was true once before. */
  readonly isSecond?: boolean;
}

/**
 * Completes an upload and checks that the object is whole. If the answer was lost: an upload that no
 * longer exists while its object does was completed by us.
 *
 * @returns the object's ETag
 * @throws SluiceError `destination.conflict` if the key does not have what `whole.replaces` says; `run.lease_lost`
 */
export async function completeUpload(
  connection: S3Connection,
  upload: UploadRef,
  whole: WholeUpload,
  signal: AbortSignal,
): Promise<string> {
  const { parts } = whole;
  try {
    const { given, key } = await sendCompletion(connection, upload, whole, signal);
    // Then the store names exactly this object and the bytes that were sent.
    const isProven = whole.areDigests && given === digestOf(parts) && key === upload.key;
    return isProven ? given : await checkObject(connection, upload, parts, given, signal);
  } catch (caught) {
    const error = await findLoss(connection, upload, caught, signal);
    const code = codeOf(error);
    const inDoubt = code === 'destination.upload_lost' || code === 'destination.conflict';
    const isGuarded = completionCondition(whole.replaces, connection.traits) !== null;
    if (isGuarded && isNotImplemented(error)) {
      return completeUnguarded(connection, upload, whole, signal);
    }
    const head = inDoubt ? await headOrNothing(connection, upload.key, signal) : null;
    if (head === 'not allowed') throw error;
    if (isGuarded && code === 'destination.conflict' && !isCollision(error)) {
      if (isSameTag(head?.ETag ?? null, whole.replaces ?? null)) {
        // A proxy may have made the answer up.
        return whole.isSecond
          ? completeUnguarded(connection, upload, whole, signal)
          : completeUpload(connection, upload, { ...whole, isSecond: true }, signal);
      }
    }
    if (head === null) throw error;
    if (!isOwnObject(upload, head.Metadata) || !head.ETag) throw error;
    checkSize(head.ContentLength, bytesOf(parts));
    return head.ETag;
  }
}

/**
 * Checks the object right after its completion.
 *
 * @param given the tag that the store named; '' for none, as Ceph RGW 16 does at first
 * @returns its tag in the form in which the store shows it
 */
async function checkObject(
  connection: S3Connection,
  upload: UploadRef,
  parts: readonly UploadPart[],
  given: string,
  signal: AbortSignal,
): Promise<string> {
  const head = await headOrNothing(connection, upload.key, signal);
  if (head === 'not allowed') return given || digestOf(parts);
  const isNamed = given !== '' && isSameTag(head?.ETag ?? null, given);
  if (head?.ETag && (isNamed || isOwnObject(upload, head.Metadata))) {
    checkSize(head.ContentLength, bytesOf(parts));
    return head.ETag;
  }
  // Another tag belongs to another writer's object, or to an old object that the store still shows.
  if (head !== null && given !== '') return given;
  // A proxy may have given the answer to another request.
  const why = head === null ? 'there is no object' : 'without a tag, and the object is not ours';
  throw new SluiceError('destination.unavailable', `the store completed the upload: ${why}`);
}

/**
 * Ceph RGW 16 always answers 500 to the completion of an upload that it does not know. So we ask for
 * the list of its parts.
 */
async function findLoss(
  connection: S3Connection,
  upload: UploadRef,
  error: unknown,
  signal: AbortSignal,
): Promise<unknown> {
  if (signal.aborted || !isInternalError(error)) return error;
  if (!(await isUnknown(connection, upload, signal))) return error;
  const detail = error instanceof SluiceError ? error.detail : undefined;
  return new SluiceError('destination.upload_lost', detail, error);
}

/** @returns what the store names: the tag, which may be empty, and the key */
function sendCompletion(
  connection: S3Connection,
  upload: UploadRef,
  { parts, replaces, lease }: WholeUpload,
  signal: AbortSignal,
): Promise<{ readonly given: string; readonly key: string | undefined }> {
  const withLease = guardedBy(lease);
  return connection.request(async (client, send) => {
    const condition = completionCondition(replaces, connection.traits);
    const request = completion(upload, parts, condition);
    const texts = textsOf(await client.send(request, await withLease(send)));
    const [etag, key] = [texts.get('ETag'), texts.get('Key')];
    checkLength('the ETag of a completed upload', etag);
    // A store that fails after it began to answer sends status 200 without a result.
    if (!etag && !key) {
      throw new SluiceError(
        'destination.unavailable',
        'the store answered the completion without a result',
      );
    }
    return { given: etag ?? '', key };
  }, signal);
}

/**
 * Completes again without a condition if the store wrongly refused one, or no longer supports it:
 * otherwise the same conflict would return forever. This is true for this attempt alone: the next run probes the store.
 */
async function completeUnguarded(
  connection: S3Connection,
  upload: UploadRef,
  whole: WholeUpload,
  signal: AbortSignal,
): Promise<string> {
  const { replaces, ...rest } = whole;
  const lacking = replaces === null ? 'completeIfNoneMatch' : 'completeIfMatch';
  if (connection.traits) connection.traits = { ...connection.traits, [lacking]: false };
  connection.doubt();
  return completeUpload(connection, upload, rest, signal);
}

/** The digest of the tags of an object's parts: the object's own tag, as S3 computes it without KMS. */
function digestOf(parts: readonly UploadPart[]): string {
  const digest = createHash('md5');
  for (const part of parts) digest.update(Buffer.from(partEtag(part).replaceAll('"', ''), 'hex'));
  return `"${digest.digest('hex')}-${parts.length}"`;
}

function bytesOf(parts: readonly UploadPart[]): number {
  return parts.reduce((sum, part) => sum + part.bytes, 0);
}

/**
 * A store that drops parts, or counts bytes differently, must not count as a success.
 *
 * @throws SluiceError `destination.unavailable` if an object of `sent` bytes has another size
 */
export function checkSize(found: number | undefined, sent: number): void {
  if (found === sent) return;
  const detail = `the store shows an object of ${found ?? 'no'} bytes, but ${sent} were sent`;
  throw new SluiceError('destination.unavailable', detail);
}

/** Credentials may allow writing only: then the object cannot be checked. */
export async function headOrNothing(connection: S3Connection, key: string, signal: AbortSignal) {
  try {
    return await headObject(connection, key, signal);
  } catch (error) {
    if (codeOf(error) === 'destination.access_denied') return 'not allowed';
    throw error;
  }
}

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
