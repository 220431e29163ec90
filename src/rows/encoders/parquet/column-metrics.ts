import { isUtf8 } from 'node:buffer';
import type { ColumnMetrics } from '../../../foundation/domain/column-metrics.ts';
import { type ParquetType, physicalType } from './column-types.ts';
import { type ColumnChunk, type RowGroup, sum } from './metadata.ts';
import type { ParquetColumn } from './schema.ts';
import { successor, successorOfBytes } from './bounds.ts';

/** Columns of a file that a table has metrics of, as in Iceberg's own writers. */
const maxColumns = 100;

/** Characters of a text bound, and bytes of a binary one. */
const boundLength = 16;

export function columnMetricsOf(
  columns: readonly ParquetColumn[],
  groups: readonly RowGroup[],
): readonly ColumnMetrics[] {
  return columns.slice(0, maxColumns).flatMap(({ type, isList, ids }, at) => {
    if (isList || !ids) return [];
    const chunks = groups.flatMap((group) => group.chunks[at] ?? []);
    const nulls = chunks.map(({ nullCount }) => nullCount);
    return {
      id: ids.field,
      bytes: sum(chunks.map(({ compressedBytes }) => compressedBytes)),
      values: sum(chunks.map(({ values }) => values)),
      nulls: nulls.every((count) => count !== undefined) ? sum(nulls) : null,
      ...boundsOf(type, chunks),
    };
  });
}

function boundsOf(
  type: ParquetType,
  chunks: readonly ColumnChunk[],
): Pick<ColumnMetrics, 'lower' | 'upper'> {
  const filled = chunks.filter(({ nullCount, values }) => nullCount !== values);
  const mins = filled.map(({ bounds }) => bounds?.min);
  const maxs = filled.map(({ bounds }) => bounds?.max);
  const order = orders.get(type.physical) ?? Buffer.compare;
  const lowest = extreme(mins, order);
  const highest = extreme(maxs, (one, other) => order(other, one));
  return {
    lower: lowest && singleValue(type, lowest, 'lower'),
    upper: highest && singleValue(type, highest, 'upper'),
  };
}

/** Null if one of the chunks with values does not have it. */
function extreme(bounds: readonly (Uint8Array | undefined)[], order: Order): Uint8Array | null {
  let extreme: Uint8Array | null = null;
  for (const bound of bounds) {
    if (bound === undefined) return null;
    if (extreme === null || order(bound, extreme) < 0) extreme = bound;
  }
  return extreme;
}

type Order = (one: Uint8Array, other: Uint8Array) => number;

function numericOrder(read: (view: DataView) => number | bigint): Order {
  const decode = (bytes: Uint8Array) =>
    read(new DataView(bytes.buffer, bytes.byteOffset, bytes.length));
  return (one, other) => {
    const [left, right] = [decode(one), decode(other)];
    return left < right ? -1 : left > right ? 1 : 0;
  };
}

const orders: ReadonlyMap<number, Order> = new Map([
  [physicalType.boolean, numericOrder((view) => view.getUint8(0))],
  [physicalType.int32, numericOrder((view) => view.getInt32(0, true))],
  [physicalType.int64, numericOrder((view) => view.getBigInt64(0, true))],
  [physicalType.float, numericOrder((view) => view.getFloat32(0, true))],
  [physicalType.double, numericOrder((view) => view.getFloat64(0, true))],
  [
    physicalType.fixedBytes,
    // Big-endian in two's complement, of one width.
    (one, other) => {
      const sign = ((one[0] as number) >> 7) - ((other[0] as number) >> 7);
      return sign === 0 ? Buffer.compare(one, other) : -sign;
    },
  ],
]);

/** Numbers and times are as in Parquet, little-endian, but a decimal is big-endian in as few bytes as it needs. */
function singleValue(
  { physical, decimal, tableType }: ParquetType,
  bound: Uint8Array,
  side: 'lower' | 'upper',
): Uint8Array | null {
  const bytes = Buffer.from(bound);
  if (decimal) return shortest(physical === physicalType.fixedBytes ? bytes : bytes.reverse());
  if (tableType === 'binary') return cutBytes(bytes, side);
  return tableType === 'string' ? cutText(bytes, side) : bytes;
}

/** Two's complement, big-endian, without leading bytes that only repeat the sign. */
function shortest(bytes: Buffer): Buffer {
  let from = 0;
  const repeatsSign = () => {
    const [first = 0, second = 0] = bytes.subarray(from, from + 2);
    return (first === 0 && second < 0x80) || (first === 0xff && second >= 0x80);
  };
  while (from < bytes.length - 1 && repeatsSign()) from += 1;
  return bytes.subarray(from);
}

function cutBytes(bytes: Buffer, side: 'lower' | 'upper'): Uint8Array | null {
  if (bytes.length <= boundLength) return bytes;
  const cut = bytes.subarray(0, boundLength);
  return side === 'lower' ? cut : (successorOfBytes(cut) ?? null);
}

function cutText(bytes: Buffer, side: 'lower' | 'upper'): Uint8Array | null {
  // A database without an encoding has such bytes: readers would take other characters for them.
  if (!isUtf8(bytes)) return null;
  const characters = Array.from(bytes.toString());
  if (characters.length <= boundLength) return bytes;
  const cut = Buffer.from(characters.slice(0, boundLength).join(''));
  return side === 'lower' ? cut : (successor(cut) ?? null);
}
