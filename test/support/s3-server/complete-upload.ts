import { createHash } from 'node:crypto';
import { encryptionHeaders, etagOf } from './attributes.ts';
import { type ChecksumName, checksumNames, digestOf } from './checksums.ts';
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
  checksums: Map<ChecksumName, string>;
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
    const checksums = new Map<ChecksumName, string>();
    for (const name of checksumNames) {
      const value = childText(part, `Checksum${name.toUpperCase()}`);
      if (value !== undefined) checksums.set(name, value);
    }
    return { partNumber: Number(partNumber), etag: unquoted(etag), checksums };
  });
}

/** A store that reads no checksums may not recognise a part that names one. */
function keepKnownParts({ quirks }: Context, listed: ListedPart[]): ListedPart[] {
  if (quirks.checksums !== 'drop-parts') return listed;
  const known = listed.filter(({ checksums }) => checksums.size === 0);
  if (known.length === 0) throw new S3Error('InvalidRequest', { message: 'There are no parts.' });
  return known;
}

function checkPartChecksums(upload: StoredUpload, listed: ListedPart, part: StoredPart): boolean {
  const { checksumName } = upload;
  if (checksumName && !listed.checksums.has(checksumName)) {
    throw new S3Error('InvalidRequest', {
      message: `The upload was created using a ${checksumName} checksum. The complete request must include the checksum for each part. It was missing for part ${listed.partNumber} in the request.`,
    });
  }
  return [...listed.checksums].every(
    ([name, value]) => part.checksum?.name === name && part.checksum.value === value,
  );
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
    if (!part || unquoted(part.etag) !== entry.etag || !checkPartChecksums(upload, entry, part)) {
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

function wholeChecksum(
  { checksumName: name }: StoredUpload,
  parts: readonly StoredPart[],
): StoredObject['checksum'] {
  if (!name) return undefined;
  const digests = parts.map((part) => Buffer.from(part.checksum?.value ?? '', 'base64'));
  return { name, type: 'COMPOSITE', value: `${digestOf(name, digests)}-${parts.length}` };
}

/** What the request says about the whole: x-amz-checksum-* and x-amz-mp-object-size. */
function checkWhole({ request }: Context, object: StoredObject): void {
  const size = request.headers['x-amz-mp-object-size'];
  if (size !== undefined && Number(size) !== object.bytes) {
    throw new S3Error('InvalidRequest', {
      message: `The provided 'x-amz-mp-object-size' header does not match what was computed.`,
    });
  }
  for (const name of checksumNames) {
    const given = request.headers[`x-amz-checksum-${name}`];
    if (given === undefined) continue;
    const { checksum } = object;
    const computed = checksum?.name === name ? checksum.value : undefined;
    // A composite checksum may be given without its number of parts.
    if (given !== computed && given !== computed?.replace(/-\d+$/, '')) {
      throw new S3Error('BadDigest', {
        message: `The ${name.toUpperCase()} you specified did not match the calculated checksum.`,
      });
    }
  }
}

function answer(
  context: Context,
  bucket: Bucket,
  object: StoredObject,
  turn: 'first' | 'again',
): S3Response {
  const checksum = object.checksum;
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
      ...(checksum
        ? [
            element(`Checksum${checksum.name.toUpperCase()}`, checksum.value),
            element('ChecksumType', checksum.type),
          ]
        : []),
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
    checksum: wholeChecksum(upload, parts),
    parts: parts.length,
    uploadId: upload.uploadId,
    modifiedAt: context.now(),
  };
  checkWhole(context, object);
  checkCondition();
  bucket.objects.set(key, object);
  context.recorder.wrote(bucket, object, 'complete');
  bucket.uploads.delete(upload.uploadId);
  bucket.completed.set(upload.uploadId, { key, manifest, object: { ...object, chunks: [] } });
  return answer(context, bucket, object, 'first');
};
