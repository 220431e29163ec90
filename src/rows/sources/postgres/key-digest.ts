import type { KeySet } from '../source.ts';
import type { SourceBlock } from './row-blocks.ts';

/**
 * A digest of a set of keys that does not depend on their order: the sum, modulo 2^128, of each key's MurmurHash3
 * x86_128: stable, published with test values, about 40 ns per uuid; SHA-256 takes more than a microsecond. Someone who
 * makes colliding keys can hide a late row, but only from their own export.
 */

export type Words = Int32Array;

/** A change of algorithm needs another name. */
const version = 'm3:';
const wordValues = 2 ** 32;

const rotate = (value: number, by: number): number => (value << by) | (value >>> (32 - by));

function mix(value: number): number {
  let h = value ^ (value >>> 16);
  h = Math.imul(h, 0x85ebca6b);
  h ^= h >>> 13;
  h = Math.imul(h, 0xc2b2ae35);
  return h ^ (h >>> 16);
}

const c1 = 0x239b961b;
const c2 = 0xab0e9789;
const c3 = 0x38b34ae5;
const c4 = 0xa1e38b93;

const word = (bytes: Uint8Array, at: number): number =>
  (bytes[at] as number) |
  ((bytes[at + 1] as number) << 8) |
  ((bytes[at + 2] as number) << 16) |
  ((bytes[at + 3] as number) << 24);

/** From zeros in `state` it is MurmurHash3 x86_128 with seed 0. */
export function hashInto(state: Words, bytes: Uint8Array, start: number, length: number): void {
  let h1 = state[0] as number;
  let h2 = state[1] as number;
  let h3 = state[2] as number;
  let h4 = state[3] as number;
  let at = start;
  for (const end = start + length - (length & 15); at < end; at += 16) {
    h1 ^= Math.imul(rotate(Math.imul(word(bytes, at), c1), 15), c2);
    h1 = (Math.imul(rotate(h1, 19) + h2, 5) + 0x561ccd1b) | 0;
    h2 ^= Math.imul(rotate(Math.imul(word(bytes, at + 4), c2), 16), c3);
    h2 = (Math.imul(rotate(h2, 17) + h3, 5) + 0x0bcaa747) | 0;
    h3 ^= Math.imul(rotate(Math.imul(word(bytes, at + 8), c3), 17), c4);
    h3 = (Math.imul(rotate(h3, 15) + h4, 5) + 0x96cd1c35) | 0;
    h4 ^= Math.imul(rotate(Math.imul(word(bytes, at + 12), c4), 18), c1);
    h4 = (Math.imul(rotate(h4, 13) + h1, 5) + 0x32ac3b17) | 0;
  }
  const rest = length & 15;
  if (rest > 12) h4 ^= Math.imul(rotate(Math.imul(tail(bytes, at + 12, rest - 12), c4), 18), c1);
  if (rest > 8) h3 ^= Math.imul(rotate(Math.imul(tail(bytes, at + 8, rest - 8), c3), 17), c4);
  if (rest > 4) h2 ^= Math.imul(rotate(Math.imul(tail(bytes, at + 4, rest - 4), c2), 16), c3);
  if (rest > 0) h1 ^= Math.imul(rotate(Math.imul(tail(bytes, at, rest), c1), 15), c2);
  h1 ^= length;
  h2 ^= length;
  h3 ^= length;
  h4 ^= length;
  h1 = (h1 + h2 + h3 + h4) | 0;
  h2 = mix(h2 + h1);
  h3 = mix(h3 + h1);
  h4 = mix(h4 + h1);
  h1 = mix(h1);
  h1 = (h1 + h2 + h3 + h4) | 0;
  state[0] = h1;
  state[1] = h2 + h1;
  state[2] = h3 + h1;
  state[3] = h4 + h1;
}

/** The first `count` of four bytes, at most four. */
function tail(bytes: Uint8Array, at: number, count: number): number {
  let value = 0;
  for (let index = Math.min(count, 4) - 1; index >= 0; index -= 1) {
    value = (value << 8) | (bytes[at + index] as number);
  }
  return value;
}

/** The position of a key field in the rows of a block. */
export interface KeyFields {
  readonly offsets: Int32Array;
  readonly lengths: Int32Array;
  readonly width: number;
  readonly field: number;
}

/** The positions of keys in a block. @param width fields of a row that readers see; those with a higher index are hidden */
export const keyFieldsOf = (
  { offsets, lengths, hiddenOffsets, hiddenLengths, rowCount }: SourceBlock,
  width: number,
  places: readonly number[],
): readonly KeyFields[] => {
  const hidden = { offsets: hiddenOffsets, lengths: hiddenLengths };
  const hiddenWidth = hiddenOffsets.length / rowCount;
  return places.map((field) =>
    field < width
      ? { offsets, lengths, width, field }
      : { ...hidden, width: hiddenWidth, field: field - width },
  );
};

/** Null is hashed as this. It differs from an empty text. */
const ofNull = 0x9e3779b9;

export class KeyDigest {
  readonly #state: Words = new Int32Array(4);
  /** The words of the sum, the lowest first, each below 2^32. */
  readonly #sums = new Float64Array(4);
  #count = 0;

  get count(): number {
    return this.#count;
  }

  add(bytes: Uint8Array, rowCount: number, fields: readonly KeyFields[]): void {
    const state = this.#state;
    let sum1 = 0;
    let sum2 = 0;
    let sum3 = 0;
    let sum4 = 0;
    for (let row = 0; row < rowCount; row += 1) {
      state[0] = 0;
      state[1] = 0;
      state[2] = 0;
      state[3] = 0;
      for (let part = 0; part < fields.length; part += 1) {
        const { offsets, lengths, width, field } = fields[part] as KeyFields;
        const index = row * width + field;
        const length = lengths[index] as number;
        if (length < 0) state[0] = (state[0] as number) ^ ofNull;
        hashInto(state, bytes, offsets[index] as number, Math.max(length, 0));
      }
      sum1 += (state[0] as number) >>> 0;
      sum2 += (state[1] as number) >>> 0;
      sum3 += (state[2] as number) >>> 0;
      sum4 += (state[3] as number) >>> 0;
    }
    this.#carry([sum1, sum2, sum3, sum4]);
    this.#count += rowCount;
  }

  merge(other: KeyDigest): void {
    this.#carry([...other.#sums]);
    this.#count += other.#count;
  }

  get set(): KeySet {
    return { digest: this.read(), count: this.#count };
  }

  read(): string {
    const words = [...this.#sums].map((sum) => sum.toString(16).padStart(8, '0'));
    return version + words.toReversed().join('');
  }

  /** A block has less than 2^21 rows: its sums are exact. */
  #carry(sums: readonly number[]): void {
    let carry = 0;
    for (const [index, added] of sums.entries()) {
      const sum = (this.#sums[index] as number) + added + carry;
      carry = Math.floor(sum / wordValues);
      this.#sums[index] = sum % wordValues;
    }
  }
}
