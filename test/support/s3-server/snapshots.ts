import { type Bucket, compareKeys } from './storage.ts';

/** An object as it is now; a later write does not change it. */
export interface ObjectSnapshot {
  key: string;
  bytes: number;
  etag: string;
  contentType: string | undefined;
  contentEncoding: string | undefined;
  /** x-amz-meta-* without the prefix. */
  metadata: Record<string, string>;
  encryption: string;
  kmsKeyId: string | undefined;
  /** Parts it was uploaded in; undefined for a plain PUT. */
  parts: number | undefined;
  crc32: string | undefined;
  modifiedAt: number;
  body(): Buffer;
}

export interface UploadSnapshot {
  uploadId: string;
  key: string;
  initiatedAt: number;
  parts: { partNumber: number; bytes: number; etag: string }[];
}

export function snapshotObjects(bucket: Bucket): ObjectSnapshot[] {
  return [...bucket.objects.values()]
    .sort((a, b) => compareKeys(a.key, b.key))
    .map((object) => ({
      key: object.key,
      bytes: object.bytes,
      etag: object.etag,
      contentType: object.headers['content-type'],
      contentEncoding: object.headers['content-encoding'],
      metadata: Object.fromEntries(
        Object.entries(object.headers)
          .filter(([name]) => name.startsWith('x-amz-meta-'))
          .map(([name, value]) => [name.slice('x-amz-meta-'.length), value]),
      ),
      encryption: object.encryption.algorithm,
      kmsKeyId: object.encryption.kmsKeyId,
      parts: object.parts,
      crc32: object.crc32,
      modifiedAt: object.modifiedAt,
      body: () => Buffer.concat(object.chunks),
    }));
}

export function snapshotUploads(bucket: Bucket): UploadSnapshot[] {
  return [...bucket.uploads.values()]
    .sort((a, b) => compareKeys(a.key, b.key) || a.initiatedAt - b.initiatedAt)
    .map(({ uploadId, key, initiatedAt, parts }) => ({
      uploadId,
      key,
      initiatedAt,
      parts: [...parts.values()]
        .sort((a, b) => a.partNumber - b.partNumber)
        .map(({ partNumber, bytes, etag }) => ({ partNumber, bytes, etag })),
    }));
}
