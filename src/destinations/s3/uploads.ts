import { createHash, randomUUID } from 'node:crypto';
import {
  AbortMultipartUploadCommand,
  CreateMultipartUploadCommand,
  ListMultipartUploadsCommand,
  ListPartsCommand,
  UploadPartCommand,
} from '@aws-sdk/client-s3';
import { type ErrorCode, SluiceError } from '../../domain/errors.ts';
import type {
  FileOptions,
  OpenUpload,
  UploadPart,
  UploadProgress,
  UploadRef,
} from '../destination.ts';
import type { S3Connection } from './client.ts';
import { isNotImplemented, StoreError } from './errors.ts';
import type { PartSums } from './part-digest.ts';
import type { SendOptions } from './request-handler.ts';

/**
 * The requests of a multipart upload. Our upload id is `<mark>+<checksums>+<encryption>.<the store's id>`: the
 * mark, random, is kept in the object's metadata and says after a lost answer whether the object is
 * this upload's. (An ETag would not do: with KMS it is no digest, and equal bytes give an equal one.)
 * `crc32` or `plain` is what the store took the upload for, and then comes a digest of the encryption that
 * it was asked for; builds before had no such words.
 */

const markName = 'sluice-upload';
const ownerName = 'sluice-export';

/**
 * An answer that comes after the request was given up still names an upload: it is aborted then.
 *
 * @returns the upload; whether its parts carry a CRC32 (not every store takes one, and some that know
 * of none drop the parts of a list that names any; so only if the store said it will); and whether
 * the store was asked just once, so that there can be no other
 */
export async function createUpload(
  connection: S3Connection,
  options: FileOptions,
  signal?: AbortSignal,
): Promise<{
  readonly upload: UploadRef;
  readonly checksums: boolean;
  readonly alone: boolean;
}> {
  const mark = randomUUID();
  let asked = 0;
  const onLateAnswer = (body: string) => {
    const id = /<UploadId>([^<]+)<\/UploadId>/.exec(body)?.[1];
    // What cannot be aborted now is found by its note.
    if (id) abortUpload(connection, { key: options.key, uploadId: `.${id}` }).catch(() => {});
  };
  const create = (checksum: { readonly ChecksumAlgorithm?: 'CRC32' }) =>
    connection.request((client, { abortSignal }) => {
      asked += 1;
      const send: SendOptions = { ...(abortSignal ? { abortSignal } : {}), onLateAnswer };
      return client.send(
        new CreateMultipartUploadCommand({
          Bucket: connection.bucket,
          Key: options.key,
          ContentType: options.contentType,
          Metadata: {
            [markName]: mark,
            ...(options.owner === undefined ? {} : { [ownerName]: options.owner }),
          },
          ...checksum,
          ...connection.encryption,
        }),
        send,
      );
    }, signal);
  const wanted = connection.traits?.checksums ?? true;
  const created = await create(wanted ? { ChecksumAlgorithm: 'CRC32' } : {}).catch(
    (error: unknown) => {
      if (!wanted || !refusesChecksums(error)) throw error;
      return create({});
    },
  );
  const { UploadId: id } = created;
  if (!id) throw new SluiceError('destination.unavailable', 'the store gave no upload id');
  const checksums = wanted && created.ChecksumAlgorithm === 'CRC32';
  const words = [mark, checksums ? 'crc32' : 'plain', encryptionWord(connection)];
  const uploadId = `${words.join('+')}.${id}`;
  return { upload: { key: options.key, uploadId }, checksums, alone: asked === 1 };
}

/**
 * Whether the parts of an upload must carry checksums: a store that took it with them refuses parts
 * without, and one that took it without may drop parts that have them.
 *
 * @returns null if it cannot be known: an upload of an older build, before its first part
 */
export function takesChecksums({ uploadId, parts }: UploadProgress): boolean | null {
  const word = /^[0-9a-f-]+\+(crc32|plain)(?:\+[0-9a-f]+)?\./.exec(uploadId)?.[1];
  if (word !== undefined) return word === 'crc32';
  return parts.length === 0 ? null : parts.every((part) => part.tag.includes(' '));
}

/**
 * Whether an upload was begun with the encryption that the destination asks for now: a store keeps it
 * from the beginning. An upload of an older build says nothing; it will do if nothing is asked for.
 */
export function hasSameEncryption(connection: S3Connection, { uploadId }: UploadRef): boolean {
  const word = /^[0-9a-f-]+\+(?:crc32|plain)\+([0-9a-f]+)\./.exec(uploadId)?.[1];
  if (word === undefined) return connection.encryption.ServerSideEncryption === undefined;
  return word === encryptionWord(connection);
}

function encryptionWord({ encryption }: S3Connection): string {
  const { ServerSideEncryption: kind = '', SSEKMSKeyId: key = '' } = encryption;
  return createHash('sha256').update(`${kind} ${key}`).digest('hex').slice(0, 16);
}

/** Whether an object with this metadata was made by this upload. */
export function isOwnObject(
  upload: UploadRef,
  metadata: Readonly<Record<string, string>> | undefined,
): boolean {
  const [mark] = splitId(upload);
  return mark !== '' && metadata?.[markName] === mark;
}

/** The export that made an object; null if it does not say: an earlier build's, or not ours. */
export function ownerOf(metadata: Readonly<Record<string, string>> | undefined): string | null {
  return metadata?.[ownerName] ?? null;
}

function refusesChecksums(error: unknown): boolean {
  if (!(error instanceof SluiceError)) return false;
  return isNotImplemented(error) || /checksum/i.test(error.detail ?? '');
}

