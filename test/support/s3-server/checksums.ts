import { createHash } from 'node:crypto';
import { crc32 } from 'node:zlib';

/** The algorithms of `x-amz-checksum-<name>`. */
export const checksumNames = ['crc32', 'sha256'] as const;
export type ChecksumName = (typeof checksumNames)[number];

interface Hasher {
  update(chunk: Buffer): void;
  /** Base64, as the headers carry it. */
  digest(): string;
}

/** The length of each algorithm's digest in bytes. */
export const digestBytes: Record<ChecksumName, number> = {
  crc32: 4,
  sha256: 32,
};

export function isChecksumName(name: string): name is ChecksumName {
  return (checksumNames as readonly string[]).includes(name);
}

export function createHasher(name: ChecksumName): Hasher {
  if (name === 'sha256') {
    const hash = createHash('sha256');
    return { update: (chunk) => void hash.update(chunk), digest: () => hash.digest('base64') };
  }
  let value = 0;
  return {
    update(chunk) {
      value = crc32(chunk, value);
    },
    digest() {
      const bytes = Buffer.alloc(4);
      bytes.writeUInt32BE(value >>> 0);
      return bytes.toString('base64');
    },
  };
}

/** Base64 digest of a list of buffers, in order. */
export function digestOf(name: ChecksumName, chunks: Iterable<Buffer>): string {
  const hasher = createHasher(name);
  for (const chunk of chunks) hasher.update(chunk);
  return hasher.digest();
}
