import { encryptionHeaders, etagOf, readAttributes } from './attributes.ts';
import { beginConditionalWrite, checkDeleteCondition, checkReadConditions } from './conditions.ts';
import { type Context, type Handler, httpTime, requireBucket, requireKey } from './context.ts';
import { S3Error } from './errors.ts';
import { requireChecksum } from './quirks.ts';
import { parameter, type S3Request } from './request.ts';
import type { StoredObject } from './storage.ts';

export const putObject: Handler = async (context) => {
  const { request } = context;
  const bucket = requireBucket(context);
  const key = requireKey(context);
  requireChecksum(request, context.quirks);
  const attributes = readAttributes(context);
  const checkCondition = beginConditionalWrite(request, bucket, key, context.quirks);
  const body = await context.readBody();
  checkCondition();
  const object: StoredObject = {
    ...attributes,
    key,
    etag: etagOf(body.md5, attributes.encryption),
    bytes: body.bytes,
    chunks: body.chunks,
    crc32: body.crc32,
    parts: undefined,
    modifiedAt: context.now(),
  };
  bucket.objects.set(key, object);
  context.recorder.wrote(bucket, object, 'put');
  return {
    status: 200,
    headers: {
      etag: object.etag,
      ...encryptionHeaders(object.encryption),
      'x-amz-checksum-crc32': object.crc32,
    },
  };
};

interface Range {
  start: number;
  /** Exclusive. */
  end: number;
}

/** One byte range; anything else in the header is ignored, as S3 does. */
function readRange(request: S3Request, bytes: number): Range | null {
  const match = /^bytes=(\d*)-(\d*)$/.exec(request.headers.range ?? '');
  if (!match || (match[1] === '' && match[2] === '')) return null;
  const [, first, last] = match;
  const start = first === '' ? Math.max(0, bytes - Number(last)) : Number(first);
  const end = first === '' || last === '' ? bytes : Math.min(bytes, Number(last) + 1);
  if (first !== '' && last !== '' && Number(last) < Number(first)) return null;
  if (start >= bytes) {
    throw new S3Error('InvalidRange', {
      details: { RangeRequested: request.headers.range ?? '', ActualObjectSize: String(bytes) },
    });
  }
  return { start, end };
}

function slice(chunks: readonly Buffer[], { start, end }: Range): Buffer[] {
  const wanted: Buffer[] = [];
  let offset = 0;
  for (const chunk of chunks) {
    const from = Math.max(start - offset, 0);
    const to = Math.min(end - offset, chunk.length);
    if (from < to) wanted.push(chunk.subarray(from, to));
    offset += chunk.length;
  }
  return wanted;
}

function requireObject(context: Context): StoredObject {
  const bucket = requireBucket(context);
  const key = requireKey(context);
  const object = bucket.objects.get(key);
  if (!object) throw new S3Error('NoSuchKey', { details: { Key: key } });
  checkReadConditions(context.request, object);
  return object;
}

/** GetObject and HeadObject: the writer leaves a HEAD's body out. */
export const getObject: Handler = (context) => {
  const { request } = context;
  const object = requireObject(context);
  if (object.broken && request.method === 'GET') throw new S3Error('BrokenMPU');
  const range = readRange(request, object.bytes);
  const overrides = Object.fromEntries(
    request.query
      .filter(([name]) => name.startsWith('response-'))
      .map(([name, value]) => [name.slice('response-'.length), value]),
  );
  return {
    status: range ? 206 : 200,
    headers: {
      ...object.headers,
      ...overrides,
      etag: object.etag,
      'last-modified': httpTime(object.modifiedAt),
      'accept-ranges': 'bytes',
      'content-length': String(range ? range.end - range.start : object.bytes),
      'content-range': range ? `bytes ${range.start}-${range.end - 1}/${object.bytes}` : undefined,
      ...encryptionHeaders(object.encryption),
    },
    body: range ? slice(object.chunks, range) : object.chunks,
  };
};

export const deleteObject: Handler = (context) => {
  const bucket = requireBucket(context);
  const key = requireKey(context);
  checkDeleteCondition(context.request, bucket.objects.get(key));
  bucket.delete(key);
  context.recorder.deleted(bucket, key);
  return { status: 204 };
};

/** The value of a whole-number parameter within bounds; InvalidArgument outside of them. */
export function wholeNumber(
  request: S3Request,
  name: string,
  { fallback, minimum, maximum }: { fallback: number; minimum: number; maximum: number },
): number {
  const text = parameter(request, name);
  if (text === undefined || text === '') return fallback;
  const value = Number(text);
  if (!/^\d+$/.test(text) || value < minimum || value > 2 ** 31 - 1) {
    throw new S3Error('InvalidArgument', {
      message: `Provided ${name} not an integer or within integer range`,
      details: { ArgumentName: name, ArgumentValue: text },
    });
  }
  return Math.min(value, maximum);
}

export const headBucket: Handler = (context) => {
  const bucket = requireBucket(context);
  return { status: 200, headers: { 'x-amz-bucket-region': bucket.region } };
};
