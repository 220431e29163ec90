import { createHash } from 'node:crypto';
import { crc32 } from 'node:zlib';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { PartDigest } from '../../../src/rows/destinations/s3/part-digest.ts';

it('sums a part that came in pieces as the whole', () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 300 }), { maxLength: 8 }), (pieces) => {
      const digest = new PartDigest({ crc32: true, sha256: true, md5: true });
      for (const piece of pieces) digest.update(piece);
      const whole = Buffer.concat(pieces);
      const sums = digest.end();
      expect(Buffer.from(sums.crc32 ?? '', 'base64').readUInt32BE()).toBe(crc32(whole));
      expect(sums.sha256).toBe(createHash('sha256').update(whole).digest('hex'));
      expect(sums.md5).toBe(createHash('md5').update(whole).digest('hex'));
    }),
  );
});

it('computes no checksum that is not needed', () => {
  const digest = new PartDigest({ crc32: false, sha256: false, md5: false });
  digest.update(Buffer.from('a'));
  expect(digest.end()).toEqual({ crc32: null, sha256: null, md5: null });
});
