import { createHash, randomUUID } from 'node:crypto';
import { SluiceError } from '../../../foundation/domain/errors.ts';
import type { CompleteOptions, FileOptions, UploadRef } from '../destination.ts';
import { checkLength } from './answer.ts';
import { callDeadline } from './call-deadline.ts';
import { type S3Connection, sendTo } from './client.ts';
import {
  completionCondition,
  conditionHeaders,
  isSameTag,
  type PutCondition,
} from './conditions.ts';
import {
  codeOf,
  isCollision,
  isInternalError,
  isNotImplemented,
  refusesChecksums,
  StoreError,
} from './errors.ts';
import { notAStore, usualAdvice } from './not-the-store.ts';
import { hasMark, metadataHeaders } from './object-metadata.ts';
import { checkSize, headOrNothing } from './objects.ts';
import { readList } from './pages.ts';
import { PartDigest, type PartSums } from './part-digest.ts';
import { encodeHex, guardedBy } from './put-object.ts';
import { type StoreRequest, textsOf } from './store-client.ts';
import { childrenOf, escapeXml } from './xml.ts';

/**
 * The requests of a multipart upload. Our upload id is `<mark>.<the store's id>`. The mark is random and kept in the
 * object's metadata. After a lost answer it shows whether the object is this upload's. (An ETag cannot: with KMS it is
 * not a digest, and equal bytes have equal ETags.)
 */

export interface UploadPart {
  readonly number: number;
  readonly bytes: number;
  readonly tag: string;
}

export interface BegunUpload {
  readonly upload: UploadRef;
  /** True if its parts have a CRC32. Only if the store said so: some refuse it, and some drop parts that have one. */
  readonly checksums: boolean;
}

export async function createUpload(
  connection: S3Connection,
  options: FileOptions,
  signal: AbortSignal,
): Promise<BegunUpload> {
  const mark = randomUUID();
  const create = (checksum: 'CRC32' | undefined) => {
    const headers = {
      'content-type': options.contentType,
      ...metadataHeaders(mark, options),
      'x-amz-checksum-algorithm': checksum,
      ...connection.fileHeaders,
    };
    const { key } = options;
    return sendTo(connection, { method: 'POST', key, query: { uploads: '' }, headers }, signal);
  };
  const takesChecksums = connection.traits?.checksums ?? true;
  const created = await create(takesChecksums ? 'CRC32' : undefined).catch((error: unknown) => {
    if (!takesChecksums || !refusesChecksums(error)) throw error;
    return create(undefined);
  });
  const id = textsOf(created).get('UploadId');
  if (!id) throw notAStore(`HTTP 200 without an upload id. ${usualAdvice}`);
  checkLength('the upload id', id);
  const checksums = takesChecksums && created.headers['x-amz-checksum-algorithm'] === 'CRC32';
  return { upload: { key: options.key, uploadId: `${mark}.${id}` }, checksums };
}

/** Says whether an object with this metadata was made by this upload. */
export function isOwnObject(
  upload: UploadRef,
  metadata: Readonly<Record<string, string>> | undefined,
): boolean {
  return hasMark(metadata, splitId(upload)[0]);
}

export async function uploadPart(
  connection: S3Connection,
  upload: UploadRef,
  number: number,
  body: Uint8Array,
  { crc32, sha256, md5 }: PartSums,
  signal: AbortSignal,
): Promise<UploadPart> {
  const etag = await connection.request(async (client, send) => {
    const { headers } = await client.send(
      {
        ...{ method: 'PUT', key: upload.key, body },
        query: { partNumber: String(number), uploadId: splitId(upload)[1], 'x-id': 'UploadPart' },
        headers: {
          'content-type': 'application/octet-stream',
          'x-amz-checksum-crc32': crc32 ?? undefined,
          'content-md5': crc32 === null && md5 !== null ? encodeHex(md5) : undefined,
        },
        payloadHash: sha256 ?? 'UNSIGNED-PAYLOAD',
      },
      send,
    );
    if (headers.etag) return headers.etag;
    throw notAStore(`HTTP 200 without an ETag for a part. ${usualAdvice}`);
  }, signal);
  return { number, bytes: body.length, tag: crc32 === null ? etag : `${etag} ${crc32}` };
}

/** Says whether a part's bytes are hashed for its signature. Over TLS a signed CRC32 protects them instead. */
export function signsParts(connection: S3Connection, checksums: boolean): boolean {
  return !(connection.secure && checksums);
}

