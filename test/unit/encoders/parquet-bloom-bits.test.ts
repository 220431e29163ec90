import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import createXxhash from 'xxhash-wasm';
import { ByteWriter } from '../../../src/foundation/domain/byte-writer.ts';
import { openBitSetter } from '../../../src/rows/encoders/parquet/bloom-bits.ts';
import { BloomFilter } from '../../../src/rows/encoders/parquet/bloom-filter.ts';

const salts = [0x47b6137b, 0x44974d91, 0x8824ad5b];
const filterBytes = 2 ** 10 * salts.length * 4;
const blockShift = 22;
const setter = openBitSetter(filterBytes, salts, blockShift);

const { h64Raw } = await createXxhash();

/** The same words, made of the hash of another author. */
function expectedWords(values: readonly Uint8Array[]): Uint32Array {
  const words = new Uint32Array(filterBytes / 4);
  for (const value of values) {
    const hash = h64Raw(value);
    const block = Number(hash >> 32n) >>> blockShift;
    salts.forEach((salt, word) => {
      const at = block * salts.length + word;
      words[at] = (words[at] ?? 0) | (1 << (Math.imul(Number(hash & 0xffffffffn), salt) >>> 27));
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
    const [apart, together] = [new BloomFilter(null), new BloomFilter(null)];
    for (const value of values) apart.add(plainOf([value]), 0);
    together.add(plainOf(values), 0);
    const bits = apart.take(undefined);
    expect(bits?.length).toBeGreaterThan(32);
    expect(together.take(undefined)).toEqual(bits);
  });

  it('are left out of a row group with a value longer than a page, and of that one only', () => {
    const [filter, other] = [new BloomFilter(null), new BloomFilter(null)];
    filter.add(plainOf([Buffer.from('a')]), 0);
    filter.add(plainOf([Buffer.alloc(setter.maxValueBytes, 'a')]), 0);
    expect(filter.take(undefined)).toBeUndefined();
    for (const each of [filter, other]) each.add(plainOf([Buffer.from('b')]), 0);
    expect(filter.take(undefined)).toEqual(other.take(undefined));
  });
});
