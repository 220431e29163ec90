import { ByteWriter, viewOf } from '../../../foundation/domain/byte-writer.ts';
import { QUOTE } from '../../../foundation/domain/json-bytes.ts';
import type { ColumnType } from '../../../foundation/domain/row-block.ts';
import { writeUuid } from '../text/format-integers.ts';
import { decodeJsonString, isEscaped } from '../text/json-text.ts';
import { encoding, OpenPage, putByteArray, type RawPage } from './page.ts';
import type { ChunkSummary, ColumnParts, ColumnWriter, ViewedBlock } from './column-writer.ts';
import { bitWidthOf, encodeHybrid, maxHybridBytes } from './levels.ts';
import { TextBounds } from './bounds.ts';

/** After this many values a dictionary with too many of them is given up. */
const sampleValues = 1024;

const mostDistinct = sampleValues / 2;

/** Length of a uuid's text, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`. */
const uuidTextBytes = 36;

/** A page of dictionary indices may represent this many times the bytes of a plain page. */
const indexedPageFactor = 2;

/** A chunk of text or uuid starts with a dictionary; if it does not pay, or grows too large, the rest is PLAIN. */
export class ByteArrayColumn implements ColumnWriter {
  readonly #column: number;
  readonly #type: ColumnType | 'plain';
  readonly #page: OpenPage;
  readonly #isText: boolean;
  /** Of the chunk's values that are not in a dictionary. */
  readonly #bounds: TextBounds;
  readonly #hasByteBounds: boolean;
  #dictionary: Dictionary | undefined;
  /** The dictionary of this chunk's first pages, after it was given up. */
  #kept: Dictionary | undefined;
  /** The dictionary of an earlier chunk. A new one for each chunk would be garbage of MiB that V8 frees late. */
  #spare: Dictionary | undefined;
  #needsDictionary = false;
  /** The open page's values as indices, while there is a dictionary. */
  readonly #indices: Uint16Array;
  #indexCount = 0;
  /** The open page's size without the dictionary. */
  #plainBytes = 0;
  #chunkValues = 0;
  #hasIndexedPages = false;
  #nullCount = 0;

  /** @param type `plain`: JSON; the content of a string is written as text */
  constructor(column: number, type: ColumnType | 'plain', { limits, spares }: ColumnParts) {
    this.#hasByteBounds = type === 'bytea';
    this.#bounds = new TextBounds(type !== 'bytea');
    this.#column = column;
    this.#type = type;
    this.#page = new OpenPage(limits, spares);
    this.#isText = type === 'text' || type === 'uuid' || type === 'plain';
    this.#indices = new Uint16Array(this.#isText ? limits.rows : 0);
    this.#startChunk();
  }

  get pageIsFull(): boolean {
    const { limits } = this.#page;
    return this.#page.isFull || this.#plainBytes >= limits.bytes * indexedPageFactor;
  }

  get openBytes(): number {
    return this.#page.valueBytes + this.#indexCount * 2 + (this.#dictionary?.sink.length ?? 0);
  }

