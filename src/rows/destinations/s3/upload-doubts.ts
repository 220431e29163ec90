import { createHash } from 'node:crypto';
import { type ErrorCode, SluiceError } from '../../../foundation/domain/errors.ts';
import type { CompleteOptions, UploadRef } from '../destination.ts';
import { callDeadline } from './call-deadline.ts';
import { type S3Connection, sendTo } from './client.ts';
import { completionCondition, isSameTag } from './conditions.ts';
import { codeOf, isCollision, isInternalError, isNotImplemented, StoreError } from './errors.ts';
import { isOwnObject, splitId } from './object-metadata.ts';
import { checkSize, headOrNothing, readList } from './objects.ts';
import { childrenOf } from './xml.ts';

export interface UploadPart {
  readonly number: number;
  readonly bytes: number;
  readonly tag: string;
}

export interface WholeUpload extends CompleteOptions {
  readonly connection: S3Connection;
  readonly upload: UploadRef;
  readonly signal: AbortSignal;
  readonly parts: readonly UploadPart[];
  /** True if the tags that the store gave the parts are the MD5 digests of what was sent. */
  readonly areDigests: boolean;
  /** True if the store has refused a condition that was true once before. */
  readonly isSecond?: boolean;
}

/**
 * After a completion that did not succeed. If the answer was lost: an upload that no longer exists while its object does was
 * completed by us.
 *
 * @param complete completes it once more
 * @returns the object's ETag
 * @throws SluiceError `destination.conflict` if the key does not have what `whole.replaces` says
 */
export async function judgeCompletion(
  whole: WholeUpload,
  caught: unknown,
  complete: (whole: WholeUpload) => Promise<string>,
): Promise<string> {
  const { connection, upload, parts, signal } = whole;
  const error = await findLoss(whole, caught);
  const code = codeOf(error);
  const inDoubt = code === 'destination.upload_lost' || code === 'destination.conflict';
  const isGuarded = completionCondition(whole.replaces, connection.traits) !== null;
  if (isGuarded && isNotImplemented(error)) return complete(withoutCondition(whole));
  const head = inDoubt ? await headOrNothing(connection, upload.key, signal) : null;
  if (head === 'not allowed') throw error;
  if (isGuarded && code === 'destination.conflict' && !isCollision(error)) {
    if (isSameTag(head?.ETag ?? null, whole.replaces ?? null)) {
      // A proxy may have made the answer up.
      return complete(whole.isSecond ? withoutCondition(whole) : { ...whole, isSecond: true });
    }
  }
  if (head === null) throw error;
  if (!isOwnObject(upload, head.Metadata) || !head.ETag) throw error;
  checkSize(head.ContentLength, bytesOf(parts));
  return head.ETag;
}

/** Checks the object after its completion. @param given its tag; '' for none, as Ceph RGW 16 does @returns it as it is shown */
export async function checkObject(
  { connection, upload, parts, signal }: WholeUpload,
  given: string,
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

/** Ceph RGW 16 answers 500 to the completion of an unknown upload, so we ask for its parts. */
async function findLoss(
  { connection, upload, signal }: WholeUpload,
  error: unknown,
): Promise<unknown> {
  if (signal.aborted || !isInternalError(error)) return error;
  const isUnknown = await listPartsOf(connection, upload, signal).then(() => false, saysUnknown);
  if (!isUnknown) return error;
  const detail = error instanceof SluiceError ? error.detail : undefined;
  return new SluiceError('destination.upload_lost', detail, error);
}

/** Without a condition that the store refuses wrongly: else the conflict returned for ever. */
function withoutCondition({ replaces, ...rest }: WholeUpload): WholeUpload {
  const { connection } = rest;
  const lacking = replaces === null ? 'completeIfNoneMatch' : 'completeIfMatch';
  if (connection.traits) connection.traits = { ...connection.traits, [lacking]: false };
  connection.doubt();
  return rest;
}

/** Retryable errors that say that the upload was not completed. */
const refusals: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'destination.conflict',
  'destination.upload_lost',
  'destination.invalid_parts',
]);

export function isRefused({ code, spec }: SluiceError): boolean {
  return refusals.has(code) || (code.startsWith('destination.') && !spec.retryable);
}

/** Also for an unknown upload. Waits until parts that were in flight have ended too. */
export async function abortUpload(
  connection: S3Connection,
  upload: UploadRef,
  signal?: AbortSignal,
): Promise<void> {
  const deadline = callDeadline(signal);
  for (let round = 0; round < 3; round += 1) {
    try {
      const query = { uploadId: splitId(upload)[1], 'x-id': 'AbortMultipartUpload' };
      await sendTo(connection, { method: 'DELETE', key: upload.key, query }, deadline);
    } catch (error) {
      if (saysUnknown(error)) return;
      throw error;
    }
    // A part in flight can outlive the abort (API reference of AbortMultipartUpload).
    const parts = await listPartsOf(connection, upload, deadline).catch(() => null);
    if (parts === null || childrenOf(parts, 'Part').length === 0) return;
  }
}

function listPartsOf(connection: S3Connection, upload: UploadRef, signal: AbortSignal) {
  const query = { uploadId: splitId(upload)[1], 'x-id': 'ListParts' };
  return readList(connection, query, signal, upload.key);
}

/** Ceph RGW answers `NoSuchKey` to ListParts, and Swift to the abort of a completed upload. */
function saysUnknown(error: unknown): boolean {
  if (codeOf(error) === 'destination.upload_lost') return true;
  const cause = error instanceof SluiceError ? error.cause : undefined;
  return cause instanceof StoreError && cause.name === 'NoSuchKey';
}

export function partEtag(part: UploadPart): string {
  return part.tag.split(' ')[0] ?? '';
}

/** The digest of the tags of an object's parts: the object's own tag, as S3 computes it without KMS. */
export function digestOf(parts: readonly UploadPart[]): string {
  const digest = createHash('md5');
  for (const part of parts) digest.update(Buffer.from(partEtag(part).replaceAll('"', ''), 'hex'));
  return `"${digest.digest('hex')}-${parts.length}"`;
}

function bytesOf(parts: readonly UploadPart[]): number {
  return parts.reduce((sum, part) => sum + part.bytes, 0);
}