export async function uploadPart(
  connection: S3Connection,
  upload: UploadRef,
  number: number,
  body: Uint8Array,
  { crc32, sha256 }: PartSums,
  signal: AbortSignal,
): Promise<UploadPart> {
  const { ETag: etag } = await connection.request((client, send) => {
    const command = new UploadPartCommand({
      ...uploadTarget(connection, upload),
      PartNumber: number,
      Body: body,
      ContentLength: body.length,
      ...(crc32 === null ? {} : { ChecksumCRC32: crc32 }),
    });
    signAs(command, sha256 ?? 'UNSIGNED-PAYLOAD');
    return client.send(command, send);
  }, signal);
  if (!etag) throw new SluiceError('destination.unavailable', 'the store gave no ETag of a part');
  return { number, bytes: body.length, tag: crc32 === null ? etag : `${etag} ${crc32}` };
}

/**
 * Whether a part's bytes are hashed for its signature: not over TLS where a CRC32, whose header is
 * signed, guards them.
 */
export function signsParts(connection: S3Connection, checksums: boolean): boolean {
  return !(connection.secure && checksums);
}

/** The signer takes this header for the hash of the body, and does not make it again. */
function signAs(command: UploadPartCommand, payloadHash: string): void {
  command.middlewareStack.add(
    (next) => async (args) => {
      const request = args.request as { headers: Record<string, string> };
      request.headers['x-amz-content-sha256'] = payloadHash;
      return next(args);
    },
    { step: 'build', name: 'signAs' },
  );
}

/** Also of an upload that is unknown, and until parts that were on their way are gone too. */
export async function abortUpload(connection: S3Connection, upload: UploadRef): Promise<void> {
  for (let round = 0; round < 3; round += 1) {
    try {
      await connection.request((client, send) =>
        client.send(new AbortMultipartUploadCommand(uploadTarget(connection, upload)), send),
      );
    } catch (error) {
      if (saysUnknown(error)) return;
      throw error;
    }
    // A part in flight can outlive the abort (API reference of AbortMultipartUpload).
    const left = await listParts(connection, upload).catch(() => []);
    if (left.length === 0) return;
  }
}

/** The parts that the store holds. Throws `destination.upload_lost` where it knows no such upload. */
export async function listParts(
  connection: S3Connection,
  upload: UploadRef,
): Promise<readonly UploadPart[]> {
  const parts: UploadPart[] = [];
  let marker: string | undefined;
  do {
    const page = await listPage(connection, upload, marker).catch((error: unknown) => {
      if (saysUnknown(error)) {
        throw new SluiceError('destination.upload_lost', 'the store knows no such upload', error);
      }
      // A store that does not list parts takes the request for a GET of the object.
      if (!isNotImplemented(error) && codeOf(error) !== 'destination.conflict') throw error;
      throw new SluiceError('destination.upload_lost', 'the store does not list parts', error);
    });
    for (const part of page.Parts ?? []) {
      parts.push({ number: part.PartNumber ?? 0, bytes: part.Size ?? 0, tag: part.ETag ?? '' });
    }
    marker = page.IsTruncated ? page.NextPartNumberMarker : undefined;
  } while (marker !== undefined);
  return parts;
}

function listPage(connection: S3Connection, upload: UploadRef, marker?: string) {
  const from = marker === undefined ? {} : { PartNumberMarker: marker };
  return connection.request((client, send) =>
    client.send(new ListPartsCommand({ ...uploadTarget(connection, upload), ...from }), send),
  );
}

/** Whether the store says, when it is asked for the parts, that it knows no such upload. */
export async function isUnknown(connection: S3Connection, upload: UploadRef): Promise<boolean> {
  return await listPage(connection, upload).then(() => false, saysUnknown);
}

export async function* listUploads(
  connection: S3Connection,
  prefix: string,
): AsyncGenerator<OpenUpload> {
  let from: { KeyMarker?: string; UploadIdMarker?: string } | null = {};
  while (from !== null) {
    const markers: { KeyMarker?: string; UploadIdMarker?: string } = from;
    const page = await connection.request((client, send) =>
      client.send(
        new ListMultipartUploadsCommand({
          Bucket: connection.bucket,
          Prefix: prefix,
          ...markers,
        }),
        send,
      ),
    );
    for (const { Key: key = '', UploadId: id = '', Initiated: at } of page.Uploads ?? []) {
      yield { key, uploadId: `.${id}`, startedAt: at?.getTime() ?? null };
    }
    from = page.IsTruncated
      ? {
          ...(page.NextKeyMarker ? { KeyMarker: page.NextKeyMarker } : {}),
          ...(page.NextUploadIdMarker ? { UploadIdMarker: page.NextUploadIdMarker } : {}),
        }
      : null;
  }
}

/** The ETag within a part's tag. */
export function partEtag(part: UploadPart): string {
  return part.tag.split(' ')[0] ?? '';
}

/** `NoSuchKey` is Ceph RGW's answer to ListParts, and Swift's to the abort of a completed upload. */
function saysUnknown(error: unknown): boolean {
  if (codeOf(error) === 'destination.upload_lost') return true;
  const cause = error instanceof SluiceError ? error.cause : undefined;
  return cause instanceof StoreError && cause.name === 'NoSuchKey';
}

/** The code of an error of ours, or null. */
export function codeOf(error: unknown): ErrorCode | null {
  return error instanceof SluiceError ? error.code : null;
}

/** Bucket, key and the store's own id of an upload. */
export function uploadTarget(connection: S3Connection, upload: UploadRef) {
  return { Bucket: connection.bucket, Key: upload.key, UploadId: splitId(upload)[1] };
}

function splitId({ uploadId }: UploadRef): readonly [mark: string, id: string] {
  const dot = uploadId.indexOf('.');
  const [mark = ''] = uploadId.slice(0, Math.max(dot, 0)).split('+');
  return [mark, uploadId.slice(dot + 1)];
}
