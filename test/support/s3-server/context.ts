import type { VerifiedBody } from './body.ts';
import { S3Error } from './errors.ts';
import type { S3Quirks } from './quirks.ts';
import type { Recorder } from './recorder.ts';
import type { S3Request } from './request.ts';
import type { Bucket } from './storage.ts';

export interface S3Limits {
  /** Minimum bytes of every part but the last; S3's own rule is 5 MiB. */
  minPartBytes: number;
  /** Highest part number; S3's own rule is 10,000. */
  maxParts: number;
}

/** What a handler may use. */
export interface Context {
  request: S3Request;
  region: string;
  endpoint: string;
  limits: S3Limits;
  /** Ids of KMS keys that exist; undefined: any id is taken. */
  kmsKeys: readonly string[] | undefined;
  buckets: Map<string, Bucket>;
  quirks: S3Quirks;
  recorder: Recorder;
  now: () => number;
  readBody: () => Promise<VerifiedBody>;
  /** The body as text. Its x-amz-checksum-* headers speak about the object, not about the document. */
  readXmlBody: () => Promise<string>;
}

export interface S3Response {
  status: number;
  headers?: Record<string, string | undefined>;
  /** Text is XML. */
  body?: string | readonly Buffer[];
}

export type Handler = (context: Context) => Promise<S3Response> | S3Response;

/** The bucket of the request: NoSuchBucket, or PermanentRedirect if it is in another region. */
export function requireBucket({ request, buckets, region }: Context): Bucket {
  const bucket = buckets.get(request.bucket ?? '');
  if (!bucket) {
    throw new S3Error('NoSuchBucket', { details: { BucketName: request.bucket ?? '' } });
  }
  if (bucket.region !== region) {
    throw new S3Error('PermanentRedirect', {
      details: {
        Endpoint: `${bucket.name}.s3.${bucket.region}.amazonaws.com`,
        Bucket: bucket.name,
      },
      headers: { 'x-amz-bucket-region': bucket.region },
    });
  }
  return bucket;
}

export function requireKey({ request }: Context): string {
  if (request.key === undefined) throw new S3Error('MethodNotAllowed');
  const size = Buffer.byteLength(request.key);
  if (size > 1024) {
    throw new S3Error('KeyTooLongError', {
      details: { Size: String(size), MaxSizeAllowed: '1024' },
    });
  }
  return request.key;
}

export const isoTime = (ms: number): string => new Date(ms).toISOString();
export const httpTime = (ms: number): string => new Date(ms).toUTCString();
