import { createHash } from 'node:crypto';
import { CompleteMultipartUploadCommand } from '@aws-sdk/client-s3';
import { SluiceError } from '../../domain/errors.ts';
import type { CompleteOptions, UploadPart, UploadRef } from '../destination.ts';
import type { S3Connection } from './client.ts';
import { completionCondition, isSameTag } from './conditions.ts';
import { isCollision, isNotImplemented } from './errors.ts';
import { headObject, readObject } from './objects.ts';
import { codeOf, isOwnObject, partEtag, uploadTarget } from './uploads.ts';

/** An upload as it is to be completed. */
export interface WholeUpload extends CompleteOptions {
  readonly parts: readonly UploadPart[];
  /** Whether another attempt, which may not have ended, has the upload as well. */
  readonly shared: boolean;
}

/**
 * Completes an upload and looks whether the object is whole. An answer that was lost is found out
 * about: an upload that is gone though its object is there was completed by us. If another attempt had
 * the upload as well, the object's bytes decide, not its mark.
 *
 * @returns the object's ETag
 * @throws SluiceError `destination.conflict` if the key does not hold what `whole.replaces` says
 */
export async function completeUpload(
  connection: S3Connection,
  upload: UploadRef,
  whole: WholeUpload,
  signal: AbortSignal,
): Promise<string> {
  const { parts } = whole;
  try {
    const etag = await sendCompletion(connection, upload, whole, signal);
    const found = await headOrNothing(connection, upload.key);
    // Another ETag is another writer's object, or an old one that a store still shows.
    if (found !== null && found !== 'not allowed' && found.ETag === etag) {
      checkSize(found.ContentLength, parts);
    }
    if (whole.shared && !isDigestOf(etag, parts)) await checkContent(connection, upload, whole);
    return etag;
  } catch (error) {
    const code = codeOf(error);
    const inDoubt = code === 'destination.upload_lost' || code === 'destination.conflict';
    const isGuarded = completionCondition(whole.replaces, connection.traits) !== null;
    if (isGuarded && isNotImplemented(error)) {
      return completeUnguarded(connection, upload, whole, signal);
    }
    const found = inDoubt ? await headOrNothing(connection, upload.key) : null;
    if (found === 'not allowed') throw error;
    if (isGuarded && code === 'destination.conflict' && !isCollision(error)) {
      if (isSameTag(found?.ETag ?? null, whole.replaces ?? null)) {
        return completeUnguarded(connection, upload, whole, signal);
      }
    }
    if (found === null) throw error;
    if (!isOwnObject(upload, found.Metadata) || !found.ETag) throw error;
    checkSize(found.ContentLength, parts);
    if (whole.shared) await checkContent(connection, upload, whole);
    return found.ETag;
  }
}

function sendCompletion(
  connection: S3Connection,
  upload: UploadRef,
  { parts, replaces }: WholeUpload,
  signal: AbortSignal,
): Promise<string> {
  return connection.request(async (client, send) => {
    const { ETag: etag } = await client.send(
      new CompleteMultipartUploadCommand({
        ...uploadTarget(connection, upload),
        MultipartUpload: { Parts: parts.map(toCompletedPart) },
        ...completionCondition(replaces, connection.traits),
      }),
      send,
    );
    // A store that fails after it began to answer says 200 and no result.
    if (!etag) throw new SluiceError('destination.unavailable', 'completing gave no result');
    return etag;
  }, signal);
}

/**
 * Completes again without a condition if the store refused one that holds, or no longer knows it: a
 * conflict that nothing caused must not come back for ever. The destination's traits keep that.
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
  return completeUpload(connection, upload, rest, signal);
}

/** Whether an object's ETag is the digest of the ETags of its parts, as S3 makes it without KMS. */
function isDigestOf(etag: string, parts: readonly UploadPart[]): boolean {
  const digest = createHash('md5');
  for (const part of parts) digest.update(Buffer.from(partEtag(part).replaceAll('"', ''), 'hex'));
  return etag.replaceAll('"', '') === `${digest.digest('hex')}-${parts.length}`;
}

/**
 * Reads an object back whose upload another attempt had as well: it may have completed it with parts
 * of its own.
 *
 * @throws SluiceError `destination.upload_lost` if the object does not hold the bytes of this attempt
 */
async function checkContent(
  connection: S3Connection,
  upload: UploadRef,
  { sha256 }: WholeUpload,
): Promise<void> {
  const hash = createHash('sha256');
  const found = await readObject(connection, upload.key).catch(() => null);
  for await (const chunk of found?.body ?? []) hash.update(chunk);
  if (found !== null && hash.digest('hex') === sha256) return;
  throw new SluiceError('destination.upload_lost', 'another attempt has completed this upload');
}

/** A store that leaves out parts, or counts them otherwise, must not pass for a success. */
function checkSize(found: number | undefined, parts: readonly UploadPart[]): void {
  const sent = parts.reduce((sum, part) => sum + part.bytes, 0);
  if (found === sent) return;
  const detail = `the store shows an object of ${found ?? 'no'} bytes where ${sent} were sent`;
  throw new SluiceError('destination.unavailable', detail);
}

/** Credentials may be good for writing only: then there is nothing to look at. */
async function headOrNothing(connection: S3Connection, key: string) {
  try {
    return await headObject(connection, key);
  } catch (error) {
    if (codeOf(error) === 'destination.access_denied') return 'not allowed';
    throw error;
  }
}

function toCompletedPart(part: UploadPart) {
  const [etag, checksum] = part.tag.split(' ');
  return {
    PartNumber: part.number,
    ETag: etag,
    ...(checksum === undefined ? {} : { ChecksumCRC32: checksum }),
  };
}
