import { createHash, type Hash } from 'node:crypto';
import { crc32 } from 'node:zlib';
import type { S3Connection } from './client.ts';

/** Checksums of a part, each computed only if it is needed. */
export interface PartSums {
  /** `x-amz-checksum-crc32`: base64 of the four bytes. */
  readonly crc32: string | null;
  /** `x-amz-content-sha256` of a signed body: hex. */
  readonly sha256: string | null;
  /** Hex; the ETag of an unencrypted part. */
  readonly md5: string | null;
}

/** The checksums of one part, computed while it is filled: at once they would take 40 ms, and heartbeats wait. */
export class PartDigest {
  #crc32: number | null;
  readonly #sha256: Hash | null;
  readonly #md5: Hash | null;

  constructor(wanted: { readonly [Sum in keyof PartSums]: boolean }) {
    this.#crc32 = wanted.crc32 ? 0 : null;
    this.#sha256 = wanted.sha256 ? createHash('sha256') : null;
    this.#md5 = wanted.md5 ? createHash('md5') : null;
  }

  update(bytes: Uint8Array): this {
    if (this.#crc32 !== null) this.#crc32 = crc32(bytes, this.#crc32);
    this.#sha256?.update(bytes);
    this.#md5?.update(bytes);
    return this;
  }

  /** Call it once. */
  end(): PartSums {
    return {
      crc32: this.#crc32 === null ? null : encodeCrc32(this.#crc32),
      sha256: this.#sha256?.digest('hex') ?? null,
      md5: this.#md5?.digest('hex') ?? null,
    };
  }
}

/** Over TLS a signed CRC32 protects the bytes, else a SHA-256. @param isFirst small files have one part, whose ETag is its MD5 */
export function openDigest(
  { secure }: Pick<S3Connection, 'secure'>,
  checksums: boolean,
  isFirst = false,
): PartDigest {
  // A part without a CRC32 has an MD5.
  const md5 = !checksums || isFirst;
  return new PartDigest({ crc32: checksums, sha256: !(secure && checksums), md5 });
}

function encodeCrc32(sum: number): string {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(sum);
  return bytes.toString('base64');
}