  append({ block, view }: ViewedBlock, from: number, to: number): number {
    if (this.#needsDictionary) this.#openDictionary();
    const { offsets, lengths } = block;
    const width = block.columns.length;
    let field = from * width + this.#column;
    let row = from;
    while (row < to && !this.pageIsFull) {
      const length = lengths[field] as number;
      if (length < 0) this.#page.addNull();
      else {
        this.#put(block.bytes, view, offsets[field] as number, length);
        this.#page.addPresent(1);
      }
      field += width;
      row++;
    }
    return row;
  }

  #put(bytes: Buffer, view: DataView, from: number, length: number): void {
    const { sink } = this.#page;
    if (this.#type === 'uuid') {
      // Written at the position of a plain value, so that the dictionary can read it there.
      sink.ensure(uuidTextBytes + 4);
      writeUuid(sink.view, sink.length + 4, view, from);
      this.#putText(sink.bytes, sink.view, sink.length + 4, uuidTextBytes);
    } else if (this.#type === 'plain') {
      if (bytes[from] !== QUOTE) this.#putText(bytes, view, from, length);
      else if (!isEscaped(bytes, from, from + length)) {
        this.#putText(bytes, view, from + 1, length - 2);
      } else {
        const text = decodeJsonString(bytes, from, from + length);
        this.#putText(text, viewOf(text), 0, text.length);
      }
    } else if (this.#isText) this.#putText(bytes, view, from, length);
    // The first byte of a jsonb is the version of its form.
    else if (this.#type === 'jsonb') putByteArray(sink, bytes, view, from + 1, length - 1);
    else {
      if (this.#hasByteBounds) this.#bounds.add(bytes, view, from, length);
      putByteArray(sink, bytes, view, from, length);
    }
  }

  #putText(bytes: Buffer, view: DataView, from: number, length: number): void {
    if (this.#dictionary !== undefined) {
      const index = this.#indexOf(this.#dictionary, bytes, view, from, length);
      if (index >= 0) {
        this.#indices[this.#indexCount++] = index;
        this.#plainBytes += length + 4;
        return;
      }
      // Giving up the dictionary overwrites the position of the uuid's text with plain values.
      const value = Buffer.from(bytes.subarray(from, from + length));
      this.#giveUpDictionary(this.#dictionary);
      this.#putText(value, new DataView(value.buffer, value.byteOffset, length), 0, length);
      return;
    }
    this.#bounds.add(bytes, view, from, length);
    const { sink } = this.#page;
    if (bytes !== sink.bytes) putByteArray(sink, bytes, view, from, length);
    else {
      sink.view.setUint32(sink.length, length, true);
      sink.length += length + 4;
    }
  }

  /** -1 if the dictionary must not be used any longer. */
  #indexOf(
    dictionary: Dictionary,
    bytes: Buffer,
    view: DataView,
    from: number,
    length: number,
  ): number {
    this.#chunkValues++;
    if (this.#chunkValues === sampleValues && dictionary.size > mostDistinct) return -1;
    return dictionary.indexOf(bytes, view, from, length);
  }

  /** The open page's values become plain; earlier pages keep their indices. */
  #giveUpDictionary(dictionary: Dictionary): void {
    this.#addEntries(dictionary);
    for (let value = 0; value < this.#indexCount; value++) {
      dictionary.copyEntry(this.#indices[value] as number, this.#page.sink);
    }
    this.#indexCount = 0;
    this.#plainBytes = 0;
    if (this.#hasIndexedPages) this.#kept = dictionary;
    else this.#spare = dictionary;
    this.#dictionary = undefined;
  }

  #addEntries(dictionary: Dictionary): void {
    const { bytes, view } = dictionary.sink;
    for (let index = 0; index < dictionary.size; index++) {
      dictionary.visit(index, (from, length) => this.#bounds.add(bytes, view, from, length));
    }
  }

  cutPage(): RawPage | undefined {
    if (this.#page.rows === 0) return undefined;
    this.#nullCount += this.#page.nulls;
    if (this.#dictionary !== undefined && this.#indexCount > 0 && !this.#pays(this.#dictionary)) {
      this.#giveUpDictionary(this.#dictionary);
    }
    // A page of nulls has no values and shows nothing about the dictionary.
    if (this.#dictionary === undefined || this.#indexCount === 0) {
      return this.#page.cut(encoding.plain);
    }
    this.#putIndices(this.#dictionary);
    this.#hasIndexedPages = true;
    return this.#page.cut(encoding.rleDictionary);
  }

  /** Asked only at the first page: the pages after it are already written with the dictionary. */
  #pays(dictionary: Dictionary): boolean {
    if (this.#hasIndexedPages) return true;
    const indexBytes = (this.#indexCount * bitWidthOf(dictionary.size)) / 8;
    return dictionary.sink.length + indexBytes < this.#plainBytes * 0.75;
  }

  #putIndices(dictionary: Dictionary): void {
    const { sink } = this.#page;
    // At least 1: not every reader accepts a width of 0.
    const bitWidth = Math.max(1, bitWidthOf(dictionary.size - 1));
    sink.ensure(1 + maxHybridBytes(this.#indexCount, bitWidth));
    sink.bytes[sink.length] = bitWidth;
    sink.length = encodeHybrid(
      sink.bytes,
      sink.length + 1,
      this.#indices,
      this.#indexCount,
      bitWidth,
    );
    this.#indexCount = 0;
    this.#plainBytes = 0;
  }

  finishChunk(): ChunkSummary {
    if (this.#dictionary) this.#addEntries(this.#dictionary);
    const dictionary = this.#kept ?? (this.#hasIndexedPages ? this.#dictionary : undefined);
    const bounds = this.#bounds.take();
    const summary: ChunkSummary = {
      dictionary: dictionary && {
        values: dictionary.size,
        encoding: encoding.plain,
        body: dictionary.sink.bytes.subarray(0, dictionary.sink.length),
        release: () => {
          this.#spare = dictionary;
        },
      },
      nullCount: this.#nullCount,
      bounds,
      isAscending: false,
    };
    this.#startChunk();
    return summary;
  }

  #startChunk(): void {
    this.#dictionary = undefined;
    this.#needsDictionary = this.#isText;
    this.#kept = undefined;
    this.#hasIndexedPages = false;
    this.#chunkValues = 0;
    this.#nullCount = 0;
  }

  /** Opened with the first rows of the chunk: the one before is compressed by then. */
  #openDictionary(): void {
    this.#needsDictionary = false;
    this.#dictionary = this.#spare ?? new Dictionary(this.#page.limits.bytes);
    this.#spare = undefined;
    this.#dictionary.clear();
  }
}

/** Maximum distinct values; indices fit in 16 bits. */
const maxEntries = 32_768;

const firstSlots = 256;

/** A longer search means values chosen to collide: the column then gets no dictionary. */
const maxProbes = 256;

/** In the order of their first appearance, PLAIN as in the dictionary page; a hash table with open addressing. */
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

  /** A new value is added; -1 if the dictionary is full. `view` is of the same memory as `bytes`. */
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

  clear(): void {
    this.sink.length = 0;
    this.size = 0;
    // It is as small as a new one's: when a search is too long must not depend on earlier values.
    this.#slots = this.#room.subarray(0, firstSlots).fill(-1);
  }

  copyEntry(index: number, target: ByteWriter): void {
    const start = this.#starts[index] as number;
    const length = this.sink.view.getUint32(start, true);
    putByteArray(target, this.sink.bytes, this.sink.view, start + 4, length);
  }

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
