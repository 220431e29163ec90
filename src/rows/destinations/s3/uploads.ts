import { createHash, randomUUID } from 'node:crypto';
import { ListMultipartUploadsCommand, ListPartsCommand } from '@aws-sdk/client-s3';
import { type ErrorCode, SluiceError } from '../../../foundation/domain/errors.ts';
import type { FileOptions, OpenUpload, UploadPart, UploadRef } from '../destination.ts';
import { checkLength } from './answer.ts';
import { callDeadline } from './call-deadline.ts';
import { expectedOwner, fileHeaders, type S3Connection } from './client.ts';
import { conditionHeaders, type PutCondition } from './conditions.ts';
import { isNotImplemented, refusesChecksums, StoreError } from './errors.ts';
import { notAStore, usualAdvice } from './not-the-store.ts';
import { hasMark, metadataHeaders } from './object-metadata.ts';
import { compareKeys, keyOf, keysPerPage, nextOf, readPages } from './pages.ts';
import type { PartSums } from './part-digest.ts';
import { encodeHex } from './put-object.ts';
import type { SendOptions } from './request-handler.ts';
import { type StoreRequest, textsOf } from './store-client.ts';
import { escapeXml } from './xml.ts';

/**
 * The requests of a multipart upload. Our upload id is `<mark>+<checksums>+<headers>.<the store's
 * id>`. The mark is random and kept in the object's metadata. After a lost answer it shows whether the
 * object is this upload's. (An ETag cannot: with KMS it is not a digest, and equal bytes have equal
 * ETags.) `crc32` or `plain` is what the store accepted. Then follows a digest of the headers that an object
 * of the destination gets.
 */

/**
 * If an answer comes after the request was given up, the upload it names is aborted.
 *
 * @returns the upload; whether its parts have a CRC32 (only if the store said so: some refuse it, and
 *   some drop parts that have one); and whether the store was asked just once, so that there can be no
 *   other upload
 */
export async function createUpload(
  connection: S3Connection,
  options: FileOptions,
  signal: AbortSignal,
): Promise<{
  readonly upload: UploadRef;
  readonly checksums: boolean;
  readonly alone: boolean;
}> {
  const mark = randomUUID();
  let asked = 0;
  const onLateAnswer = (body: string) => {
    const id = /<UploadId>([^<]+)<\/UploadId>/.exec(body)?.[1];
    // If it cannot be aborted now, its note is enough to find it.
    if (id) abortUpload(connection, { key: options.key, uploadId: `.${id}` }).catch(() => {});
  };
  const create = (checksum: 'CRC32' | undefined) =>
    connection.request((client, { abortSignal }) => {
      asked += 1;
      const send: SendOptions = { ...(abortSignal ? { abortSignal } : {}), onLateAnswer };
      return client.send(
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
      );
    }, signal);
  const wanted = connection.traits?.checksums ?? true;
  const created = await create(wanted ? 'CRC32' : undefined).catch((error: unknown) => {
    if (!wanted || !refusesChecksums(error)) throw error;
    return create(undefined);
  });
  const id = textsOf(created).get('UploadId');
  if (!id) throw new SluiceError('destination.unavailable', 'the store gave no upload id');
  checkLength('the upload id', id);
  const checksums = wanted && created.headers['x-amz-checksum-algorithm'] === 'CRC32';
  const words = [mark, checksums ? 'crc32' : 'plain', headersWord(connection)];
  const uploadId = `${words.join('+')}.${id}`;
  return { upload: { key: options.key, uploadId }, checksums, alone: asked === 1 };
}

/**
 * Whether the parts of an upload must have checksums: a store that accepted the upload with checksums
 * refuses parts without. A store that accepted it without may drop parts that have one.
 */
export function takesChecksums({ uploadId }: UploadRef): boolean {
  return /^[0-9a-f-]+\+crc32\+/.test(uploadId);
}

/**
 * Whether an upload was begun with the encryption, access list, class and tags that the destination asks for now: a store
 * fixes them at the beginning.
 */
export function hasSameHeaders(connection: S3Connection, { uploadId }: UploadRef): boolean {
  const word = /^[0-9a-f-]+\+(?:crc32|plain)\+([0-9a-f]+)\./.exec(uploadId)?.[1];
  return word === headersWord(connection);
}

function headersWord(connection: S3Connection): string {
  const { ServerSideEncryption: kind = '', SSEKMSKeyId: key = '' } = connection.encryption;
  const { acl, storageClass, tags } = connection.asks;
  const others = [acl, storageClass, tags].filter((each) => each !== null);
  const asked = others.length === 0 ? '' : JSON.stringify([acl, storageClass, tags]);
  return createHash('sha256').update(`${kind} ${key}${asked}`).digest('hex').slice(0, 16);
}

