import { ByteWriter } from '../../../foundation/domain/byte-writer.ts';
import { putBytes } from '../text/plain-text.ts';
import { encodeHybrid, encodeRun, maxHybridBytes, minRun } from './levels.ts';

/** The engine copies longer values. */
const longCopy = 160;

/** Its length, little-endian, and its bytes. The view is of the same memory as the source. */
export function putByteArray(
  out: ByteWriter,
  source: Buffer,
  sourceView: DataView,
  from: number,
  length: number,
): void {
  out.ensure(length + 4);
  out.view.setUint32(out.length, length, true);
  const at = out.length + 4;
  if (length > longCopy) source.copy(out.bytes, at, from, from + length);
  else putBytes(out.view, at, sourceView, from, from + length);
  out.length = at + length;
}

/** So many pages may be in flight: a steady run of pages needs no new memory. */
const sparesOfOneSize = 4;

export class SparePool {
  readonly #spares = new Map<number, ByteWriter[]>();

  /** A sink of that capacity, empty except for `start` bytes. */
  take(capacity: number, start: number): ByteWriter {
    const sink = this.#spares.get(capacity)?.pop() ?? new ByteWriter(capacity);
    sink.length = start;
    return sink;
  }

  give(sink: ByteWriter): void {
    const { length } = sink.bytes;
    const spares = this.#spares.get(length) ?? [];
    if (spares.length < sparesOfOneSize) this.#spares.set(length, [...spares, sink]);
  }
}

export const encoding = { plain: 0, rle: 3, rleDictionary: 8 } as const;

export interface PageLimits {
  readonly bytes: number;
  readonly rows: number;
}

export interface RawPage {
  /** Rows of a data page, entries of a dictionary page. */
  readonly values: number;
  readonly encoding: number;
  readonly body: Buffer;
  readonly release: () => void;
}

export class OpenPage {
  sink: ByteWriter;
  rows = 0;
  nulls = 0;
  readonly limits: PageLimits;
  readonly #present: Uint8Array;
  readonly #head: number;
  readonly #spares: SparePool;

  constructor(limits: PageLimits, spares: SparePool) {
    this.limits = limits;
    this.#spares = spares;
    this.#present = new Uint8Array(limits.rows);
    // Levels are known at the end of the page but come before the values, so they get room here.
    this.#head = 4 + maxHybridBytes(limits.rows, 1);
    this.sink = spares.take(this.#head + 1024, this.#head);
  }

  get valueBytes(): number {
    return this.sink.length - this.#head;
  }

  get isFull(): boolean {
    return this.rows >= this.limits.rows || this.valueBytes >= this.limits.bytes;
  }

  /** The number of rows with values of `width` bytes that it surely takes; at least one unless it is full. */
  roomFor(width: number): number {
    const { limits, rows, valueBytes } = this;
    return Math.min(limits.rows - rows, Math.ceil((limits.bytes - valueBytes) / width));
  }

  /** Their values are written: every `step`th length from `first` on, null if negative. */
  addRows(lengths: Int32Array, first: number, step: number, count: number): void {
    const end = this.rows + count;
    for (let row = this.rows, field = first; row < end; row++, field += step) {
      if ((lengths[field] as number) < 0) this.#markNull(row);
    }
    this.rows = end;
  }

  /** Their values are written; none is null. */
  addPresent(count: number): void {
    this.rows += count;
  }

  addNull(): void {
    this.#markNull(this.rows++);
  }

  #markNull(row: number): void {
    // Most pages have no null: until the first one nothing is noted.
    if (this.nulls === 0) this.#present.fill(1);
    this.#present[row] = 0;
    this.nulls++;
  }

  cut(pageEncoding: number): RawPage {
    const { sink } = this;
    // A page begins with the bytes of the levels.
    const prefix = 4;
    const levelsEnd = this.#putLevels(sink.bytes, prefix);
    const start = this.#head - levelsEnd;
    sink.bytes.copyWithin(start + prefix, prefix, levelsEnd);
    sink.view.setUint32(start, levelsEnd - prefix, true);
    const page: RawPage = {
      values: this.rows,
      encoding: pageEncoding,
      body: sink.bytes.subarray(start, sink.length),
      release: () => this.#keep(sink),
    };
    this.sink = this.#spares.take(this.#isHuge(sink) ? this.#head : sink.bytes.length, this.#head);
    this.rows = 0;
    this.nulls = 0;
    return page;
  }

  #putLevels(target: Uint8Array, at: number): number {
    if (this.nulls > 0) return encodeHybrid(target, at, this.#present, this.rows, 1);
    if (this.rows >= minRun) return encodeRun(target, at, 1, this.rows, 1);
    this.#present.fill(1, 0, this.rows);
    return encodeHybrid(target, at, this.#present, this.rows, 1);
  }

  #keep(sink: ByteWriter): void {
    if (!this.#isHuge(sink)) this.#spares.give(sink);
  }

  /** Enlarged by one huge value, so not a measure for later pages. */
  #isHuge(sink: ByteWriter): boolean {
    return sink.bytes.length > this.limits.bytes * 4 + this.#head;
  }
}