export function openDigest(connection: S3Connection, checksums: boolean): PartDigest {
  const sha256 = signsParts(connection, checksums);
  return new PartDigest({ crc32: checksums, sha256, md5: !checksums });
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

export function partEtag(part: UploadPart): string {
  return part.tag.split(' ')[0] ?? '';
}

/** Ceph RGW answers `NoSuchKey` to ListParts, and Swift to the abort of a completed upload. */
function saysUnknown(error: unknown): boolean {
  if (codeOf(error) === 'destination.upload_lost') return true;
  const cause = error instanceof SluiceError ? error.cause : undefined;
  return cause instanceof StoreError && cause.name === 'NoSuchKey';
}

export function completion(
  upload: UploadRef,
  parts: readonly UploadPart[],
  condition: PutCondition,
): StoreRequest {
  const listed = parts.map((part) => {
    const [etag = '', checksum] = part.tag.split(' ');
    const sum =
      checksum === undefined ? '' : `<ChecksumCRC32>${escapeXml(checksum)}</ChecksumCRC32>`;
    return `<Part><ETag>${escapeXml(etag)}</ETag>${sum}<PartNumber>${part.number}</PartNumber></Part>`;
  });
  const body = `<CompleteMultipartUpload xmlns="${xmlns}">${listed.join('')}</CompleteMultipartUpload>`;
  return {
    ...{ method: 'POST', key: upload.key, query: { uploadId: splitId(upload)[1] } },
    headers: { 'content-type': 'application/xml', ...conditionHeaders(condition) },
    body: Buffer.from(body),
  };
}

const xmlns = 'http://s3.amazonaws.com/doc/2006-03-01/';

function splitId({ uploadId }: UploadRef): readonly [mark: string, id: string] {
  const dot = uploadId.indexOf('.');
  return [uploadId.slice(0, Math.max(dot, 0)), uploadId.slice(dot + 1)];
}

interface WholeUpload extends CompleteOptions {
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
 * Completes an upload and checks that the object is whole. If the answer was lost: an upload that no
 * longer exists while its object does was completed by us.
 *
 * @returns the object's ETag
 * @throws SluiceError `destination.conflict` if the key does not have what `whole.replaces` says; `run.lease_lost`
 */
export async function completeUpload(whole: WholeUpload): Promise<string> {
  const { connection, upload, parts, signal } = whole;
  try {
    const { given, key } = await sendCompletion(whole);
    // Then the store names exactly this object and the bytes that were sent.
    const isProven = whole.areDigests && given === digestOf(parts) && key === upload.key;
    return isProven ? given : await checkObject(whole, given);
  } catch (caught) {
    const error = await findLoss(whole, caught);
    const code = codeOf(error);
    const inDoubt = code === 'destination.upload_lost' || code === 'destination.conflict';
    const isGuarded = completionCondition(whole.replaces, connection.traits) !== null;
    if (isGuarded && isNotImplemented(error)) return completeUnguarded(whole);
    const head = inDoubt ? await headOrNothing(connection, upload.key, signal) : null;
    if (head === 'not allowed') throw error;
    if (isGuarded && code === 'destination.conflict' && !isCollision(error)) {
      if (isSameTag(head?.ETag ?? null, whole.replaces ?? null)) {
        // A proxy may have made the answer up.
        return whole.isSecond
          ? completeUnguarded(whole)
          : completeUpload({ ...whole, isSecond: true });
      }
    }
    if (head === null) throw error;
    if (!isOwnObject(upload, head.Metadata) || !head.ETag) throw error;
    checkSize(head.ContentLength, bytesOf(parts));
    return head.ETag;
  }
}

/** Checks the object after its completion. @param given its tag; '' for none, as Ceph RGW 16 does @returns it as it is shown */
async function checkObject(
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

/** @returns what the store names: the tag, which may be empty, and the key */
function sendCompletion({
  connection,
  upload,
  parts,
  replaces,
  lease,
  signal,
}: WholeUpload): Promise<{ readonly given: string; readonly key: string | undefined }> {
  const withLease = guardedBy(lease);
  return connection.request(async (client, send) => {
    const condition = completionCondition(replaces, connection.traits);
    const request = completion(upload, parts, condition);
    const texts = textsOf(await client.send(request, await withLease(send)));
    const [etag, key] = [texts.get('ETag'), texts.get('Key')];
    checkLength('the ETag of a completed upload', etag);
    // A store that fails after it began to answer sends status 200 without a result.
    if (!etag && !key) {
      const detail = 'the store answered the completion without a result';
      throw new SluiceError('destination.unavailable', detail);
    }
    return { given: etag ?? '', key };
  }, signal);
}

/** Completes again without a condition that the store refuses wrongly: else the conflict returned for ever. */
async function completeUnguarded({ replaces, ...rest }: WholeUpload): Promise<string> {
  const { connection } = rest;
  const lacking = replaces === null ? 'completeIfNoneMatch' : 'completeIfMatch';
  if (connection.traits) connection.traits = { ...connection.traits, [lacking]: false };
  connection.doubt();
  return completeUpload(rest);
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
