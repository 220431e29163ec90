import { createHash } from 'node:crypto';
import { encryptionHeaders, etagOf } from './attributes.ts';
import { crc32Of } from './checksums.ts';
import { beginConditionalWrite } from './conditions.ts';
import {
  type Context,
  type Handler,
  requireBucket,
  requireKey,
  type S3Response,
} from './context.ts';
import { S3Error } from './errors.ts';
import { requireUpload } from './multipart.ts';
import { parameter } from './request.ts';
import type { Bucket, StoredObject, StoredPart, StoredUpload } from './storage.ts';
import { childText, element, parseXml, resultDocument } from './xml.ts';

interface ListedPart {
  partNumber: number;
  etag: string;
  crc32: string | undefined;
}

const unquoted = (etag: string): string => etag.replaceAll('"', '');

function readPartList(text: string, maxParts: number): ListedPart[] {
  const root = parseXml(text);
  const parts = root?.children.filter(({ name }) => name === 'Part') ?? [];
  if (root?.name !== 'CompleteMultipartUpload' || parts.length === 0 || parts.length > maxParts) {
    throw new S3Error('MalformedXML');
  }
  return parts.map((part) => {
    const partNumber = childText(part, 'PartNumber') ?? '';
    const etag = childText(part, 'ETag');
    if (!/^\d+$/.test(partNumber) || !etag) throw new S3Error('MalformedXML');
    const crc32 = childText(part, 'ChecksumCRC32');
    return { partNumber: Number(partNumber), etag: unquoted(etag), crc32 };
  });
}

/** A store that reads no checksums may not recognise a part that names one. */
function keepKnownParts({ quirks }: Context, listed: ListedPart[]): ListedPart[] {
  if (quirks.checksums !== 'drop-parts') return listed;
  const known = listed.filter(({ crc32 }) => crc32 === undefined);
  if (known.length === 0) throw new S3Error('InvalidRequest', { message: 'There are no parts.' });
  return known;
}

function checkCrc32(upload: StoredUpload, listed: ListedPart, part: StoredPart): boolean {
  if (upload.hasCrc32 && listed.crc32 === undefined) {
    throw new S3Error('InvalidRequest', {
      message: `The upload was created using a crc32 checksum. The complete request must include the checksum for each part. It was missing for part ${listed.partNumber} in the request.`,
    });
  }
  return listed.crc32 === undefined || listed.crc32 === part.crc32;
}

/** The stored parts that the list names, all rules checked. */
function pickParts(context: Context, upload: StoredUpload, listed: ListedPart[]): StoredPart[] {
  const details = { UploadId: upload.uploadId };
  listed.forEach(({ partNumber }, at) => {
    if (at > 0 && partNumber <= (listed[at - 1]?.partNumber ?? 0)) {
      throw new S3Error('InvalidPartOrder', { details });
    }
  });
  const parts = listed.map((entry) => {
    const part = upload.parts.get(entry.partNumber);
    if (!part || unquoted(part.etag) !== entry.etag || !checkCrc32(upload, entry, part)) {
      throw new S3Error('InvalidPart', {
        details: { ...details, PartNumber: String(entry.partNumber), ETag: entry.etag },
      });
    }
    return part;
  });
  const sizes = new Set(parts.slice(0, -1).map(({ bytes }) => bytes));
  if (context.quirks.parts === 'equal' && sizes.size > 1) {
    throw new S3Error('InvalidPart', {
      message: 'All non-trailing parts must have the same length.',
    });
  }
  const { minPartBytes } = context.limits;
  for (const part of parts.slice(0, -1)) {
    if (part.bytes < minPartBytes) {
      throw new S3Error('EntityTooSmall', {
        details: {
          ProposedSize: String(part.bytes),
          MinSizeAllowed: String(minPartBytes),
          PartNumber: String(part.partNumber),
          ETag: unquoted(part.etag),
        },
      });
    }
  }
  return parts;
}

function wholeCrc32({ hasCrc32 }: StoredUpload, parts: readonly StoredPart[]): string | undefined {
  if (!hasCrc32) return undefined;
  const digests = parts.map((part) => Buffer.from(part.crc32 ?? '', 'base64'));
  return `${crc32Of(digests)}-${parts.length}`;
}

function answer(
  context: Context,
  bucket: Bucket,
  object: StoredObject,
  turn: 'first' | 'again',
): S3Response {
  const shown =
    context.quirks.completionTag === 'empty' && (turn === 'first' ? '' : unquoted(object.etag));
  return {
    status: 200,
    headers: encryptionHeaders(object.encryption),
    body: resultDocument('CompleteMultipartUploadResult', [
      element('Location', `${context.endpoint}/${bucket.name}/${encodeURIComponent(object.key)}`),
      element('Bucket', bucket.name),
      element('Key', object.key),
      element('ETag', shown === false ? object.etag : shown),
      ...(object.crc32 === undefined
        ? []
        : [element('ChecksumCRC32', object.crc32), element('ChecksumType', 'COMPOSITE')]),
    ]),
  };
}

/** A list that was completed already is answered again as it was, so a client may retry. */
function repeatedAnswer(context: Context, bucket: Bucket, manifest: string): S3Response | null {
  const done = bucket.completed.get(parameter(context.request, 'uploadId') ?? '');
  const isSame = done?.key === context.request.key && done?.manifest === manifest;
  return done && isSame ? answer(context, bucket, done.object, 'again') : null;
}

export const completeMultipartUpload: Handler = async (context) => {
  const { request, limits } = context;
  const bucket = requireBucket(context);
  const key = requireKey(context);
  const checkCondition = beginConditionalWrite(request, bucket, key, context.quirks);
  const body = await context.readXmlBody();
  const listed = keepKnownParts(context, readPartList(body, limits.maxParts));
  const manifest = listed.map(({ partNumber, etag }) => `${partNumber}:${etag}`).join(',');
  const repeated = repeatedAnswer(context, bucket, manifest);
  if (repeated) return repeated;
  const otherwise = context.quirks.unknownUploads === 'fail' ? 'InternalError' : 'NoSuchUpload';
  const upload = requireUpload(context, bucket, key, otherwise);
  const parts = pickParts(context, upload, listed);
  const md5 = createHash('md5');
  for (const part of parts) md5.update(part.md5);
  const object: StoredObject = {
    key,
    headers: upload.headers,
    encryption: upload.encryption,
    etag: etagOf(md5.digest(), upload.encryption, `-${parts.length}`),
    bytes: parts.reduce((sum, part) => sum + part.bytes, 0),
    chunks: parts.flatMap((part) => part.chunks),
    crc32: wholeCrc32(upload, parts),
    parts: parts.length,
    uploadId: upload.uploadId,
    modifiedAt: context.now(),
  };
  checkCondition();
  bucket.objects.set(key, object);
  context.recorder.wrote(bucket, object, 'complete');
  bucket.uploads.delete(upload.uploadId);
  bucket.completed.set(upload.uploadId, { key, manifest, object: { ...object, chunks: [] } });
  return answer(context, bucket, object, 'first');
};
