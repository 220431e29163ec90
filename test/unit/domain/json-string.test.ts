import fc from 'fast-check';
import { expect, test } from 'vitest';
import { isEscapedByte, skipPlainBytes } from '../../../src/foundation/domain/json-string.ts';

const firstEscaped = (bytes: Uint8Array, from: number, end: number): number => {
  let at = from;
  while (at < end && isEscapedByte[bytes[at] as number] === 0) at += 1;
  return at;
};

/** Mostly bytes next to those that are escaped, and those with a high bit. */
const byte = fc.oneof(
  { weight: 8, arbitrary: fc.integer({ min: 0x20, max: 0xff }) },
  { weight: 4, arbitrary: fc.constantFrom(0x21, 0x23, 0x5b, 0x5d, 0x20, 0x80, 0xa2, 0xdc, 0xff) },
  { weight: 1, arbitrary: fc.constantFrom(0x00, 0x1f, 0x22, 0x5c) },
);

test('skipping plain bytes ends shortly before the first one that is escaped, or the end', () => {
  fc.assert(
    fc.property(fc.array(byte, { maxLength: 80 }), fc.nat(8), fc.nat(8), (all, from, cut) => {
      const bytes = Uint8Array.from([...Array(from).fill(0x22), ...all]);
      const end = Math.max(from, bytes.length - cut);
      const reached = skipPlainBytes(new DataView(bytes.buffer), from, end);
      const escaped = firstEscaped(bytes, from, end);
      expect(reached).toBeGreaterThanOrEqual(from);
      expect(reached).toBeLessThanOrEqual(escaped);
      expect(escaped - reached).toBeLessThan(8);
    }),
    { numRuns: 2_000 },
  );
});

test('a byte at any place is skipped if it is plain, and only then', () => {
  for (let value = 0; value < 256; value += 1) {
    for (let place = 0; place < 8; place += 1) {
      const bytes = new Uint8Array(16).fill(0x61);
      bytes[place] = value;
      const reached = skipPlainBytes(new DataView(bytes.buffer), 0, 16);
      expect(reached, `${value} at ${place}`).toBe(isEscapedByte[value] === 1 ? 0 : 16);
    }
  }
});
