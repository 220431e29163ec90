import { randomBytes } from 'node:crypto';

export interface Encryption {
  algorithm: string;
  kmsKeyId: string | undefined;
}

/** What is said about an object when it is put, or when its upload is created. */
export interface ObjectAttributes {
  /** content-type, content-encoding, cache-control …, x-amz-meta-*; as they are given back. */
  headers: Record<string, string>;
  encryption: Encryption;
}

export interface StoredObject extends ObjectAttributes {
  key: string;
  /** With its quotes. */
  etag: string;
  bytes: number;
  chunks: Buffer[];
  /** Base64; of an object of parts it is that of their CRC32s, and their number. */
  crc32: string | undefined;
  /** Number of parts; undefined for a plain PUT. */
  parts: number | undefined;
  /** Of the upload that made it; undefined for a plain PUT. */
  uploadId?: string;
  /** A late part has replaced bytes of it. */
  broken?: boolean;
  modifiedAt: number;
}

export interface StoredPart {
  partNumber: number;
  etag: string;
  md5: Buffer;
  bytes: number;
  chunks: Buffer[];
  crc32: string | undefined;
  modifiedAt: number;
}

export interface StoredUpload extends ObjectAttributes {
  uploadId: string;
  key: string;
  initiatedAt: number;
  /** Whether each part has its CRC32. */
  hasCrc32: boolean;
  parts: Map<number, StoredPart>;
}

interface CompletedUpload {
  key: string;
  /** The list of parts it was completed with: the same list again is answered the same. */
  manifest: string;
  object: StoredObject;
}

export class Bucket {
  readonly name: string;
  readonly region: string;
  readonly objects = new Map<string, StoredObject>();
  readonly uploads = new Map<string, StoredUpload>();
  readonly completed = new Map<string, CompletedUpload>();
  readonly #deletions = new Map<string, number>();

  constructor(name: string, region: string) {
    this.name = name;
    this.region = region;
  }

  /** How often the key was deleted: a conditional write that sees it change in flight conflicts. */
  deletions(key: string): number {
    return this.#deletions.get(key) ?? 0;
  }

  delete(key: string): void {
    if (this.objects.delete(key)) this.#deletions.set(key, this.deletions(key) + 1);
  }
}

export const newUploadId = (): string => randomBytes(24).toString('base64url');

/** S3 orders keys by their UTF-8 bytes, which is not the order of UTF-16 code units. */
export const compareKeys = (a: string, b: string): number =>
  Buffer.compare(Buffer.from(a), Buffer.from(b));
