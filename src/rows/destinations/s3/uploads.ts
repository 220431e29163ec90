import { randomUUID } from 'node:crypto';
import { type ErrorCode, SluiceError } from '../../../foundation/domain/errors.ts';
import { compareKeys } from '../../../foundation/domain/object-keys.ts';
import type { FileOptions, UploadRef } from '../destination.ts';
import { checkLength } from './answer.ts';
import { callDeadline } from './call-deadline.ts';
import { fileHeaders, type S3Connection } from './client.ts';
import { conditionHeaders, type PutCondition } from './conditions.ts';
import { refusesChecksums, StoreError } from './errors.ts';
import { notAStore, usualAdvice } from './not-the-store.ts';
import { hasMark, metadataHeaders } from './object-metadata.ts';
import { keyOf, keysPerPage, nextOf, readList, readPages } from './pages.ts';
import type { PartSums } from './part-digest.ts';
import { encodeHex } from './put-object.ts';
import { type StoreRequest, textsOf } from './store-client.ts';
import { childrenOf, escapeXml, textIn } from './xml.ts';

/**
 * The requests of a multipart upload. Our upload id is `<mark>.<the store's id>`. The mark is random and kept in the
 * object's metadata. After a lost answer it shows whether the object is this upload's. (An ETag cannot: with KMS it is
 * not a digest, and equal bytes have equal ETags.)
 */

/** A part that the store has. */
export interface UploadPart {
  readonly number: number;
  readonly bytes: number;
  readonly tag: string;
}

/**
 * @returns the upload, and whether its parts have a CRC32 (only if the store said so: some refuse it, and
 *   some drop parts that have one)
 */
export async function createUpload(
  connection: S3Connection,
  options: FileOptions,
  signal: AbortSignal,
): Promise<{
  readonly upload: UploadRef;
  readonly checksums: boolean;
}> {
  const mark = randomUUID();
  const create = (checksum: 'CRC32' | undefined) =>
    connection.request(
      (client, send) =>
        client.send(
          {
            ...{ method: 'POST', key: options.key, query: { uploads: '' } },
            headers: {
              'content-type': options.contentType,
              ...metadataHeaders(mark, options),
              'x-amz-checksum-algorithm': checksum,
              ...fileHeaders(connection),
            },
          },
          send,
        ),
      signal,
    );
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
        query: {
          partNumber: String(number),
          uploadId: splitId(upload)[1],
          'x-id': 'UploadPart',
        },
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

/**
 * Says whether a part's bytes are hashed for its signature. Over TLS a signed CRC32 header protects them
 * instead.
 */
export function signsParts(connection: S3Connection, checksums: boolean): boolean {
  return !(connection.secure && checksums);
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
      await connection.request(
        (client, send) =>
          client.send(
            {
              ...{ method: 'DELETE', key: upload.key },
              query: { uploadId: splitId(upload)[1], 'x-id': 'AbortMultipartUpload' },
            },
            send,
          ),
        deadline,
      );
    } catch (error) {
      if (saysUnknown(error)) return;
      throw error;
    }
    // A part in flight can outlive the abort (API reference of AbortMultipartUpload).
    const parts = await listPartsOf(connection, upload, deadline).catch(() => null);
    if (parts === null || childrenOf(parts, 'Part').length === 0) return;
  }
}

/** Maximum pages of one list. A store may have smaller pages than we ask for. */
const maxPages = 1_000;

/** The first parts of an upload. */
function listPartsOf(connection: S3Connection, upload: UploadRef, signal: AbortSignal) {
  const query = { uploadId: splitId(upload)[1], 'x-id': 'ListParts' };
  return readList(connection, query, signal, upload.key);
}

/** Says whether the store reports, if asked for the parts, that it knows no such upload. */
export async function isUnknown(
  connection: S3Connection,
  upload: UploadRef,
  signal: AbortSignal,
): Promise<boolean> {
  return await listPartsOf(connection, upload, signal).then(() => false, saysUnknown);
}

/**
 * The whole list has one deadline.
 *
 * @throws SluiceError `destination.invalid_answer` if the list has no end
 */
export function listUploads(
  connection: S3Connection,
  prefix: string,
  signal?: AbortSignal,
): AsyncIterable<UploadRef> {
  interface Marker {
    readonly 'key-marker': string;
    readonly 'upload-id-marker'?: string;
  }
  const deadline = callDeadline(signal);
  const readPage = async (marker: Marker | null) => {
    const query = { uploads: '', prefix, 'max-uploads': String(keysPerPage) };
    const page = await readList(connection, { ...query, ...marker }, deadline);
    const items = childrenOf(page, 'Upload').map((found) => ({
      key: keyOf(page, textIn(found, 'Key')),
      uploadId: `.${textIn(found, 'UploadId')}`,
    }));
    const [key, id] = [textIn(page, 'NextKeyMarker'), textIn(page, 'NextUploadIdMarker')];
    const next =
      key === ''
        ? undefined
        : {
            'key-marker': keyOf(page, key),
            ...(id !== '' && { 'upload-id-marker': id }),
          };
    return { items, next: nextOf<Marker>('ListMultipartUploads', page, next) };
  };
  // Upload ids of one key come in the order of their beginning, which is not theirs.
  const isAfter = (next: Marker, before: Marker) =>
    compareKeys(next['key-marker'], before['key-marker']) >= 0;
  return readPages('ListMultipartUploads', readPage, isAfter, maxPages);
}

/** The ETag within a part's tag. */
export function partEtag(part: UploadPart): string {
  return part.tag.split(' ')[0] ?? '';
}

/** Ceph RGW answers `NoSuchKey` to ListParts, and Swift to the abort of a completed upload. */
function saysUnknown(error: unknown): boolean {
  if (codeOf(error) === 'destination.upload_lost') return true;
  const cause = error instanceof SluiceError ? error.cause : undefined;
  return cause instanceof StoreError && cause.name === 'NoSuchKey';
}

/** The code of an error of ours, or null. */
export function codeOf(error: unknown): ErrorCode | null {
  return error instanceof SluiceError ? error.code : null;
}

/** The request that makes an upload's object of its parts. */
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
