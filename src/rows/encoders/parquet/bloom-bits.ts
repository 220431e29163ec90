import { assemble, type Code, get, i32, i64, int32, int64, set, when, whilst } from './wasm.ts';

/**
 * Sets the bits of many values in a Bloom filter. JavaScript has no numbers of 64 bits but bigints. With them, or with a call
 * for each value, XXH64 takes ten times as long.
 * Source: https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md#xxh64-algorithm-description
 */

const prime1 = 0x9e3779b185ebca87n;
const prime2 = 0xc2b2ae3d27d4eb4fn;
const prime3 = 0x165667b19e3779f9n;
const prime4 = 0x85ebca77c2b2ae63n;
const prime5 = 0x27d4eb2f165667c5n;
const stripeBytes = 32;

/** Parameters: the first value, the end of all, and the width of each or 0 if each comes after its length. */
const [at, end, width] = [0, 1, 2];
const locals = ['i32', 'i32', 'i32', 'i64', 'i64', 'i64', 'i64', 'i64'] as const;
const [count, next, length, hash, lane1, lane2, lane3, lane4] = [3, 4, 5, 6, 7, 8, 9, 10];
const lanes = [lane1, lane2, lane3, lane4];

const times = (value: Code, prime: bigint) => i64.multiply(value, int64(prime));
const turned = (value: Code, bits: bigint) => i64.rotateLeft(value, int64(bits));
const move = (bytes: number) => set(at, i32.add(get(at), int32(bytes)));
const has = (bytes: number) => i32.isAtMost(i32.add(get(at), int32(bytes)), get(next));
const round = (lane: Code, input: Code) =>
  times(turned(i64.add(lane, times(input, prime2)), 31n), prime1);
const empty = int64(0n);

/** XXH64, with seed 0, of the bytes from `at` to `next`. */
const hashValue: Code = [
  when(i32.isLess(get(length), int32(stripeBytes)), set(hash, int64(prime5)), [
    set(lane1, int64(prime1 + prime2)),
    set(lane2, int64(prime2)),
    set(lane3, empty),
    set(lane4, int64(-prime1)),
    whilst(has(stripeBytes), [
      ...lanes.map((lane, index) => set(lane, round(get(lane), i64.load(get(at), index * 8)))),
      move(stripeBytes),
    ]),
    set(
      hash,
      [1n, 7n, 12n, 18n]
        .map((bits, index) => turned(get(lanes[index] as number), bits))
        .reduce(i64.add),
    ),
    ...lanes.map((lane) =>
      set(hash, i64.add(times(i64.xor(get(hash), round(empty, get(lane))), prime1), int64(prime4))),
    ),
  ]),
  set(hash, i64.add(get(hash), i64.of(get(length)))),
  whilst(has(8), [
    set(hash, i64.xor(get(hash), round(empty, i64.load(get(at))))),
    set(hash, i64.add(times(turned(get(hash), 27n), prime1), int64(prime4))),
    move(8),
  ]),
  when(has(4), [
    set(hash, i64.xor(get(hash), times(i64.loadInt32(get(at)), prime1))),
    set(hash, i64.add(times(turned(get(hash), 23n), prime2), int64(prime3))),
    move(4),
  ]),
  whilst(has(1), [
    set(hash, i64.xor(get(hash), times(i64.loadByte(get(at)), prime5))),
    set(hash, times(turned(get(hash), 11n), prime1)),
    move(1),
  ]),
  set(hash, times(i64.xor(get(hash), i64.shiftRight(get(hash), int64(33n))), prime2)),
  set(hash, times(i64.xor(get(hash), i64.shiftRight(get(hash), int64(29n))), prime3)),
  set(hash, i64.xor(get(hash), i64.shiftRight(get(hash), int64(32n)))),
];

/** One bit in each word of a block. `length` becomes the place of the block. */
function setBits(salts: readonly number[], blockShift: number): Code {
  const upper = i32.lower(i64.shiftRight(get(hash), int64(32n)));
  const bitOf = (salt: number) =>
    i32.shiftRight(i32.multiply(i32.lower(get(hash)), int32(salt)), int32(27));
  return [
    set(length, i32.multiply(i32.shiftRight(upper, int32(blockShift)), int32(salts.length * 4))),
    ...salts.map((salt, word) =>
      i32.store(
        get(length),
        i32.or(i32.load(get(length), word * 4), i32.shiftLeft(int32(1), bitOf(salt))),
        word * 4,
      ),
    ),
  ];
}

/** Values of this many bytes are taken at once. */
const maxValueBytes = 2 ** 21;

export interface BitSetter {
  readonly maxValueBytes: number;
  /**
   * Sets the bits of PLAIN values in `words`.
   *
   * @param valueWidth bytes of a value; null: each comes after its length
   * @returns how many values there were
   */
  setBits(words: Uint32Array, values: Uint8Array, valueWidth: number | null): number;
}

/** @param blockShift what remains of the upper half of a hash is the place of its block */
export function openBitSetter(
  filterBytes: number,
  salts: readonly number[],
  blockShift: number,
): BitSetter {
  const addAll: Code = [
    whilst(i32.isLess(get(at), get(end)), [
      set(length, get(width)),
      when(i32.isZero(get(width)), [set(length, i32.load(get(at))), move(4)]),
      set(next, i32.add(get(at), get(length))),
      hashValue,
      setBits(salts, blockShift),
      set(count, i32.add(get(count), int32(1))),
    ]),
    get(count),
  ];
  const { memory, run } = assemble(3, locals, filterBytes + maxValueBytes, addAll);
  const filter = new Uint32Array(memory.buffer, 0, filterBytes / 4);
  return {
    maxValueBytes,
    setBits(words, values, valueWidth) {
      filter.set(words);
      memory.set(values, filterBytes);
      const added = run(filterBytes, filterBytes + values.length, valueWidth ?? 0);
      words.set(filter);
      return added;
    },
  };
}
