import type { Column } from '../../domain/row-block.ts';
import { parquetTypes } from './column-types.ts';
import type { Bounds } from './column-writer.ts';
import { encoding } from './page.ts';
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
} from './thrift.ts';

/** The four bytes that a Parquet file starts and ends with. */
export const magic = Buffer.from('PAR1');

/** In the form that parquet-mr parses. Raise the version if equal rows begin to give other bytes. */
const createdBy = 'sluice version 1.0.0';

export interface ColumnChunk {
  readonly codec: number;
  readonly values: number;
  /** Offset in the file of the first data page. */
  readonly dataOffset: number;
  readonly dictionaryOffset: number | undefined;
  /** Page headers included, in both. */
  readonly rawBytes: number;
  readonly compressedBytes: number;
  readonly nullCount: number;
  readonly bounds: Bounds | undefined;
}

export interface RowGroup {
  readonly rows: number;
  readonly offset: number;
  readonly chunks: readonly ColumnChunk[];
}

export interface PageSizes {
  readonly raw: number;
  readonly compressed: number;
}

/** parquet.thrift's PageHeader of a data page of version 1. */
export function dataPageHeader(values: number, pageEncoding: number, sizes: PageSizes): Uint8Array {
  return struct([
    i32(1, 0),
    i32(2, sizes.raw),
    i32(3, sizes.compressed),
    nested(5, [i32(1, values), i32(2, pageEncoding), i32(3, encoding.rle), i32(4, encoding.rle)]),
  ]);
}

/** parquet.thrift's PageHeader of a dictionary page. */
export function dictionaryPageHeader(entries: number, sizes: PageSizes): Uint8Array {
  return struct([
    i32(1, 2),
    i32(2, sizes.raw),
    i32(3, sizes.compressed),
    nested(7, [i32(1, entries), i32(2, encoding.plain)]),
  ]);
}

/** The end of a file: FileMetaData, its length, the magic bytes. */
export function fileFooter(columns: readonly Column[], groups: readonly RowGroup[]): Uint8Array {
  const metadata = struct([
    i32(1, 2),
    structList(2, [rootElement(columns.length), ...columns.map(schemaElement)]),
    i64(3, sum(groups.map((group) => group.rows))),
    structList(
      4,
      groups.map((group, ordinal) => rowGroup(columns, group, ordinal)),
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
function schemaElement({ name, type }: Column): Uint8Array {
  const { physical, converted, logical } = parquetTypes[type];
  return struct([
    i32(1, physical),
    i32(3, 1),
    binary(4, name),
    converted === undefined ? undefined : i32(6, converted),
    logical && { id: 10, type: 12, value: logical },
  ]);
}

function rowGroup(columns: readonly Column[], group: RowGroup, ordinal: number): Uint8Array {
  return struct([
    structList(
      1,
      group.chunks.map((chunk, index) => columnChunk(columns[index] as Column, chunk)),
    ),
    i64(2, sum(group.chunks.map((chunk) => chunk.rawBytes))),
    i64(3, group.rows),
    i64(5, group.offset),
    i64(6, sum(group.chunks.map((chunk) => chunk.compressedBytes))),
    // An int16. It is optional, so later row groups omit it.
    ordinal < 0x8000 ? i16(7, ordinal) : undefined,
  ]);
}

function columnChunk({ name, type }: Column, chunk: ColumnChunk): Uint8Array {
  const hasDictionary = chunk.dictionaryOffset !== undefined;
  return struct([
    i64(2, 0),
    nested(3, [
      i32(1, parquetTypes[type].physical),
      i32List(2, [
        encoding.plain,
        encoding.rle,
        ...(hasDictionary ? [encoding.rleDictionary] : []),
      ]),
      stringList(3, [name]),
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
  const max = bounds?.max;
  return nested(12, [
    i64(3, nullCount),
    max && binary(5, max),
    bounds && binary(6, bounds.min),
    max && bool(7, bounds.maxIsExact),
    bounds && bool(8, bounds.minIsExact),
  ]);
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
