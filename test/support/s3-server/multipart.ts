import { encryptionHeaders, etagOf, readAttributes } from './attributes.ts';
import { type Context, type Handler, isoTime, requireBucket, requireKey } from './context.ts';
import { S3Error, type S3ErrorCode } from './errors.ts';
import { wholeNumber } from './objects.ts';
import { requireChecksum } from './quirks.ts';
import { parameter } from './request.ts';
import { type Bucket, newUploadId, type StoredObject, type StoredUpload } from './storage.ts';
import { element, resultDocument } from './xml.ts';

/** The open upload that the request names; NoSuchUpload also if the key is another one. */
export function requireUpload(
  { request }: Context,
  bucket: Bucket,
  key: string,
  otherwise: S3ErrorCode = 'NoSuchUpload',
): StoredUpload {
  const uploadId = parameter(request, 'uploadId') ?? '';
  const upload = bucket.uploads.get(uploadId);
  if (upload?.key !== key) throw new S3Error(otherwise, { details: { UploadId: uploadId } });
  return upload;
}

/** The object that the request's upload became, while it is there. */
function findCompleted({ request }: Context, bucket: Bucket, key: string): StoredObject | null {
  const object = bucket.objects.get(key);
  const uploadId = parameter(request, 'uploadId');
  return object?.uploadId !== undefined && object.uploadId === uploadId ? object : null;
}

/** The object that a late part goes to at a store that takes one. */
function findLateTarget(context: Context, bucket: Bucket, key: string): StoredObject | null {
  return context.quirks.lateParts === 'take' ? findCompleted(context, bucket, key) : null;
}

/** Only a part with other bytes does harm. */
function takeLatePart(
  { recorder }: Context,
  bucket: Bucket,
  object: StoredObject,
  part: { readonly partNumber: number; readonly etag: string },
): void {
  const listed = bucket.completed.get(object.uploadId ?? '')?.manifest.split(',') ?? [];
  if (listed.includes(`${part.partNumber}:${part.etag.replaceAll('"', '')}`)) return;
  object.broken = true;
  recorder.wrote(bucket, object, 'complete');
}

function readsCrc32({ request, quirks }: Context): boolean {
  const name = request.headers['x-amz-checksum-algorithm']?.toLowerCase();
  if (quirks.checksums || name === undefined) return false;
  if (name === 'crc32') return true;
  throw new S3Error('InvalidRequest', { message: 'Checksum algorithm provided is unsupported.' });
}

export const createMultipartUpload: Handler = (context) => {
  const bucket = requireBucket(context);
  const key = requireKey(context);
  const upload: StoredUpload = {
    ...readAttributes(context),
    hasCrc32: readsCrc32(context),
    uploadId: newUploadId(),
    key,
    initiatedAt: context.now(),
    parts: new Map(),
  };
  bucket.uploads.set(upload.uploadId, upload);
  return {
    status: 200,
    headers: {
      ...encryptionHeaders(upload.encryption),
      ...(upload.hasCrc32 && {
        'x-amz-checksum-algorithm': 'CRC32',
        'x-amz-checksum-type': 'COMPOSITE',
      }),
    },
    body: resultDocument('InitiateMultipartUploadResult', [
      element('Bucket', bucket.name),
      element('Key', key),
      element('UploadId', upload.uploadId),
    ]),
  };
};

function readPartNumber({ request, limits }: Context): number {
  const text = parameter(request, 'partNumber') ?? '';
  const partNumber = Number(text);
  if (!/^\d+$/.test(text) || partNumber < 1 || partNumber > limits.maxParts) {
    throw new S3Error('InvalidArgument', {
      message: `Part number must be an integer between 1 and ${limits.maxParts}, inclusive`,
      details: { ArgumentName: 'partNumber', ArgumentValue: text },
    });
  }
  return partNumber;
}

export const uploadPart: Handler = async (context) => {
  const bucket = requireBucket(context);
  const key = requireKey(context);
  requireChecksum(context.request, context.quirks);
  const partNumber = readPartNumber(context);
  if (!findLateTarget(context, bucket, key)) requireUpload(context, bucket, key);
  const body = await context.readBody();
  const completed = findLateTarget(context, bucket, key);
  if (completed) {
    const etag = etagOf(body.md5, completed.encryption);
    takeLatePart(context, bucket, completed, { partNumber, etag });
    return { status: 200, headers: { etag } };
  }
  // The upload may have been completed or aborted while the bytes came in.
  const upload = requireUpload(context, bucket, key);
  if (upload.hasCrc32 && body.crc32 === undefined) {
    throw new S3Error('InvalidRequest', {
      message:
        'Checksum Type mismatch occurred, expected checksum Type: crc32, actual checksum Type: null',
    });
  }
  const etag = etagOf(body.md5, upload.encryption);
  upload.parts.set(partNumber, { ...body, partNumber, etag, modifiedAt: context.now() });
  return {
    status: 200,
    headers: { etag, ...encryptionHeaders(upload.encryption), 'x-amz-checksum-crc32': body.crc32 },
  };
};

export const abortMultipartUpload: Handler = (context) => {
  const bucket = requireBucket(context);
  const key = requireKey(context);
  const hidden =
    context.quirks.abortOfCompleted !== undefined && findCompleted(context, bucket, key) !== null;
  const upload = requireUpload(context, bucket, key, hidden ? 'NoSuchKey' : 'NoSuchUpload');
  bucket.uploads.delete(upload.uploadId);
  return { status: 204 };
};

export const listParts: Handler = (context) => {
  const { request, quirks } = context;
  const bucket = requireBucket(context);
  const otherwise = quirks.unknownUploads === 'fail' ? 'NoSuchKey' : 'NoSuchUpload';
  const upload = requireUpload(context, bucket, requireKey(context), otherwise);
  const max = wholeNumber(request, 'max-parts', { fallback: 1000, minimum: 0, maximum: 1000 });
  const marker = wholeNumber(request, 'part-number-marker', {
    fallback: 0,
    minimum: 0,
    maximum: Number.MAX_SAFE_INTEGER,
  });
  const after = [...upload.parts.values()]
    .filter(({ partNumber }) => partNumber > marker)
    .sort((a, b) => a.partNumber - b.partNumber);
  const page = after.slice(0, max);
  return {
    status: 200,
    body: resultDocument('ListPartsResult', [
      element('Bucket', bucket.name),
      element('Key', upload.key),
      element('UploadId', upload.uploadId),
      element('StorageClass', 'STANDARD'),
      element('PartNumberMarker', marker),
      element('NextPartNumberMarker', page.at(-1)?.partNumber ?? 0),
      element('MaxParts', max),
      element('IsTruncated', page.length < after.length),
      ...(upload.hasCrc32
        ? [element('ChecksumAlgorithm', 'CRC32'), element('ChecksumType', 'COMPOSITE')]
        : []),
      ...page.map((part) =>
        element('Part', [
          element('PartNumber', part.partNumber),
          element('LastModified', isoTime(part.modifiedAt)),
          element('ETag', part.etag),
          element('Size', part.bytes),
          ...(part.crc32 === undefined ? [] : [element('ChecksumCRC32', part.crc32)]),
        ]),
      ),
    ]),
  };
};
