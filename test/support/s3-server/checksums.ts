import { createHash } from 'node:crypto';
import { crc32 } from 'node:zlib';

/** The algorithms of `x-amz-checksum-<name>`. */
export const checksumNames = ['crc32', 'crc32c', 'crc64nvme', 'sha1', 'sha256'] as const;
export type ChecksumName = (typeof checksumNames)[number];

export interface Hasher {
  update(chunk: Buffer): void;
  /** Base64, as the headers carry it. */
  digest(): string;
}

/** The length of each algorithm's digest in bytes. */
export const digestBytes: Record<ChecksumName, number> = {
  crc32: 4,
  crc32c: 4,
  crc64nvme: 8,
  sha1: 20,
  sha256: 32,
};

/** Only these can be computed over a whole object from a multipart upload (type FULL_OBJECT). */
export const isLinear = (name: ChecksumName): boolean => name.startsWith('crc');

export function isChecksumName(name: string): name is ChecksumName {
  return (checksumNames as readonly string[]).includes(name);
}

function base64OfUint32(...words: number[]): string {
  const bytes = Buffer.alloc(words.length * 4);
  words.forEach((word, at) => {
    bytes.writeUInt32BE(word >>> 0, at * 4);
  });
  return bytes.toString('base64');
}

function crc32Hasher(): Hasher {
  let value = 0;
  return {
    update(chunk) {
      value = crc32(chunk, value);
    },
    digest: () => base64OfUint32(value),
  };
}

/** Castagnoli, reflected: https://www.rfc-editor.org/rfc/rfc3720#appendix-B.4 */
const crc32cTable = Uint32Array.from({ length: 256 }, (_, index) => {
  let value = index;
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0x82f63b78 : value >>> 1;
  return value;
});

function crc32cHasher(): Hasher {
  let value = 0xffffffff;
  return {
    update(chunk) {
      let crc = value;
      for (const byte of chunk) crc = (crc >>> 8) ^ (crc32cTable[(crc ^ byte) & 0xff] ?? 0);
      value = crc;
    },
    digest: () => base64OfUint32(~value),
  };
}

/** CRC-64/NVME (reflected 0x9a6c9329ac4bc9b5) in two 32-bit halves: BigInt would be far slower. */
const crc64Low = new Uint32Array(256);
const crc64High = new Uint32Array(256);
for (let index = 0; index < 256; index++) {
  let value = BigInt(index);
  for (let bit = 0; bit < 8; bit++) {
    value = value & 1n ? (value >> 1n) ^ 0x9a6c9329ac4bc9b5n : value >> 1n;
  }
  crc64Low[index] = Number(value & 0xffffffffn);
  crc64High[index] = Number(value >> 32n);
}

function crc64NvmeHasher(): Hasher {
  let low = 0xffffffff;
  let high = 0xffffffff;
  return {
    update(chunk) {
      for (const byte of chunk) {
        const index = (low ^ byte) & 0xff;
        low = ((low >>> 8) | (high << 24)) ^ (crc64Low[index] ?? 0);
        high = (high >>> 8) ^ (crc64High[index] ?? 0);
      }
    },
    digest: () => base64OfUint32(~high, ~low),
  };
}

function cryptoHasher(name: 'sha1' | 'sha256'): Hasher {
  const hash = createHash(name);
  return {
    update(chunk) {
      hash.update(chunk);
    },
    digest: () => hash.digest('base64'),
  };
}

export function createHasher(name: ChecksumName): Hasher {
  if (name === 'crc32') return crc32Hasher();
  if (name === 'crc32c') return crc32cHasher();
  if (name === 'crc64nvme') return crc64NvmeHasher();
  return cryptoHasher(name);
}

/** Base64 digest of a list of buffers, in order. */
export function digestOf(name: ChecksumName, chunks: Iterable<Buffer>): string {
  const hasher = createHasher(name);
  for (const chunk of chunks) hasher.update(chunk);
  return hasher.digest();
}
