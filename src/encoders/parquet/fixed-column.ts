import { ByteWriter } from '../../domain/byte-writer.ts';
import { type ColumnType, epochDays } from '../../domain/row-block.ts';
import type { BloomFilter } from './bloom-filter.ts';
import { type Bounds, ChunkBounds, exact, type Order, orders } from './bounds.ts';
import type { SparePool } from './byte-arrays.ts';
import { physicalType } from './column-types.ts';
import type { ChunkSummary, ColumnWriter, ViewedBlock } from './column-writer.ts';
import type { JsonNumber } from './json-numbers.ts';
import { OpenPage, type PageLimits, type RawPage } from './page.ts';
import { EncodingChoice, type Recoder, type SizeOf } from './recoders.ts';

/** `epochDays` in microseconds, 946,684,800,000,000, as the two halves of an int64. */
const epochMicrosHigh = 220_417;
const epochMicrosLow = 993_517_568;

/** How values of one fixed-width type are written, and their bounds in the page so far. */
export interface FixedValues {
  /** Appends the value at `at`. The page has room for 8 bytes. `length` and `bytes` are the field's. */
  put(page: OpenPage, view: DataView, at: number, length: number, bytes: Buffer): void;
  /** The bounds of the values since the last call; undefined if there are none. */
  takeBounds(): Bounds | undefined;
  readonly order: Order;
  /** Of timestamps: whether none of the same values is before the one that was put before it. */
  readonly isAscending?: boolean;
}

/** A column of numbers, times or booleans: pages without a dictionary, PLAIN or recoded. */
export class FixedColumn implements ColumnWriter {
  readonly #column: number;
  readonly #values: FixedValues;
  readonly #page: OpenPage;
  readonly #chunk: ChunkBounds;
  readonly #choice: EncodingChoice;
  readonly #filter: BloomFilter | undefined;
  #nullCount = 0;

  /**
   * @param recoder of schema 2
   * @param filter of a column whose chunks have one
   */
  constructor(
    column: number,
    values: FixedValues,
    limits: PageLimits,
    spares: SparePool,
    recoder?: Recoder,
    filter?: BloomFilter,
  ) {
    this.#filter = filter;
    this.#column = column;
    this.#values = values;
    this.#chunk = new ChunkBounds(values.order);
    this.#choice = new EncodingChoice(recoder);
    this.#page = new OpenPage(limits, spares);
  }

  get pageIsFull(): boolean {
    return this.#page.isFull;
  }

  get openBytes(): number {
    return this.#page.valueBytes;
  }

  get filterBytes(): number {
    return this.#filter?.maxBytes ?? 0;
  }

  append({ block, view }: ViewedBlock, from: number, to: number): number {
    const { bytes, offsets, lengths } = block;
    const width = block.columns.length;
    const page = this.#page;
    let field = from * width + this.#column;
    let row = from;
    while (row < to && !page.isFull) {
      const length = lengths[field] as number;
      if (length < 0) page.addNull();
      else {
        page.sink.ensure(8);
        this.#values.put(page, view, offsets[field] as number, length, bytes);
        page.addPresent();
      }
      field += width;
      row++;
    }
    return row;
  }

  choose(sizeOf: SizeOf): Promise<void> {
    return this.#choice.choose(this.#page, sizeOf);
  }

  cutPage(): RawPage | undefined {
    const { rows, nulls } = this.#page;
    if (rows === 0) return undefined;
    this.#nullCount += nulls;
    // Read before the bounds are taken, which starts it anew.
    const { isAscending = false } = this.#values;
    const bounds = this.#values.takeBounds();
    if (rows > nulls) this.#chunk.add(bounds, isAscending);
    this.#filter?.add(this.#page.sink, this.#page.valuesStart);
    return this.#page.cut(this.#choice.apply(this.#page), bounds);
  }

  finishChunk(): ChunkSummary {
    const nullCount = this.#nullCount;
    const { bounds, isAscending } = this.#chunk.take();
    this.#nullCount = 0;
    this.#choice.startChunk();
    return {
      dictionary: undefined,
      nullCount,
      bounds,
      order: this.#values.order,
      filter: this.#filter?.take(bounds),
      isAscending: isAscending && nullCount === 0,
    };
  }
}

function int32Values(read: (view: DataView, at: number) => number): FixedValues {
  let min = Number.POSITIVE_INFINITY;
  let max = Number.NEGATIVE_INFINITY;
  const plain = (value: number): Buffer => {
    const bytes = Buffer.alloc(4);
    bytes.writeInt32LE(value);
    return bytes;
  };
  return {
    order: orders.int32,
    put({ sink }, view, at) {
      const value = read(view, at);
      sink.view.setInt32(sink.length, value, true);
      sink.length += 4;
      if (value < min) min = value;
      if (value > max) max = value;
    },
    takeBounds() {
      const bounds = min <= max ? exact(plain(min), plain(max)) : undefined;
      min = Number.POSITIVE_INFINITY;
      max = Number.NEGATIVE_INFINITY;
      return bounds;
    },
  };
}

