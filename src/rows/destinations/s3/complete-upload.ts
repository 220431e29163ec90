import { createHash } from 'node:crypto';
import { SluiceError } from '../../../foundation/domain/errors.ts';
import type { CompleteOptions, UploadRef } from '../destination.ts';
import { checkLength } from './answer.ts';
import type { S3Connection } from './client.ts';
import { completionCondition, isSameTag } from './conditions.ts';
import { isCollision, isInternalError, isNotImplemented } from './errors.ts';
import { headObject } from './objects.ts';
import { guardedBy } from './put-object.ts';
import { textsOf } from './store-client.ts';
import {
  codeOf,
  completion,
  isOwnObject,
  isUnknown,
  partEtag,
  type UploadPart,
} from './uploads.ts';

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
