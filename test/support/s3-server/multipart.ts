import { encryptionHeaders, etagOf, readAttributes } from './attributes.ts';
import { type ChecksumName, isChecksumName, isLinear } from './checksums.ts';
import { type Context, type Handler, isoTime, requireBucket, requireKey } from './context.ts';
import { S3Error } from './errors.ts';
import { wholeNumber } from './objects.ts';
import { parameter } from './request.ts';
import { type Bucket, newUploadId, type StoredUpload } from './storage.ts';
import { element, resultDocument } from './xml.ts';

/** The open upload that the request names; NoSuchUpload also where the key is another one. */
export function requireUpload({ request }: Context, bucket: Bucket, key: string): StoredUpload {
  const uploadId = parameter(request, 'uploadId') ?? '';
  const upload = bucket.uploads.get(uploadId);
  if (upload?.key !== key) throw new S3Error('NoSuchUpload', { details: { UploadId: uploadId } });
  return upload;
}

function readChecksumPlan({ request, quirks }: Context): {
  checksumName: ChecksumName | undefined;
  checksumType: 'FULL_OBJECT' | 'COMPOSITE';
} {
  if (quirks.checksums) return { checksumName: undefined, checksumType: 'COMPOSITE' };
  const name = request.headers['x-amz-checksum-algorithm']?.toLowerCase();
  const type = request.headers['x-amz-checksum-type']?.toUpperCase();
  if (name === undefined) return { checksumName: undefined, checksumType: 'COMPOSITE' };
  if (!isChecksumName(name)) {
    throw new S3Error('InvalidRequest', {
      message:
        'Checksum algorithm provided is unsupported. Please try again with any of the valid types: [CRC32, CRC32C, CRC64NVME, SHA1, SHA256]',
    });
  }
  const checksumType = type ?? (name === 'crc64nvme' ? 'FULL_OBJECT' : 'COMPOSITE');
  const possible = checksumType === 'FULL_OBJECT' ? isLinear(name) : name !== 'crc64nvme';
  if (!possible || (checksumType !== 'FULL_OBJECT' && checksumType !== 'COMPOSITE')) {
    throw new S3Error('InvalidRequest', {
      message: `The ${checksumType} checksum type cannot be used with the ${name} checksum algorithm.`,
    });
  }
  return { checksumName: name, checksumType };
}

export const createMultipartUpload: Handler = (context) => {
  const bucket = requireBucket(context);
  const key = requireKey(context);
  const upload: StoredUpload = {
    ...readAttributes(context),
    ...readChecksumPlan(context),
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
      'x-amz-checksum-algorithm': upload.checksumName?.toUpperCase(),
      'x-amz-checksum-type': upload.checksumName && upload.checksumType,
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
  const partNumber = readPartNumber(context);
  requireUpload(context, bucket, key);
  const body = await context.readBody();
  // The upload may have been completed or aborted while the bytes came in.
  const upload = requireUpload(context, bucket, key);
  if (body.bytes > context.limits.maxPutBytes) throw new S3Error('EntityTooLarge');
  const { checksumName } = upload;
  if (checksumName && body.checksum?.name !== checksumName) {
    throw new S3Error('InvalidRequest', {
      message: `Checksum Type mismatch occurred, expected checksum Type: ${checksumName}, actual checksum Type: ${body.checksum?.name ?? 'null'}`,
    });
  }
  const etag = etagOf(body.md5, upload.encryption);
  upload.parts.set(partNumber, { ...body, partNumber, etag, modifiedAt: context.now() });
  return {
    status: 200,
    headers: {
      etag,
      ...encryptionHeaders(upload.encryption),
      ...(body.checksum && { [`x-amz-checksum-${body.checksum.name}`]: body.checksum.value }),
    },
  };
};

export const abortMultipartUpload: Handler = (context) => {
  const bucket = requireBucket(context);
  const upload = requireUpload(context, bucket, requireKey(context));
  bucket.uploads.delete(upload.uploadId);
  return { status: 204 };
};

export const listParts: Handler = (context) => {
  const { request } = context;
  const bucket = requireBucket(context);
  const upload = requireUpload(context, bucket, requireKey(context));
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
      ...(upload.checksumName
        ? [
            element('ChecksumAlgorithm', upload.checksumName.toUpperCase()),
            element('ChecksumType', upload.checksumType),
          ]
        : []),
      ...page.map((part) =>
        element('Part', [
          element('PartNumber', part.partNumber),
          element('LastModified', isoTime(part.modifiedAt)),
          element('ETag', part.etag),
          element('Size', part.bytes),
          ...(part.checksum
            ? [element(`Checksum${part.checksum.name.toUpperCase()}`, part.checksum.value)]
            : []),
        ]),
      ),
    ]),
  };
};
