import { createHash, type Hash } from 'node:crypto';
import { crc32 } from 'node:zlib';
import type { PartTraits } from '../../../foundation/domain/store-traits.ts';
import type { DestinationContext } from '../destination.ts';
import type { S3Connection } from './client.ts';

const mebibyte = 1024 ** 2;

/** A part is held in memory, in one buffer, until it is sent. S3 itself allows 5 GiB. */
const maxPartBytes = 2048 * mebibyte;

const maxFirstBytes = 64 * mebibyte;

/** Share of a file's parts that have the first size. Over the others the size doubles ten times. */
const steadyShare = 0.2;
const doublings = 10;

export interface PartPlan {
  readonly bytes: number;
  readonly most: number;
  readonly equal: boolean;
}

/**
 * All parts of a file have one size, unless the file grows far beyond what was expected: so the size follows from the
 * limit of the file, and from what the store has refused before.
 *
 * @param maxFileBytes null: the file has no limit
 */
export function planParts(
  { partBytes, maxParts }: Pick<DestinationContext, 'partBytes' | 'maxParts'>,
  { equal, most: allowed, bytes: needed }: PartTraits,
  maxFileBytes: number | null,
): PartPlan {
  const most = Math.min(maxParts, allowed ?? maxParts);
  const size = Math.max(needed ?? 0, sizeFor(maxFileBytes ?? 0, most));
  return { bytes: Math.max(partBytes, Math.min(size, maxFirstBytes)), most, equal };
}

/** The size with which a file of `fileBytes` keeps to equal parts. */
function sizeFor(fileBytes: number, most: number): number {
  return Math.ceil(fileBytes / steadyParts(most) / mebibyte) * mebibyte;
}

function steadyParts(most: number): number {
  return Math.max(1, Math.floor(most * steadyShare));
}

/**
 * The size of a file's part, in a file that begins with small parts and keeps to them while the remaining parts
 * can still hold the 5 TiB that an object may have. With 8 MiB: 8 MiB up to 15 GiB, 16 MiB up to 28
 * GiB, 32 MiB up to 53 GiB.
 *
 * @param number from 1
 */
export function partSize(number: number, { bytes, most, equal }: PartPlan): number {
  const steady = steadyParts(most);
  if (equal || number <= steady) return bytes;
  const step = Math.max(1, Math.floor((most - steady) / doublings));
  const growth = 2 ** (1 + Math.floor((number - steady - 1) / step));
  return Math.min(maxPartBytes, bytes * growth);
}

/**
 * Learns about the store from a refusal of a part, or of the list of parts. The next attempt plans with it.
 *
 * @param sent the sizes of the parts so far
 * @param most the parts that the store allows, if it refused one for its number
 * @returns null if no other parts are known that could help
 */
export function learnParts(
  plan: PartPlan,
  sent: readonly number[],
  most: number | null,
): PartTraits | null {
  const total = sent.reduce((sum, bytes) => sum + bytes, 0);
  const areEqual = sent.slice(0, -1).every((bytes) => bytes === sent[0]);
  const allowed = Math.min(plan.most, most ?? plan.most);
  // Parts of one size that are refused all the same are too many, or too small.
  const larger = most !== null || !areEqual ? plan.bytes : 4 * plan.bytes;
  const bytes = Math.min(maxFirstBytes, Math.max(larger, sizeFor(2 * total, allowed)));
  const equal = plan.equal || !areEqual;
  if (bytes <= plan.bytes && equal === plan.equal && allowed === plan.most) return null;
  return { equal, most: allowed, bytes };
}

/** A file's first buffer, and how much larger each of the next is until it has the size of a part. */
const firstBytes = 64 * 1024;
const growth = 4;

/** The buffer of a part: one of an earlier part, if it has the size. Allocating one costs more than filling it. */
export function takeBuffer(size: number, isFirst: boolean, spare: Buffer[]): Buffer {
  const reused = spare.pop();
  if (reused?.length === size) return reused;
  spare.length = 0;
  // Most files are much smaller than a part.
  return Buffer.allocUnsafeSlow(isFirst ? Math.min(size, firstBytes) : size);
}

/** The buffer, or a larger one with the same bytes. @param filled how many there are @param most the size of the part */
export function makeRoom(buffer: Buffer, needed: number, filled: number, most: number): Buffer {
  if (needed <= buffer.length) return buffer;
  const grown = Math.min(most, Math.max(needed, growth * buffer.length));
  const larger = Buffer.allocUnsafeSlow(grown);
  buffer.copy(larger, 0, 0, filled);
  return larger;
}

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
