import type { Bounds } from './bounds.ts';
import { encoding } from './page.ts';
import type { ParquetColumn } from './schema.ts';
import {
  binary,
  bool,
  i16,
  i32,
  i32List,
  i64,
  nested,
  stringList,
  struct,
  structList,
  type ThriftField,
} from './thrift.ts';

export const magic = Buffer.from('PAR1');

/** In the form that parquet-mr parses. Raise the version if equal rows begin to give other bytes. */
export const createdBy = 'sluice version 1.0.0';

const repetition = { optional: 1, repeated: 2 } as const;

const convertedList = 3;

/** The names that the format gives to the two levels below a list. */
const listPath = ['list', 'element'] as const;

export interface ColumnChunk {
  readonly codec: number;
  readonly values: number;
  readonly dataOffset: number;
  readonly dictionaryOffset: number | undefined;
  readonly rawBytes: number;
  readonly compressedBytes: number;
  readonly nullCount: number | undefined;
  readonly bounds: Bounds | undefined;
}

export interface RowGroup {
  readonly rows: number;
  readonly offset: number;
  readonly chunks: readonly ColumnChunk[];
  /** The column in whose ascending order the rows are, without nulls; undefined if none is known. */
  readonly sortedBy: number | undefined;
}

export interface PageSizes {
  readonly raw: number;
  readonly compressed: number;
}

/** Version 1: every reader knows it. */
export function dataPageHeader(values: number, pageEncoding: number, sizes: PageSizes): Uint8Array {
  return struct([
    i32(1, 0),
    i32(2, sizes.raw),
    i32(3, sizes.compressed),
    nested(5, [i32(1, values), i32(2, pageEncoding), i32(3, encoding.rle), i32(4, encoding.rle)]),
  ]);
}

export function dictionaryPageHeader(entries: number, sizes: PageSizes): Uint8Array {
  return struct([
    i32(1, 2),
    i32(2, sizes.raw),
    i32(3, sizes.compressed),
    nested(7, [i32(1, entries), i32(2, encoding.plain)]),
  ]);
}

/** FileMetaData, its length, the magic bytes. @param notes nothing that differs between runs */
export function fileFooter(
  columns: readonly ParquetColumn[],
  groups: readonly RowGroup[],
  notes: readonly (readonly [string, string])[],
): Uint8Array {
  const metadata = struct([
    i32(1, 2),
    structList(2, [rootElement(columns.length), ...columns.flatMap(schemaElements)]),
    i64(3, sum(groups.map((group) => group.rows))),
    structList(
      4,
      groups.map((group, ordinal) => rowGroup(columns, group, ordinal)),
    ),
    notes.length === 0
      ? undefined
      : structList(
          5,
          notes.map(([key, value]) => struct([binary(1, key), binary(2, value)])),
        ),
    binary(6, createdBy),
    // The order of each column is that of its type; without this, readers ignore the bounds.
    structList(
      7,
      columns.map(() => struct([nested(1, [])])),
    ),
  ]);
  const length = Buffer.alloc(4);
  length.writeUInt32LE(metadata.length);
  return Buffer.concat([metadata, length, magic]);
}

function rootElement(columnCount: number): Uint8Array {
  return struct([binary(4, 'schema'), i32(5, columnCount)]);
}

/** Every column is OPTIONAL: PostgreSQL does not say whether an expression can be null. */
function schemaElements(column: ParquetColumn): readonly Uint8Array[] {
  const { name, isList, ids } = column;
  if (!isList) return [leafElement(name, column, ids?.field)];
  const group = (label: string, repetition: number, annotation: readonly ThriftField[] = []) =>
    struct([i32(3, repetition), binary(4, label), i32(5, 1), ...annotation]);
  const [middle, leaf] = listPath;
  return [
    group(name, repetition.optional, [
      i32(6, convertedList),
      ...(ids ? [i32(9, ids.field)] : []),
      nested(10, [nested(3, [])]),
    ]),
    group(middle, repetition.repeated),
    leafElement(leaf, column, ids?.element),
  ];
}

function leafElement(
  name: string,
  { type }: ParquetColumn,
  fieldId: number | undefined,
): Uint8Array {
  const { physical, width, converted, decimal, logical } = type;
  return struct([
    i32(1, physical),
    width === undefined ? undefined : i32(2, width),
    i32(3, repetition.optional),
    binary(4, name),
    converted === undefined ? undefined : i32(6, converted),
    decimal && i32(7, decimal.scale),
    decimal && i32(8, decimal.precision),
    fieldId === undefined ? undefined : i32(9, fieldId),
    logical && { id: 10, type: 12, value: logical },
  ]);
}

function rowGroup(columns: readonly ParquetColumn[], group: RowGroup, ordinal: number): Uint8Array {
  const { sortedBy } = group;
  return struct([
    structList(
      1,
      group.chunks.map((chunk, index) => columnChunk(columns[index] as ParquetColumn, chunk)),
    ),
    i64(2, sum(group.chunks.map((chunk) => chunk.rawBytes))),
    i64(3, group.rows),
    // Ascending, and there are no nulls to be first.
    sortedBy === undefined
      ? undefined
      : structList(4, [struct([i32(1, sortedBy), bool(2, false), bool(3, false)])]),
    i64(5, group.offset),
    i64(6, sum(group.chunks.map((chunk) => chunk.compressedBytes))),
    // An int16. It is optional, so later row groups omit it.
    ordinal < 0x8000 ? i16(7, ordinal) : undefined,
  ]);
}

function columnChunk({ name, type, isList }: ParquetColumn, chunk: ColumnChunk): Uint8Array {
  const hasDictionary = chunk.dictionaryOffset !== undefined;
  const encodings: number[] = [encoding.plain, encoding.rle];
  if (hasDictionary) encodings.push(encoding.rleDictionary);
  return struct([
    i64(2, 0),
    nested(3, [
      i32(1, type.physical),
      i32List(2, encodings),
      stringList(3, isList ? [name, ...listPath] : [name]),
      i32(4, chunk.codec),
      i64(5, chunk.values),
      i64(6, chunk.rawBytes),
      i64(7, chunk.compressedBytes),
      i64(9, chunk.dataOffset),
      chunk.dictionaryOffset === undefined ? undefined : i64(11, chunk.dictionaryOffset),
      statistics(chunk),
    ]),
  ]);
}

function statistics({ nullCount, bounds }: ColumnChunk) {
  if (nullCount === undefined) return undefined;
  const max = bounds?.max;
  return nested(12, [
    i64(3, nullCount),
    max && binary(5, max),
    bounds && binary(6, bounds.min),
    max && bool(7, bounds.maxIsExact),
    bounds && bool(8, bounds.minIsExact),
  ]);
}

export function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
