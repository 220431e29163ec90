import type { Column, ColumnType, RowBlock } from '../../src/foundation/domain/row-block.ts';

/**
 * A value of a test's row. bool: boolean. int2, int4, float4, float8: number. int8: bigint. text,
 * uuid, json, jsonb, as_json: string. numeric: its text, as JSON has it. bytea: bytes. date: days since 1970 as a number; timestamp and
 * timestamptz: microseconds since 1970 as a bigint; the three also 'infinity' and '-infinity'.
 */
export type TestValue = null | boolean | number | bigint | string | Uint8Array;
export type TestRow = readonly TestValue[];

export function columnsOf(types: Readonly<Record<string, ColumnType>>): readonly Column[] {
  return Object.entries(types).map(([name, type]) => ({ name, type, sourceType: type }));
}

/** The block that a COPY of these rows would give: a length comes before each field's bytes. */
export function rowBlock(columns: readonly Column[], rows: readonly TestRow[]): RowBlock {
  const offsets = new Int32Array(rows.length * columns.length);
  const lengths = new Int32Array(rows.length * columns.length);
  const parts: Buffer[] = [];
  let at = 0;
  const push = (part: Buffer): void => {
    parts.push(part);
    at += part.length;
  };
  rows.forEach((row, rowIndex) => {
    push(int16(columns.length));
    columns.forEach(({ type }, columnIndex) => {
      const field = encodeField(type, row[columnIndex] ?? null);
      const index = rowIndex * columns.length + columnIndex;
      push(int32(field?.length ?? -1));
      offsets[index] = at;
      lengths[index] = field?.length ?? -1;
      if (field !== null) push(field);
    });
  });
  return { columns, rowCount: rows.length, bytes: Buffer.concat(parts), offsets, lengths };
}

/** The rows in blocks of `size`. */
export function rowBlocks(
  columns: readonly Column[],
  rows: readonly TestRow[],
  size: number,
): readonly RowBlock[] {
  const blocks: RowBlock[] = [];
  for (let from = 0; from < rows.length; from += size) {
    blocks.push(rowBlock(columns, rows.slice(from, from + size)));
  }
  return blocks;
}

const epochDays = 10_957;
const epochMicros = 946_684_800_000_000n;

function encodeField(type: ColumnType, value: TestValue): Buffer | null {
  if (value === null) return null;
  switch (type) {
    case 'bool':
      return Buffer.from([value === true ? 1 : 0]);
    case 'int2':
      return int16(Number(value));
    case 'int4':
      return int32(Number(value));
    case 'int8':
      return int64(BigInt(value as bigint));
    case 'float4': {
      const bytes = Buffer.alloc(4);
      bytes.writeFloatBE(Number(value));
      return bytes;
    }
    case 'float8': {
      const bytes = Buffer.alloc(8);
      bytes.writeDoubleBE(Number(value));
      return bytes;
    }
    case 'uuid':
      return Buffer.from(String(value).replaceAll('-', ''), 'hex');
    case 'jsonb':
      return Buffer.from(`\u0001${String(value)}`);
    case 'text':
    case 'json':
    case 'as_json':
      return Buffer.from(String(value));
    case 'bytea':
      return Buffer.from(value as Uint8Array);
    case 'date':
      if (value === 'infinity') return int32(0x7fffffff);
      return int32(value === '-infinity' ? -0x80000000 : Number(value) - epochDays);
    case 'timestamp':
    case 'timestamptz':
      if (value === 'infinity') return int64(2n ** 63n - 1n);
      return int64(value === '-infinity' ? -(2n ** 63n) : BigInt(value as bigint) - epochMicros);
  }
}

export function int16(value: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeInt16BE(value);
  return bytes;
}

export function int32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(value);
  return bytes;
}

function int64(value: bigint): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigInt64BE(value);
  return bytes;
}
