import { createHash } from 'node:crypto';
import { CompleteMultipartUploadCommand } from '@aws-sdk/client-s3';
import { SluiceError } from '../../domain/errors.ts';
import type { CompleteOptions, UploadPart, UploadRef } from '../destination.ts';
import type { S3Connection } from './client.ts';
import { completionCondition, isSameTag } from './conditions.ts';
import { isCollision, isInternalError, isNotImplemented } from './errors.ts';
import { headObject, readObject } from './objects.ts';
import { codeOf, isOwnObject, isUnknown, partEtag, uploadTarget } from './uploads.ts';

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
    const given = await sendCompletion(connection, upload, whole, signal);
    const etag = await checkObject(connection, upload, parts, given);
    if (whole.shared && !isSameTag(etag, digestOf(parts)))
      await checkContent(connection, upload, whole);
    return etag;
  } catch (caught) {
    const error = await findLoss(connection, upload, caught, signal);
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

/**
 * Looks at the object right after its completion.
 *
 * @param given the tag that the store named; '' for none, as Ceph RGW 16 does it at first
 * @returns its tag in the form in which the store shows it
 */
async function checkObject(
  connection: S3Connection,
  upload: UploadRef,
  parts: readonly UploadPart[],
  given: string,
): Promise<string> {
  const found = await headOrNothing(connection, upload.key);
  if (found === 'not allowed') return given || digestOf(parts);
  const isOwn =
    given === '' ? isOwnObject(upload, found?.Metadata) : isSameTag(found?.ETag ?? null, given);
  if (found?.ETag && isOwn) {
    checkSize(found.ContentLength, parts);
    return found.ETag;
  }
  // Another tag is another writer's object, or an old one that a store still shows.
  if (given !== '') return given;
  throw new SluiceError('destination.unavailable', 'completing gave no tag, and no object of ours');
}

/**
 * Ceph RGW 16 answers the completion of an upload that it does not know with 500, for ever. Its list
 * of parts says the truth.
 */
async function findLoss(
  connection: S3Connection,
  upload: UploadRef,
  error: unknown,
  signal: AbortSignal,
): Promise<unknown> {
  if (signal.aborted || !isInternalError(error)) return error;
  if (!(await isUnknown(connection, upload))) return error;
  const detail = error instanceof SluiceError ? error.detail : undefined;
  return new SluiceError('destination.upload_lost', detail, error);
}

/** @returns the tag that the store names, maybe an empty one */
function sendCompletion(
  connection: S3Connection,
  upload: UploadRef,
  { parts, replaces }: WholeUpload,
  signal: AbortSignal,
): Promise<string> {
  return connection.request(async (client, send) => {
    const { ETag: etag, Key: key } = await client.send(
      new CompleteMultipartUploadCommand({
        ...uploadTarget(connection, upload),
        MultipartUpload: { Parts: parts.map(toCompletedPart) },
        ...completionCondition(replaces, connection.traits),
      }),
      send,
    );
    // A store that fails after it began to answer says 200 and no result.
    if (!etag && !key) {
      throw new SluiceError('destination.unavailable', 'completing gave no result');
    }
    return etag ?? '';
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

/** The digest of the tags of an object's parts: its own tag, as S3 makes it without KMS. */
function digestOf(parts: readonly UploadPart[]): string {
  const digest = createHash('md5');
  for (const part of parts) digest.update(Buffer.from(partEtag(part).replaceAll('"', ''), 'hex'));
  return `"${digest.digest('hex')}-${parts.length}"`;
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
