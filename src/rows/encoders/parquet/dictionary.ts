import { ByteWriter } from '../../../foundation/domain/byte-writer.ts';
import { putByteArray } from './byte-arrays.ts';

/** Maximum distinct values; indices fit in 16 bits. */
const maxEntries = 32_768;

const firstSlots = 256;

/** A longer search means values chosen to collide: the column then gets no dictionary. */
const maxProbes = 256;

/**
 * The distinct values of a column chunk, in the order of their first appearance, PLAIN encoded as in the
 * dictionary page. Values are found by a hash table with open addressing.
 */
export class Dictionary {
  readonly sink: ByteWriter;
  size = 0;
  readonly #maxBytes: number;
  #slots = new Int32Array(firstSlots).fill(-1);
  /** The memory of `#slots`, which may be larger. */
  #room = this.#slots;
  /** By entry: the position of its length in `sink`, and its hash. */
  #starts = new Int32Array(128);
  #hashes = new Int32Array(128);

  constructor(maxBytes: number) {
    this.sink = new ByteWriter(4096);
    this.#maxBytes = maxBytes;
  }

  /**
   * The index of the value, which is added if it is new; -1 if the dictionary is full. `view` is of the
   * same memory as `bytes`.
   */
  indexOf(bytes: Buffer, view: DataView, from: number, length: number): number {
    const hash = hashOf(bytes, view, from, length);
    const mask = this.#slots.length - 1;
    let slot = hash & mask;
    for (let probe = 0; probe < maxProbes; probe++) {
      const entry = this.#slots[slot] as number;
      if (entry === -1) return this.#add(slot, hash, bytes, view, from, length);
      if (this.#hashes[entry] === hash && this.#holds(entry, bytes, from, length)) return entry;
      slot = (slot + 1) & mask;
    }
    return -1;
  }

  /** Forgets all values and keeps the memory. */
  clear(): void {
    this.sink.length = 0;
    this.size = 0;
    // It is as small as a new one's: when a search is too long must not depend on earlier values.
    this.#slots = this.#room.subarray(0, firstSlots).fill(-1);
  }

  /** Appends entry `index` to `target` as a PLAIN value. */
  copyEntry(index: number, target: ByteWriter): void {
    const start = this.#starts[index] as number;
    const length = this.sink.view.getUint32(start, true);
    putByteArray(target, this.sink.bytes, this.sink.view, start + 4, length);
  }

  /** Calls back with the position in `sink` and the length of the entry. */
  visit(index: number, visitor: (from: number, length: number) => void): void {
    const start = this.#starts[index] as number;
    visitor(start + 4, this.sink.view.getUint32(start, true));
  }

  #holds(entry: number, bytes: Buffer, from: number, length: number): boolean {
    const start = this.#starts[entry] as number;
    const own = this.sink.bytes;
    if (this.sink.view.getUint32(start, true) !== length) return false;
    for (let index = 0; index < length; index++) {
      if (own[start + 4 + index] !== bytes[from + index]) return false;
    }
    return true;
  }

  #add(
    slot: number,
    hash: number,
    bytes: Buffer,
    view: DataView,
    from: number,
    length: number,
  ): number {
    if (this.size === maxEntries || this.sink.length + 4 + length > this.#maxBytes) return -1;
    const entry = this.size++;
    if (entry === this.#starts.length) this.#grow();
    this.#starts[entry] = this.sink.length;
    this.#hashes[entry] = hash;
    putByteArray(this.sink, bytes, view, from, length);
    if (entry * 2 >= this.#slots.length - 2) this.#rehash();
    else this.#slots[slot] = entry;
    return entry;
  }

  #grow(): void {
    const starts = new Int32Array(this.#starts.length * 2);
    const hashes = new Int32Array(starts.length);
    starts.set(this.#starts);
    hashes.set(this.#hashes);
    this.#starts = starts;
    this.#hashes = hashes;
  }

  /** Doubles the table, so that it stays at most half full. */
  #rehash(): void {
    const size = this.#slots.length * 2;
    if (this.#room.length < size) this.#room = new Int32Array(size);
    const slots = this.#room.subarray(0, size).fill(-1);
    const mask = slots.length - 1;
    for (let entry = 0; entry < this.size; entry++) {
      let slot = (this.#hashes[entry] as number) & mask;
      while (slots[slot] !== -1) slot = (slot + 1) & mask;
      slots[slot] = entry;
    }
    this.#slots = slots;
  }
}

/** Murmur3's mixing, four bytes at a time. */
function hashOf(bytes: Buffer, view: DataView, from: number, length: number): number {
  let hash = length;
  let index = 0;
  for (; index + 4 <= length; index += 4) {
    const word = Math.imul(view.getInt32(from + index, true), 0xcc9e2d51);
    hash ^= Math.imul((word << 15) | (word >>> 17), 0x1b873593);
    hash = (Math.imul((hash << 13) | (hash >>> 19), 5) + 0xe6546b64) | 0;
  }
  for (; index < length; index++) {
    hash = Math.imul(hash ^ (bytes[from + index] as number), 0x01000193);
  }
  hash ^= hash >>> 16;
  hash = Math.imul(hash, 0x85ebca6b);
  hash ^= hash >>> 13;
  return hash;
}
