import { createHash } from 'node:crypto';
import { crc32 } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { usualParts } from '../../../src/foundation/domain/store-traits.ts';
import {
  learnParts,
  PartDigest,
  type PartPlan,
  partSize,
  planParts,
} from '../../../src/rows/destinations/s3/parts.ts';

const mebibyte = 1024 ** 2;
const gibibyte = 1024 ** 3;
const tebibyte = 1024 ** 4;

const plan = (mib: number, most = 10_000, equal = false): PartPlan => ({
  ...{ bytes: mib * mebibyte, most, equal },
});

function capacity(parts: PartPlan): number {
  let sum = 0;
  for (let number = 1; number <= parts.most; number += 1) sum += partSize(number, parts);
  return sum;
}

describe('part sizes', () => {
  it.each([5, 8, 16, 64])('hold the largest object that S3 knows, from %i MiB on', (size) => {
    expect(capacity(plan(size))).toBeGreaterThanOrEqual(5 * tebibyte);
  });

  it('never shrink, and stay between the limits of S3 and of a buffer', () => {
    for (let number = 2; number <= 10_000; number += 1) {
      const size = partSize(number, plan(8));
      expect(size).toBeGreaterThanOrEqual(partSize(number - 1, plan(8)));
      expect(size).toBeLessThanOrEqual(2048 * mebibyte);
    }
  });

  it('are equal in files of ordinary size, and in all files of a store that wants it', () => {
    expect(partSize(1, plan(8))).toBe(8 * mebibyte);
    // 15 GiB.
    expect(partSize(2_000, plan(8))).toBe(8 * mebibyte);
    expect(partSize(10_000, plan(8, 10_000, true))).toBe(8 * mebibyte);
  });

  it('grow soon if few parts are allowed', () => {
    expect([1, 2, 3, 4].map((number) => partSize(number, plan(5, 4)) / mebibyte)).toEqual([
      5, 10, 20, 40,
    ]);
  });
});

describe('the parts of a file', () => {
  const limits = { partBytes: 8 * mebibyte, maxParts: 10_000 };

  it('are so large that a file with a limit keeps to one size', () => {
    const parts = planParts(limits, usualParts, 100 * gibibyte);
    expect(2_000 * parts.bytes).toBeGreaterThanOrEqual(100 * gibibyte);
    expect(planParts(limits, usualParts, 1 * gibibyte).bytes).toBe(8 * mebibyte);
    expect(planParts(limits, usualParts, null)).toEqual({ ...plan(8), equal: false });
  });

  it('are larger at a store that allows few', () => {
    const learned = learnParts(plan(8), Array(1_000).fill(8 * mebibyte), 1_000);
    expect(learned).toMatchObject({ equal: false, most: 1_000 });
    const next = planParts(limits, learned ?? usualParts, null);
    expect(next.most).toBe(1_000);
    // No file begins with larger ones: they are held in memory.
    expect(next.bytes).toBe(64 * mebibyte);
  });

  it('are equal after a refusal of different ones, and larger if equal ones were refused', () => {
    const different = [8, 8, 16, 16, 3].map((mib) => mib * mebibyte);
    const learned = learnParts(plan(8), different, null);
    expect(learned).toEqual({ equal: true, most: 10_000, bytes: 8 * mebibyte });
    const same = [8, 8, 8, 3].map((mib) => mib * mebibyte);
    expect(learnParts(plan(8), same, null)).toMatchObject({ bytes: 32 * mebibyte });
    expect(learnParts(plan(64, 10_000, true), same, null)).toBeNull();
  });
});

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
