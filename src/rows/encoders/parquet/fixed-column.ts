import { ByteWriter } from '../../../foundation/domain/byte-writer.ts';
import { type ColumnType, epochDays, type RowBlock } from '../../../foundation/domain/row-block.ts';
import { type Bounds, exact } from './bounds.ts';
import { physicalType } from './column-types.ts';
import type { ChunkSummary, ColumnParts, ColumnWriter, ViewedBlock } from './column-writer.ts';
import type { JsonNumber } from './json-numbers.ts';
import { encoding, OpenPage, type RawPage } from './page.ts';

export class FixedColumn implements ColumnWriter {
  readonly #column: number;
  readonly #values: FixedValues;
  readonly #page: OpenPage;
  #nullCount = 0;

  constructor(column: number, values: FixedValues, { limits, spares }: ColumnParts) {
    this.#column = column;
    this.#values = values;
    this.#page = new OpenPage(limits, spares);
  }

  get pageIsFull(): boolean {
    return this.#page.isFull;
  }

  get openBytes(): number {
    return this.#page.valueBytes;
  }

  append(rows: ViewedBlock, from: number, to: number): number {
    const { columns, lengths } = rows.block;
    const step = columns.length;
    const { width } = this.#values;
    const page = this.#page;
    let row = from;
    while (row < to && !page.isFull) {
      const first = row * step + this.#column;
      const count = Math.min(to - row, page.roomFor(width));
      page.sink.ensure(count * width);
      const before = page.sink.length;
      this.#values.put(page, rows, first, count);
      // Not of booleans, whose values share bytes.
      const hasAll = width > 1 && page.sink.length - before === count * width;
      if (hasAll) page.addPresent(count);
      else page.addRows(lengths, first, step, count);
      row += count;
    }
    return row;
  }

