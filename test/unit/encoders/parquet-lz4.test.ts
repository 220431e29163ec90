import { randomFillSync } from 'node:crypto';
import fc from 'fast-check';
import { compressors } from 'hyparquet-compressors';
import { expect, it } from 'vitest';
import { compressLz4, maxLz4Bytes } from '../../../src/rows/encoders/parquet/page-compressor.ts';

function expectBack(source: Buffer): void {
  const block = compressLz4(source);
  expect(block.length).toBeLessThanOrEqual(maxLz4Bytes(source.length));
  const back = compressors.LZ4_RAW?.(block, source.length);
  expect(Buffer.from(back ?? []).equals(source)).toBe(true);
  expectLegalEnd(block, source.length);
}

/** Decoders that copy in steps of 8 rely on what the format says of a block's last bytes. */
function expectLegalEnd(block: Buffer, length: number): void {
  let at = 0;
  let out = 0;
  const readLength = (start: number): number => {
    let total = start;
    for (let byte = start === 15 ? 255 : 0; byte === 255; total += byte) byte = block[at++] ?? 0;
    return total;
  };
  for (;;) {
    const token = block[at++] ?? 0;
    const literals = readLength(token >> 4);
    at += literals;
    out += literals;
    if (at >= block.length) {
      expect(out).toBe(length);
      expect(literals).toBeGreaterThanOrEqual(Math.min(5, length));
      return;
    }
    expect(out).toBeLessThanOrEqual(length - 12);
    at += 2;
    out += readLength(token & 15) + 4;
  }
}

it('give back any bytes, from a few repeated pieces', () => {
  const piece = fc.oneof(
    fc.uint8Array({ minLength: 1, maxLength: 30 }),
    fc.constantFrom(Buffer.from('{"$browser":"Chrome"}'), Buffer.alloc(400, 97)),
  );
  fc.assert(
    fc.property(
      fc.array(piece, { minLength: 6, maxLength: 6 }),
      fc.array(fc.nat(5)),
      (pieces, order) => {
        expectBack(Buffer.concat([0, ...order].map((index) => pieces[index] ?? Buffer.alloc(0))));
      },
    ),
    { numRuns: 500 },
  );
});

it.each([1, 4, 5, 11, 12, 13, 16, 17, 300])('give back %i equal bytes', (length) => {
  expectBack(Buffer.alloc(length, 7));
});

it('find no match farther back than the format can say', () => {
  const piece = Buffer.from('a piece of text that comes again');
  for (const gap of [65_535, 65_536, 70_000, 140_000]) {
    for (const back of [0, piece.length]) {
      expectBack(Buffer.concat([piece, Buffer.alloc(gap - back), piece]));
    }
  }
});

it('grow little if nothing repeats, and shrink what does', () => {
  expectBack(randomFillSync(Buffer.alloc(1_000_000)));
  expect(compressLz4(Buffer.alloc(1_000_000)).length).toBeLessThan(4000);
});
