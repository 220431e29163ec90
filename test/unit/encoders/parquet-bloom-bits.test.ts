import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ByteWriter } from '../../../src/foundation/domain/byte-writer.ts';
import { openBitSetter } from '../../../src/rows/encoders/parquet/bloom-bits.ts';
import { BloomFilter } from '../../../src/rows/encoders/parquet/bloom-filter.ts';
import { xxh64 } from '../../../src/rows/encoders/parquet/xxhash.ts';

const salts = [0x47b6137b, 0x44974d91, 0x8824ad5b];
const filterBytes = 2 ** 10 * salts.length * 4;
const blockShift = 22;
const setter = openBitSetter(filterBytes, salts, blockShift);

/** The same words, made of the hash in JavaScript. */
function expectedWords(values: readonly Uint8Array[]): Uint32Array {
  const words = new Uint32Array(filterBytes / 4);
  const hash = { high: 0, low: 0 };
  for (const value of values) {
    xxh64(new DataView(value.buffer, value.byteOffset), 0, value.length, hash);
    salts.forEach((salt, word) => {
      const at = (hash.high >>> blockShift) * salts.length + word;
      words[at] = (words[at] ?? 0) | (1 << (Math.imul(hash.low, salt) >>> 27));
    });
  }
  return words;
}

function plainOf(values: readonly Uint8Array[]): ByteWriter {
  const out = new ByteWriter(16);
  for (const value of values) {
    out.ensure(4 + value.length);
    out.view.setUint32(out.length, value.length, true);
    out.bytes.set(value, out.length + 4);
    out.length += 4 + value.length;
  }
  return out;
}

describe('the bits of a Bloom filter', () => {
  it('are those of XXH64, for values of any length', () => {
    const value = fc.uint8Array({ maxLength: 150 }).map((bytes) => bytes.slice());
    fc.assert(
      fc.property(fc.array(value, { maxLength: 30 }), (values) => {
        const words = new Uint32Array(filterBytes / 4);
        const { bytes, length } = plainOf(values);
        expect(setter.setBits(words, bytes.subarray(0, length), null)).toBe(values.length);
        expect(words).toEqual(expectedWords(values));
      }),
      { numRuns: 40 },
    );
  });

  it.each([4, 8])('are those of XXH64, for numbers of %i bytes', (width) => {
    const values = Array.from({ length: 100 }, (_, n) => Buffer.alloc(width, `${n * 7919}`));
    const words = new Uint32Array(filterBytes / 4);
    expect(setter.setBits(words, Buffer.concat(values), width)).toBe(values.length);
    expect(words).toEqual(expectedWords(values.map((each) => Uint8Array.from(each))));
  });

  it('keep those that are set, and do not depend on the page that a value comes in', () => {
    const values = Array.from({ length: 50 }, (_, n) => Buffer.from(`a value ${n}`));
    const huge = Buffer.alloc(setter.maxValueBytes, 'a');
    const [apart, together] = [new BloomFilter(null), new BloomFilter(null)];
    for (const value of [huge, ...values]) apart.add(plainOf([value]), 0);
    together.add(plainOf([...values, huge]), 0);
    const bits = apart.take(undefined);
    expect(bits?.length).toBeGreaterThan(32);
    expect(together.take(undefined)).toEqual(bits);
  });
});
