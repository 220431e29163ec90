import { type Handler, isoTime, requireBucket } from './context.ts';
import { S3Error } from './errors.ts';
import { wholeNumber } from './objects.ts';
import { parameter, type S3Request } from './request.ts';
import { compareKeys, type StoredObject, type StoredUpload } from './storage.ts';
import { element, resultDocument, type Xml } from './xml.ts';

/** How keys are written in a listing: as they are, or encoded as `encoding-type=url` asks. */
function keyWriter(request: S3Request): (key: string) => string {
  const encoding = parameter(request, 'encoding-type');
  if (encoding === undefined) return (key) => key;
  if (encoding !== 'url') {
    throw new S3Error('InvalidArgument', {
      message: 'Invalid Encoding Method specified in Request',
      details: { ArgumentName: 'encoding-type', ArgumentValue: encoding },
    });
  }
  return (key) =>
    encodeURIComponent(key)
      .replace(/[!'()~]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`)
      .replaceAll('%20', '+')
      .replaceAll('%2F', '/');
}

const optional = (name: string, value: string | undefined): Xml[] =>
  value === undefined ? [] : [element(name, value)];

interface Page<T> {
  items: readonly T[];
  /** The key that ended the page; null if nothing is left. */
  last: string | null;
}

/** Cuts one page out of entries in order. */
function cutPage<T extends { key: string }>(
  entries: readonly T[],
  options: { prefix: string; isAfter: (entry: T) => boolean; max: number },
): Page<T> {
  const left = entries.filter(
    (entry) => entry.key.startsWith(options.prefix) && options.isAfter(entry),
  );
  const items = left.slice(0, options.max);
  return { items, last: items.length < left.length ? (items.at(-1)?.key ?? null) : null };
}

function readContinuation(request: S3Request): string | undefined {
  const token = parameter(request, 'continuation-token');
  if (token === undefined) return undefined;
  const key = /^1[\w-]+$/.test(token) ? Buffer.from(token.slice(1), 'base64url').toString() : '';
  if (key === '') {
    throw new S3Error('InvalidArgument', {
      message: 'The continuation token provided is incorrect',
      details: { ArgumentName: 'continuation-token' },
    });
  }
  return key;
}

export const listObjects: Handler = (context) => {
  const { request } = context;
  const bucket = requireBucket(context);
  const write = keyWriter(request);
  const prefix = parameter(request, 'prefix') ?? '';
  const max = wholeNumber(request, 'max-keys', { fallback: 1000, minimum: 1, maximum: 1000 });
  const continuation = readContinuation(request);
  const startAfter = parameter(request, 'start-after');
  const after = continuation ?? startAfter ?? '';
  const entries = [...bucket.objects.values()].sort((a, b) => compareKeys(a.key, b.key));
  const isAfter = ({ key }: StoredObject): boolean => after === '' || compareKeys(key, after) > 0;
  const page = cutPage(entries, { prefix, isAfter, max });
  const token = page.last === null ? undefined : `1${Buffer.from(page.last).toString('base64url')}`;
  return {
    status: 200,
    body: resultDocument('ListBucketResult', [
      element('Name', bucket.name),
      element('Prefix', write(prefix)),
      element('MaxKeys', max),
      element('KeyCount', page.items.length),
      element('IsTruncated', page.last !== null),
      ...optional('EncodingType', parameter(request, 'encoding-type')),
      ...optional('StartAfter', startAfter === undefined ? undefined : write(startAfter)),
      ...optional('ContinuationToken', parameter(request, 'continuation-token')),
      ...optional('NextContinuationToken', token),
      ...page.items.map((object) =>
        element('Contents', [
          element('Key', write(object.key)),
          element('LastModified', isoTime(object.modifiedAt)),
          element('ETag', object.etag),
          element('Size', object.bytes),
          element('StorageClass', object.headers['x-amz-storage-class'] ?? 'STANDARD'),
        ]),
      ),
    ]),
  };
};

export const listMultipartUploads: Handler = (context) => {
  const { request } = context;
  const bucket = requireBucket(context);
  if (context.quirks.listUploads === 'refuse') throw new S3Error('NotImplemented');
  const write = keyWriter(request);
  const prefix = parameter(request, 'prefix') ?? '';
  const after = parameter(request, 'key-marker') ?? '';
  const idMarker = after === '' ? '' : (parameter(request, 'upload-id-marker') ?? '');
  const max = wholeNumber(request, 'max-uploads', { fallback: 1000, minimum: 1, maximum: 1000 });
  const order = (a: StoredUpload, b: StoredUpload): number =>
    compareKeys(a.key, b.key) ||
    a.initiatedAt - b.initiatedAt ||
    compareKeys(a.uploadId, b.uploadId);
  const entries = [...bucket.uploads.values()].sort(order);
  const marked = entries.findIndex(({ key, uploadId }) => key === after && uploadId === idMarker);
  const isAfter = (upload: StoredUpload): boolean => {
    if (after === '') return true;
    if (upload.key === after && marked >= 0) return entries.indexOf(upload) > marked;
    return compareKeys(upload.key, after) > 0;
  };
  const page = cutPage(entries, { prefix, isAfter, max });
  const lastUpload = page.items.at(-1);
  return {
    status: 200,
    body: resultDocument('ListMultipartUploadsResult', [
      element('Bucket', bucket.name),
      element('KeyMarker', write(after)),
      element('UploadIdMarker', idMarker),
      ...(page.last === null
        ? []
        : [
            element('NextKeyMarker', write(page.last)),
            element('NextUploadIdMarker', lastUpload?.key === page.last ? lastUpload.uploadId : ''),
          ]),
      element('Prefix', write(prefix)),
      ...optional('EncodingType', parameter(request, 'encoding-type')),
      element('MaxUploads', max),
      element('IsTruncated', page.last !== null),
      ...page.items.map((upload) =>
        element('Upload', [
          element('Key', write(upload.key)),
          element('UploadId', upload.uploadId),
          element('StorageClass', 'STANDARD'),
          element('Initiated', isoTime(upload.initiatedAt)),
        ]),
      ),
    ]),
  };
};
