import { isUtf8 } from 'node:buffer';
import type { ColumnMetrics } from '../../../foundation/domain/column-metrics.ts';
import { type Order, orders } from './bounds.ts';
import { type ParquetType, physicalType } from './column-types.ts';
import type { ColumnChunk, RowGroup } from './metadata.ts';
import type { ParquetColumn } from './schema.ts';
import { successor, successorOfBytes } from './text-bounds.ts';

/** Columns of a file that a table has metrics of, as in Iceberg's own writers. */
const maxColumns = 100;

/** Characters of a text bound, and bytes of a binary one. */
const boundLength = 16;

/** The metrics of a file of a table. Lists have none. */
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
  const order = orderOf(type);
  const filled = chunks.filter(({ nullCount, values }) => nullCount !== values);
  const lowest = extreme(
    filled.map(({ bounds }) => bounds?.min),
    (one, other) => order(one, other) < 0,
  );
  const highest = extreme(
    filled.map(({ bounds }) => bounds?.max),
    (one, other) => order(one, other) > 0,
  );
  return {
    lower: lowest && singleValue(type, lowest, 'lower'),
    upper: highest && singleValue(type, highest, 'upper'),
  };
}

/** Null if one of the chunks with values does not have it. */
function extreme(
  bounds: readonly (Uint8Array | undefined)[],
  isBeyond: (one: Uint8Array, other: Uint8Array) => boolean,
): Uint8Array | null {
  let extreme: Uint8Array | null = null;
  for (const bound of bounds) {
    if (bound === undefined) return null;
    if (extreme === null || isBeyond(bound, extreme)) extreme = bound;
  }
  return extreme;
}

function orderOf({ physical }: ParquetType): Order {
  switch (physical) {
    case physicalType.boolean:
      return orders.bool;
    case physicalType.int32:
      return orders.int32;
    case physicalType.int64:
      return orders.int64;
    case physicalType.float:
      return orders.float;
    case physicalType.double:
      return orders.double;
    case physicalType.fixedBytes:
      return orders.fixed;
    default:
      return orders.bytes;
  }
}

/**
 * A bound in Iceberg's binary form of a single value. Numbers and times are as in Parquet, little-endian, but a
 * decimal is big-endian in as few bytes as it needs.
 */
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

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
