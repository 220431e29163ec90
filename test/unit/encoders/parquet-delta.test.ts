import { expect, it } from 'vitest';
import { ByteWriter } from '../../../src/foundation/domain/byte-writer.ts';
import { putDeltas } from '../../../src/rows/encoders/parquet/delta.ts';

/** Reads DELTA_BINARY_PACKED bit by bit, as the format says. */
function readDeltas(bytes: Uint8Array): bigint[] {
  let at = 0;
  const varint = (): bigint => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes[at++] as number;
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  };
  const zigzag = (): bigint => {
    const value = varint();
    return (value >> 1n) ^ -(value & 1n);
  };
  expect([varint(), varint()]).toEqual([128n, 4n]);
  const count = Number(varint());
  const values = [zigzag()];
  while (values.length < count) {
    const min = zigzag();
    const widths = bytes.subarray(at, at + 4);
    at += 4;
    for (const width of widths) {
      if (values.length >= count) break;
      for (let place = 0; place < 32; place++) {
        let delta = min;
        for (let bit = 0; bit < width; bit++) {
          const index = place * width + bit;
          const isSet = ((bytes[at + (index >> 3)] as number) >> (index & 7)) & 1;
          delta += BigInt(isSet) << BigInt(bit);
        }
        if (values.length < count) values.push((values.at(-1) as bigint) + delta);
      }
      at += width * 4;
    }
  }
  expect(at).toBe(bytes.length);
  return values.slice(0, count);
}

it.each(Array.from({ length: 51 }, (_, width) => width + 1))(
  'packs differences of %i bits',
  (width) => {
    let seed = width;
    const random = () => {
      seed = (Math.imul(seed, 1_103_515_245) + 12_345) >>> 0;
      return seed / 2 ** 32;
    };
    // Below half of it in size, so that the differences have that many bits.
    const half = 2 ** (width - 1);
    const values = Float64Array.from({ length: 200 }, (_, n) =>
      n === 7 ? half - 1 : n === 8 ? 0 : Math.floor(random() * half),
    );
    const out = new ByteWriter(16);
    expect(putDeltas(out, values, values.length, width < 32 ? 32 : 64)).toBe(true);
    expect(readDeltas(out.bytes.subarray(0, out.length))).toEqual(Array.from(values, BigInt));
  },
);
