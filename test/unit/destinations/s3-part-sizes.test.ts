import { describe, expect, it } from 'vitest';
import { partSize } from '../../../src/rows/destinations/s3/part-sizes.ts';

const mebibyte = 1024 ** 2;
const tebibyte = 1024 ** 4;

function capacity(partBytes: number, maxParts: number): number {
  let sum = 0;
  for (let number = 1; number <= maxParts; number += 1)
    sum += partSize(number, partBytes, maxParts);
  return sum;
}

describe('part sizes', () => {
  it.each([5, 8, 16, 64])('hold the largest object that S3 knows, from %i MiB on', (size) => {
    expect(capacity(size * mebibyte, 10_000)).toBeGreaterThanOrEqual(5 * tebibyte);
  });

  it('never shrink, and stay between the limits of S3 and of a buffer', () => {
    for (let number = 2; number <= 10_000; number += 1) {
      const size = partSize(number, 8 * mebibyte, 10_000);
      expect(size).toBeGreaterThanOrEqual(partSize(number - 1, 8 * mebibyte, 10_000));
      expect(size).toBeLessThanOrEqual(2048 * mebibyte);
    }
  });

  it('stay small for files of ordinary size', () => {
    expect(partSize(1, 8 * mebibyte, 10_000)).toBe(8 * mebibyte);
    // 15 GiB.
    expect(partSize(2_000, 8 * mebibyte, 10_000)).toBe(8 * mebibyte);
  });

  it('grow soon if few parts are allowed', () => {
    expect([1, 2, 3, 4].map((number) => partSize(number, 5 * mebibyte, 4) / mebibyte)).toEqual([
      5, 10, 20, 40,
    ]);
  });
});