  cutPage(): RawPage | undefined {
    if (this.#page.rows === 0) return undefined;
    this.#nullCount += this.#page.nulls;
    return this.#page.cut(encoding.plain);
  }

  finishChunk(): ChunkSummary {
    const nullCount = this.#nullCount;
    // Read before the bounds are taken, which starts it anew.
    const { isAscending = false } = this.#values;
    const bounds = this.#values.takeBounds();
    this.#nullCount = 0;
    return {
      dictionary: undefined,
      nullCount,
      bounds,
      isAscending: isAscending && bounds !== undefined && nullCount === 0,
    };
  }
}

/** `epochDays` in microseconds, 946,684,800,000,000, as the two halves of an int64. */
const epochMicrosHigh = 220_417;
const epochMicrosLow = 993_517_568;
const word = 0x1_0000_0000;

interface FixedValues {
  readonly width: number;
  /** `first` is the field of the first. The page has room. A call for each value would take longer than it. */
  put(page: OpenPage, rows: ViewedBlock, first: number, count: number): void;
  takeBounds(): Bounds | undefined;
  /** True if no value is before the one that was put before it, since the bounds were taken. Only timestamps say so. */
  readonly isAscending?: boolean;
}

const endOf = ({ columns }: RowBlock, first: number, count: number): number =>
  first + count * columns.length;

/** @param bits of a value in the block; what is added must not overflow */
function int32Values(bits: 16 | 32, added: number): FixedValues {
  let min = Number.POSITIVE_INFINITY;
  let max = Number.NEGATIVE_INFINITY;
  const plain = (value: number): Buffer => {
    const bytes = Buffer.alloc(4);
    bytes.writeInt32LE(value);
    return bytes;
  };
  return {
    width: 4,
    put({ sink }, { block, view }, first, count) {
      const { offsets, lengths } = block;
      const step = block.columns.length;
      const end = endOf(block, first, count);
      const target = sink.view;
      let at = sink.length;
      let low = min;
      let high = max;
      for (let field = first; field < end; field += step) {
        if ((lengths[field] as number) < 0) continue;
        const from = offsets[field] as number;
        const value = bits === 16 ? view.getInt16(from) : view.getInt32(from) + added;
        target.setInt32(at, value, true);
        at += 4;
        if (value < low) low = value;
        if (value > high) high = value;
      }
      sink.length = at;
      min = low;
      max = high;
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
    width: 8,
    get isAscending() {
      return isAscending && addHigh !== 0;
    },
    put({ sink }, { block, view }, first, count) {
      const { offsets, lengths } = block;
      const step = block.columns.length;
      const end = endOf(block, first, count);
      const target = sink.view;
      let at = sink.length;
      let rises = isAscending;
      let leastHigh = minHigh;
      let leastLow = minLow;
      let mostHigh = maxHigh;
      let mostLow = maxLow;
      for (let field = first; field < end; field += step) {
        if ((lengths[field] as number) < 0) continue;
        const from = offsets[field] as number;
        const sum = view.getUint32(from + 4) + addLow;
        const low = sum >>> 0;
        const high = view.getInt32(from) + addHigh + (sum >= word ? 1 : 0);
        target.setUint32(at, low, true);
        target.setInt32(at + 4, high, true);
        at += 8;
        if (isEmpty) {
          isEmpty = false;
          leastHigh = mostHigh = high;
          leastLow = mostLow = low;
        } else if (high > mostHigh || (high === mostHigh && low > mostLow)) {
          mostHigh = high;
          mostLow = low;
        } else if (high !== mostHigh || low !== mostLow) {
          rises = false;
          if (high < leastHigh || (high === leastHigh && low < leastLow)) {
            leastHigh = high;
            leastLow = low;
          }
        }
      }
      sink.length = at;
      isAscending = rises;
      minHigh = leastHigh;
      minLow = leastLow;
      maxHigh = mostHigh;
      maxLow = mostLow;
    },
    takeBounds() {
      const bounds = isEmpty ? undefined : exact(plain(minHigh, minLow), plain(maxHigh, maxLow));
      isEmpty = true;
      isAscending = true;
      return bounds;
    },
  };
}

/** As parquet.thrift says of ColumnOrder: no bounds with a NaN, and a zero bound covers both zeros. */
function floatValues(width: 4 | 8): FixedValues {
  let min = Number.POSITIVE_INFINITY;
  let max = Number.NEGATIVE_INFINITY;
  let hasNaN = false;
  const plain = (value: number): Buffer => {
    const bytes = Buffer.alloc(width);
    if (width === 4) bytes.writeFloatLE(value);
    else bytes.writeDoubleLE(value);
    return bytes;
  };
  return {
    width,
    put({ sink }, { block, view }, first, count) {
      const { offsets, lengths } = block;
      const step = block.columns.length;
      const end = endOf(block, first, count);
      const target = sink.view;
      let at = sink.length;
      let low = min;
      let high = max;
      for (let field = first; field < end; field += step) {
        if ((lengths[field] as number) < 0) continue;
        const from = offsets[field] as number;
        const value = width === 4 ? view.getFloat32(from) : view.getFloat64(from);
        // Copies the bits, not the number: a NaN keeps its payload.
        if (width === 4) target.setInt32(at, view.getInt32(from), true);
        else {
          target.setInt32(at, view.getInt32(from + 4), true);
          target.setInt32(at + 4, view.getInt32(from), true);
        }
        at += width;
        if (value < low) low = value;
        if (value > high) high = value;
        if (Number.isNaN(value)) hasNaN = true;
      }
      sink.length = at;
      min = low;
      max = high;
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

function boolValues(): FixedValues {
  /** Which of false and true were seen, as bits. */
  let seen = 0;
  return {
    width: 1,
    put({ sink, rows, nulls }, { block, view }, first, count) {
      const { offsets, lengths } = block;
      const step = block.columns.length;
      const end = endOf(block, first, count);
      let bit = (rows - nulls) % 8;
      for (let field = first; field < end; field += step) {
        if ((lengths[field] as number) < 0) continue;
        if (bit === 0) sink.bytes[sink.length++] = 0;
        const last = sink.length - 1;
        const value = view.getUint8(offsets[field] as number);
        sink.bytes[last] = (sink.bytes[last] as number) | (value << bit);
        seen |= 1 << value;
        bit = (bit + 1) % 8;
      }
    },
    takeBounds() {
      const bounds = exact(Buffer.of(seen === 2 ? 1 : 0), Buffer.of(seen === 1 ? 0 : 1));
      const isKnown = seen !== 0;
      seen = 0;
      return isKnown ? bounds : undefined;
    },
  };
}

const widthOf = ({ type: { physical, width = 8 } }: JsonNumber): number =>
  physical === physicalType.int32 ? 4 : width;

export function readValues(number: JsonNumber): FixedValues {
  const { read } = number;
  let min: number | bigint | undefined;
  let max: number | bigint | undefined;
  return {
    width: widthOf(number),
    put({ sink }, { block }, first, count) {
      const { bytes, offsets, lengths } = block;
      const step = block.columns.length;
      const end = endOf(block, first, count);
      for (let field = first; field < end; field += step) {
        const length = lengths[field] as number;
        if (length < 0) continue;
        const from = offsets[field] as number;
        const value = read(bytes, from, from + length);
        number.write(sink, value);
        if (min === undefined || value < min) min = value;
        if (max === undefined || value > max) max = value;
      }
    },
    takeBounds() {
      const bounds =
        min === undefined || max === undefined
          ? undefined
          : exact(plainOf(number, min), plainOf(number, max));
      min = undefined;
      max = undefined;
      return bounds;
    },
  };
}

function plainOf({ write }: JsonNumber, value: number | bigint): Buffer {
  const bytes = new ByteWriter(16);
  write(bytes, value);
  return bytes.take(0);
}

export function fixedValues(type: ColumnType): FixedValues | undefined {
  switch (type) {
    case 'bool':
      return boolValues();
    case 'int2':
      return int32Values(16, 0);
    case 'int4':
      return int32Values(32, 0);
    case 'date':
      return int32Values(32, epochDays);
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
