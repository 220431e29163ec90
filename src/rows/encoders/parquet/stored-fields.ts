import type { SchemaElement } from 'hyparquet';
import type { ByteWriter } from '../../../foundation/domain/byte-writer.ts';
import { type Column, type ColumnType, epochDays } from '../../../foundation/domain/row-block.ts';
import { type ReadLeaf, textOfJsonColumn } from './read-values.ts';

/** A column of a file, and how its stored values become fields of row blocks again. */
export interface StoredColumn {
  readonly column: Column;
  /** Appends the bytes of a value that is not null. */
  put(out: ByteWriter, value: unknown): void;
}

/**
 * The column of blocks from which an encoder makes the same values again. Types that are stored alike get one type: an
 * interval is a text.
 *
 * @param leaf of the file, with its annotations
 * @param sourceType PostgreSQL's name of the type; empty if the file does not say it
 * @param isJson whether a text is stored as JSON is: without bounds
 */
export function storedColumn(
  name: string,
  leaf: ReadLeaf,
  sourceType: string,
  isJson: boolean,
): StoredColumn {
  if (leaf.isList || leaf.isBare) {
    const column = { name, type: 'as_json' as const, sourceType };
    return { column, put: (out, value) => putJson(out, value, leaf, sourceType) };
  }
  const type = typeOf(leaf.element, sourceType, isJson);
  return { column: { name, type, sourceType }, put: writers[type] };
}

/** The types that values of a file can have. */
type StoredType = Exclude<ColumnType, 'jsonb' | 'as_json'>;

function typeOf(element: SchemaElement, sourceType: string, isJson: boolean): StoredType {
  const { type, converted_type: converted, logical_type: logical } = element;
  switch (type) {
    case 'BOOLEAN':
      return 'bool';
    case 'INT32':
      return converted === 'DATE' ? 'date' : converted === 'INT_16' ? 'int2' : 'int4';
    case 'INT64':
      if (converted !== 'TIMESTAMP_MICROS') return 'int8';
      return logical?.type === 'TIMESTAMP' && logical.isAdjustedToUTC ? 'timestamptz' : 'timestamp';
    case 'FLOAT':
      return 'float4';
    case 'DOUBLE':
      return 'float8';
    case 'BYTE_ARRAY':
      if (converted !== 'UTF8') return 'bytea';
      return sourceType === 'uuid' ? 'uuid' : isJson ? 'json' : 'text';
    default:
      throw new TypeError(`a column of type ${type} is not one of ours`);
  }
}

const epochMicros = BigInt(epochDays) * 86_400_000_000n;

const writers: Readonly<Record<StoredType, StoredColumn['put']>> = {
  bool: (out, value) => out.put(value === true ? 1 : 0),
  int2(out, value) {
    out.ensure(2);
    out.view.setInt16(out.length, value as number);
    out.length += 2;
  },
  int4: (out, value) => putInt32(out, value as number),
  int8: (out, value) => putInt64(out, value as bigint),
  float4(out, value) {
    out.ensure(4);
    out.view.setFloat32(out.length, value as number);
    out.length += 4;
  },
  float8(out, value) {
    out.ensure(8);
    out.view.setFloat64(out.length, value as number);
    out.length += 8;
  },
  text: putBytes,
  json: putBytes,
  bytea: putBytes,
  uuid: (out, value) => putBytes(out, Buffer.from(textOf(value).replaceAll('-', ''), 'hex')),
  date: (out, value) => putInt32(out, (value as number) - epochDays),
  timestamp: (out, value) => putInt64(out, (value as bigint) - epochMicros),
  timestamptz: (out, value) => putInt64(out, (value as bigint) - epochMicros),
};

/** Writes what PostgreSQL's to_json would have given: a number, a string, or an array. */
function putJson(out: ByteWriter, value: unknown, leaf: ReadLeaf, sourceType: string): void {
  const text = textOfJsonColumn(value, leaf, sourceType);
  const isText = !leaf.isList && leaf.element.converted_type === 'TIME_MICROS';
  putBytes(out, Buffer.from(isText ? JSON.stringify(text) : text));
}

function putInt32(out: ByteWriter, value: number): void {
  out.ensure(4);
  out.view.setInt32(out.length, value);
  out.length += 4;
}

function putInt64(out: ByteWriter, value: bigint): void {
  out.ensure(8);
  out.view.setBigInt64(out.length, value);
  out.length += 8;
}

function putBytes(out: ByteWriter, value: unknown): void {
  const bytes = value as Uint8Array;
  out.ensure(bytes.length);
  out.bytes.set(bytes, out.length);
  out.length += bytes.length;
}

function textOf(value: unknown): string {
  return Buffer.from(value as Uint8Array).toString('latin1');
}