/** Whether an object with this metadata was made by this upload. */
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
 * Whether a part's bytes are hashed for its signature. Over TLS a signed CRC32 header protects them
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
    const left = await listParts(connection, upload, deadline).catch(() => []);
    if (left.length === 0) return;
  }
}

/** Maximum pages of one list. A store may have smaller pages than we ask for. */
const maxPages = { parts: 200, uploads: 1_000 } as const;

/** More than a store gives an upload. */
const maxPartNumber = 10_000;

/**
 * The parts that the store has. Throws `destination.upload_lost` if it knows no such upload, and
 * `destination.invalid_answer` if the list has no end.
 */
export async function listParts(
  connection: S3Connection,
  upload: UploadRef,
  signal?: AbortSignal,
): Promise<readonly UploadPart[]> {
  const deadline = callDeadline(signal);
  const readPage = async (marker: string | null) => {
    const page = await listPage(connection, upload, marker, deadline).catch((error: unknown) => {
      if (saysUnknown(error)) {
        throw new SluiceError('destination.upload_lost', 'the store knows no such upload', error);
      }
      // A store that does not support ListParts treats the request as a GET of the object.
      if (!isNotImplemented(error) && codeOf(error) !== 'destination.conflict') throw error;
      throw new SluiceError('destination.upload_lost', 'the store does not list parts', error);
    });
    const items = (page.Parts ?? []).map((part) => ({
      number: part.PartNumber ?? 0,
      bytes: part.Size ?? 0,
      tag: part.ETag ?? '',
    }));
    return { items, next: nextOf('ListParts', page, page.NextPartNumberMarker) };
  };
  const isAfter = (next: string, before: string) => Number(next) > Number(before);
  const parts: UploadPart[] = [];
  for await (const part of readPages('ListParts', readPage, isAfter, maxPages.parts)) {
    if (parts.length === maxPartNumber) {
      const detail = `ListParts: more than ${maxPartNumber} parts`;
      throw new SluiceError('destination.invalid_answer', detail);
    }
    parts.push(part);
  }
  return parts;
}

function listPage(
  connection: S3Connection,
  upload: UploadRef,
  marker: string | null,
  signal: AbortSignal,
) {
  const from = marker === null ? {} : { PartNumberMarker: marker };
  return connection.request(
    (client, send) =>
      client.sdk.send(new ListPartsCommand({ ...uploadTarget(connection, upload), ...from }), send),
    signal,
  );
}

/** Whether the store reports, if asked for the parts, that it knows no such upload. */
export async function isUnknown(
  connection: S3Connection,
  upload: UploadRef,
  signal: AbortSignal,
): Promise<boolean> {
  return await listPage(connection, upload, null, signal).then(() => false, saysUnknown);
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
): AsyncIterable<OpenUpload> {
  interface Marker {
    readonly KeyMarker?: string;
    readonly UploadIdMarker?: string;
  }
  const deadline = callDeadline(signal);
  const readPage = async (marker: Marker | null) => {
    const page = await connection.request(
      (client, send) =>
        client.sdk.send(
          new ListMultipartUploadsCommand({
            Bucket: connection.bucket,
            Prefix: prefix,
            MaxUploads: keysPerPage,
            ...{ ...expectedOwner(connection), ...marker },
          }),
          send,
        ),
      deadline,
    );
    const items = (page.Uploads ?? []).map(
      ({ Key: key = '', UploadId: id = '', Initiated: at }) => ({
        key: keyOf(page, key),
        uploadId: `.${id}`,
        startedAt: at?.getTime() ?? null,
      }),
    );
    const next: Marker = {
      ...(page.NextKeyMarker ? { KeyMarker: keyOf(page, page.NextKeyMarker) } : {}),
      ...(page.NextUploadIdMarker ? { UploadIdMarker: page.NextUploadIdMarker } : {}),
    };
    const hasNext = next.KeyMarker !== undefined;
    return { items, next: nextOf('ListMultipartUploads', page, hasNext ? next : undefined) };
  };
  // Upload ids of one key come in the order of their beginning, which is not theirs.
  const isAfter = (next: Marker, before: Marker) =>
    compareKeys(next.KeyMarker ?? '', before.KeyMarker ?? '') >= 0;
  return readPages('ListMultipartUploads', readPage, isAfter, maxPages.uploads);
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

/** Bucket, key and the store's own id of an upload. */
function uploadTarget(connection: S3Connection, upload: UploadRef) {
  const target = { Bucket: connection.bucket, Key: upload.key, UploadId: splitId(upload)[1] };
  return { ...target, ...expectedOwner(connection) };
}

function splitId({ uploadId }: UploadRef): readonly [mark: string, id: string] {
  const dot = uploadId.indexOf('.');
  const [mark = ''] = uploadId.slice(0, Math.max(dot, 0)).split('+');
  return [mark, uploadId.slice(dot + 1)];
}
