import { expect, test } from 'vitest';
import { type ChecksumName, digestOf } from '../../support/s3-server/checksums.ts';

// The "check" values of each algorithm for the text 123456789 (RFC 3720, the NVMe specification, FIPS 180).
const checks: Record<ChecksumName, string> = {
  crc32: 'cbf43926',
  crc32c: 'e3069283',
  crc64nvme: 'ae8b14860a799888',
  sha1: 'f7c3bc1d808e04732adf679965ccc34ca7ae3441',
  sha256: '15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225',
};

for (const [name, expected] of Object.entries(checks) as [ChecksumName, string][]) {
  test(`${name} of 123456789 is its published value, in one piece and in three`, () => {
    for (const pieces of [['123456789'], ['123', '', '4567', '89']]) {
      const digest = digestOf(
        name,
        pieces.map((piece) => Buffer.from(piece)),
      );
      expect(Buffer.from(digest, 'base64').toString('hex')).toBe(expected);
    }
  });
}
