import fc from 'fast-check';
import { expect, it } from 'vitest';
import {
  bitWidthOf,
  encodeHybrid,
  maxHybridBytes,
} from '../../../src/rows/encoders/parquet/levels.ts';

/** A plain reading of the format's description, one value after the other. */
function decodeHybrid(bytes: Uint8Array, count: number, bitWidth: number): number[] {
  const values: number[] = [];
  let at = 0;
  while (at < bytes.length) {
    let header = 0;
    let shift = 0;
    for (let byte = 0x80; byte & 0x80; shift += 7) {
      byte = bytes[at++] ?? 0;
      header |= (byte & 0x7f) << shift;
    }
    if ((header & 1) === 0) {
      let value = 0;
      for (let bit = 0; bit < bitWidth; bit += 8) value |= (bytes[at++] ?? 0) << bit;
      for (let run = header >>> 1; run > 0; run--) values.push(value);
      continue;
    }
    const bits = (header >>> 1) * 8 * bitWidth;
    for (let first = 0; first < bits; first += bitWidth) {
      let value = 0;
      for (let bit = 0; bit < bitWidth; bit++) {
        const position = first + bit;
        value |= (((bytes[at + (position >> 3)] ?? 0) >> (position & 7)) & 1) << bit;
      }
      values.push(value);
    }
    at += bits / 8;
  }
  return values.slice(0, count);
}

const runs = fc.array(
  fc.record({ length: fc.integer({ min: 1, max: 40 }), value: fc.nat(0x7fff) }),
  { maxLength: 30 },
);

it('gives the values back and stays within its bound', () => {
  fc.assert(
    fc.property(runs, fc.integer({ min: 1, max: 15 }), (list, bitWidth) => {
      const mask = 2 ** bitWidth - 1;
      const values = Uint16Array.from(
        list.flatMap(({ length, value }) => new Array<number>(length).fill(value & mask)),
      );
      const target = new Uint8Array(maxHybridBytes(values.length, bitWidth) + 3);
      const end = encodeHybrid(target, 3, values, values.length, bitWidth);
      expect(end).toBeLessThanOrEqual(target.length);
      expect(decodeHybrid(target.subarray(3, end), values.length, bitWidth)).toEqual([...values]);
    }),
    { numRuns: 300 },
  );
});

it('takes four bytes for 20,000 levels that are all the same', () => {
  const target = new Uint8Array(16);
  expect(encodeHybrid(target, 0, new Uint8Array(20_000).fill(1), 20_000, 1)).toBe(4);
});

it('knows the bits that a number needs', () => {
  expect([0, 1, 2, 3, 4, 255, 256, 32_767].map(bitWidthOf)).toEqual([0, 1, 2, 2, 3, 8, 9, 15]);
});
