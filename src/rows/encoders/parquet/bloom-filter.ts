import type { ByteWriter } from '../../../foundation/domain/byte-writer.ts';
import { type BitSetter, openBitSetter } from './bloom-bits.ts';
import type { Bounds } from './bounds.ts';
import { prunedRows } from './sizes.ts';
import { i32, nested, struct } from './thrift.ts';

/**
 * A split-block Bloom filter of a chunk's values, so that readers skip a row group without the value.
 * Source: https://parquet.apache.org/docs/file-format/bloomfilter/
 */
const blockWords = 8;
const wordBytes = 4;
const blockBytes = blockWords * wordBytes;
const salts = [
  0x47b6137b, 0x44974d91, 0x8824ad5b, 0xa2b7289d, 0x705495c7, 0x2df1424b, 0x9efc4947, 0x5c6bfb31,
];

/** Eight bits for each value of the largest row group. Some readers refuse a size that is no power of two. */
const maxBytes = prunedRows;
/** The upper bits of a hash are the place of its block. */
const blockShift = Math.clz32(maxBytes / blockBytes - 1);
/** A filter with more bits set is not made smaller: with these, it lets 3 of 100 other values pass. */
const maxFill = 0.64;

/** All filters share it; it is made when the first one gets values. */
let shared: BitSetter | undefined;

/** Made of the PLAIN values of pages. It does not depend on their order, nor on how often one comes. */
export class BloomFilter {
  readonly #words = new Uint32Array(maxBytes / wordBytes);
  readonly #width: 4 | 8 | null;
  #count = 0;
  /** A value was too long to be added, so the bits say nothing of it. */
  #isIncomplete = false;

  /** @param width bytes of a value; null: each comes after its length, which is not hashed */
  constructor(width: 4 | 8 | null) {
    this.#width = width;
  }

  /** Its maximum size in the file, for the values so far. */
  get maxBytes(): number {
    return Math.min(maxBytes, Math.max(blockBytes, this.#count * 2));
  }

  /** Adds the values from `from` on. */
  add({ bytes, length: end }: ByteWriter, from: number): void {
    shared ??= openBitSetter(maxBytes, salts, blockShift);
    // More than a page: one value is longer. No reader looks for such a key.
    if (end - from > shared.maxValueBytes) this.#isIncomplete = true;
    else this.#count += shared.setBits(this.#words, bytes.subarray(from, end), this.#width);
  }

  /**
   * The header and the bits, as few as are enough. Undefined without values, if a value is missing, or if the bounds say
   * nearly as much: of whole numbers, if it had a byte for every second number between them. Starts anew.
   */
  take(bounds: Bounds | undefined): Uint8Array | undefined {
    const isUseful = this.#count > 0 && !this.#isIncomplete;
    const bits = isUseful ? this.#foldedBits() : null;
    this.#words.fill(0);
    this.#count = 0;
    this.#isIncomplete = false;
    if (bits === null) return undefined;
    if (this.#width !== null && bits.length * 2 > rangeOf(this.#width, bounds)) return undefined;
    return Buffer.concat([header(bits.length), bits]);
  }

  #foldedBits(): Buffer {
    const blocks = this.#fold();
    const bits = Buffer.alloc(blocks * blockBytes);
    for (let word = 0; word < blocks * blockWords; word++) {
      bits.writeUInt32LE(this.#words[word] as number, word * wordBytes);
    }
    return bits;
  }

  /** Joins neighbours while few bits are set: a value's block in half as many is half its place. */
  #fold(): number {
    const words = this.#words;
    let blocks = maxBytes / blockBytes;
    while (blocks > 1 && this.#fillOfHalf(blocks) <= maxFill) {
      blocks /= 2;
      for (let word = 0; word < blocks * blockWords; word++) {
        words[word] = joined(words, word);
      }
    }
    return blocks;
  }

  /** The share of bits that are set in a filter of half as many blocks. */
  #fillOfHalf(blocks: number): number {
    const words = (blocks / 2) * blockWords;
    let bits = 0;
    for (let word = 0; word < words; word++) bits += bitsOf(joined(this.#words, word));
    return bits / (words * wordBytes * 8);
  }
}

/** Counts the numbers between the bounds. */
function rangeOf(width: 4 | 8, bounds: Bounds | undefined): number {
  if (bounds?.max === undefined) return Number.POSITIVE_INFINITY;
  const [low = 0n, high = 0n] = [bounds.min, bounds.max].map((bound) => {
    const bytes = Buffer.from(bound);
    return width === 4 ? BigInt(bytes.readInt32LE()) : bytes.readBigInt64LE();
  });
  return Number(high - low);
}

/** A word of a filter of half as many blocks. */
function joined(words: Uint32Array, word: number): number {
  const block = Math.floor(word / blockWords);
  const at = block * 2 * blockWords + (word % blockWords);
  return (words[at] as number) | (words[at + blockWords] as number);
}

function bitsOf(word: number): number {
  let bits = word - ((word >>> 1) & 0x55555555);
  bits = (bits & 0x33333333) + ((bits >>> 2) & 0x33333333);
  return Math.imul((bits + (bits >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24;
}

/** parquet.thrift's BloomFilterHeader: blocks, xxHash, not compressed. */
function header(bytes: number): Uint8Array {
  const only = (id: number) => nested(id, [nested(1, [])]);
  return struct([i32(1, bytes), only(2), only(3), only(4)]);
}