/** int64 in two halves, since a bigint per value is slow; adds the given halves, without overflow. */
function int64Values(addHigh: number, addLow: number): FixedValues {
  let isAscending = true;
  let minHigh = 0;
  let minLow = 0;
  let maxHigh = 0;
  let maxLow = 0;
  let isEmpty = true;
  const plain = (high: number, low: number): Buffer => {
    const bytes = Buffer.alloc(8);
    bytes.writeUInt32LE(low);
    bytes.writeInt32LE(high, 4);
    return bytes;
  };
  return {
    order: orders.int64,
    get isAscending() {
      return isAscending && addHigh !== 0;
    },
    put({ sink }, view, at) {
      const sum = view.getUint32(at + 4) + addLow;
      const low = sum >>> 0;
      const high = view.getInt32(at) + addHigh + (sum > 0xffffffff ? 1 : 0);
      sink.view.setUint32(sink.length, low, true);
      sink.view.setInt32(sink.length + 4, high, true);
      sink.length += 8;
      if (isEmpty || high < minHigh || (high === minHigh && low < minLow)) {
        minHigh = high;
        minLow = low;
      }
      if (isEmpty || high > maxHigh || (high === maxHigh && low > maxLow)) {
        maxHigh = high;
        maxLow = low;
      } else if (high !== maxHigh || low !== maxLow) isAscending = false;
      isEmpty = false;
    },
    takeBounds() {
      const bounds = isEmpty ? undefined : exact(plain(minHigh, minLow), plain(maxHigh, maxLow));
      isEmpty = true;
      isAscending = true;
      return bounds;
    },
  };
}

/**
 * No bounds if a NaN is among the values, and a zero bound covers both zeros, as parquet.thrift says of
 * ColumnOrder: readers disagree on the order of NaN.
 */
function floatValues(bytesEach: 4 | 8): FixedValues {
  let min = Number.POSITIVE_INFINITY;
  let max = Number.NEGATIVE_INFINITY;
  let hasNaN = false;
  const plain = (value: number): Buffer => {
    const bytes = Buffer.alloc(bytesEach);
    if (bytesEach === 4) bytes.writeFloatLE(value);
    else bytes.writeDoubleLE(value);
    return bytes;
  };
  return {
    order: bytesEach === 4 ? orders.float : orders.double,
    put({ sink }, view, at) {
      const value = bytesEach === 4 ? view.getFloat32(at) : view.getFloat64(at);
      // Copies the bits, not the number: a NaN keeps its payload.
      if (bytesEach === 4) sink.view.setInt32(sink.length, view.getInt32(at), true);
      else {
        sink.view.setInt32(sink.length, view.getInt32(at + 4), true);
        sink.view.setInt32(sink.length + 4, view.getInt32(at), true);
      }
      sink.length += bytesEach;
      if (value < min) min = value;
      if (value > max) max = value;
      if (Number.isNaN(value)) hasNaN = true;
    },
    takeBounds() {
      const bounds =
        min <= max && !hasNaN
          ? exact(plain(min === 0 ? -0 : min), plain(max === 0 ? 0 : max))
          : undefined;
      min = Number.POSITIVE_INFINITY;
      max = Number.NEGATIVE_INFINITY;
      hasNaN = false;
      return bounds;
    },
  };
}

function boolValues(hasBounds: boolean): FixedValues {
  /** Which of false and true were seen, as bits. */
  let seen = 0;
  return {
    order: orders.bool,
    put(page, view, at) {
      const { sink } = page;
      const bit = (page.rows - page.nulls) % 8;
      if (bit === 0) sink.bytes[sink.length++] = 0;
      const last = sink.length - 1;
      const value = view.getUint8(at);
      sink.bytes[last] = (sink.bytes[last] as number) | (value << bit);
      seen |= 1 << value;
    },
    takeBounds() {
      const bounds = exact(Buffer.of(seen === 2 ? 1 : 0), Buffer.of(seen === 1 ? 0 : 1));
      const isKnown = hasBounds && seen !== 0;
      seen = 0;
      return isKnown ? bounds : undefined;
    },
  };
}

/** Values that come as JSON text. */
export function jsonValues({ type, read, write }: JsonNumber): FixedValues {
  const { int32, int64 } = physicalType;
  const order =
    type.physical === int32 ? orders.int32 : type.physical === int64 ? orders.int64 : orders.fixed;
  let min: number | bigint | undefined;
  let max: number | bigint | undefined;
  const plain = (value: number | bigint): Buffer => {
    const bytes = new ByteWriter(16);
    write(bytes, value);
    return bytes.take(0);
  };
  return {
    order,
    put({ sink }, _view, at, length, bytes) {
      const value = read(bytes, at, at + length);
      write(sink, value);
      if (min === undefined || value < min) min = value;
      if (max === undefined || value > max) max = value;
    },
    takeBounds() {
      const bounds =
        min === undefined || max === undefined ? undefined : exact(plain(min), plain(max));
      min = undefined;
      max = undefined;
      return bounds;
    },
  };
}

/** The writer of values of a fixed width; undefined for types of varying length. */
export function fixedValues(type: ColumnType, schema: number): FixedValues | undefined {
  switch (type) {
    case 'bool':
      return boolValues(schema !== 1);
    case 'int2':
      return int32Values((view, at) => view.getInt16(at));
    case 'int4':
      return int32Values((view, at) => view.getInt32(at));
    case 'date':
      return int32Values((view, at) => view.getInt32(at) + epochDays);
    case 'int8':
      return int64Values(0, 0);
    case 'timestamp':
    case 'timestamptz':
      return int64Values(epochMicrosHigh, epochMicrosLow);
    case 'float4':
      return floatValues(4);
    case 'float8':
      return floatValues(8);
    default:
      return undefined;
  }
}
