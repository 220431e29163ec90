import type { ByteWriter } from '../../../foundation/domain/byte-writer.ts';
import type { ColumnType } from '../../../foundation/domain/row-block.ts';
import { readInt64, writeInteger, writeUuid, writeWord } from './format-integers.ts';
import { writeDate, writeTimestamp } from './format-times.ts';
import type { ViewedRows } from './row-formatter.ts';
import { writeFloat4, writeFloat8 } from './write-floats.ts';

/** The bytes that a value is in. */
export type ValueBytes = Pick<ViewedRows, 'bytes' | 'view'>;

/** Writes one value that is not null: `bytes[from, end)` is the field. It ensures its own room. */
export type FieldWriter = (out: ByteWriter, value: ValueBytes, from: number, end: number) => void;

/** Maximum room for a value of a type of fixed width: its text, and bytes behind it that are written over. */
export const maxFixedBytes = 64;

/** Types with short text and nothing to escape; the same in every text format. */
export type FixedType = Exclude<
  ColumnType,
  'text' | 'json' | 'jsonb' | 'as_json' | 'bytea' | 'numeric'
>;

/**
 * Writes a value for which there is room.
 *
 * @returns the end of what was written
 */
export function putFixed(
  type: FixedType,
  target: DataView,
  at: number,
  source: DataView,
  from: number,
): number {
  switch (type) {
    case 'timestamptz':
      return writeTimestamp(target, at, source, from, true);
    case 'int4':
      return writeInteger(target, at, source.getInt32(from));
    case 'int8':
      return writeInteger(target, at, readInt64(source, from));
    case 'uuid':
      return writeUuid(target, at, source, from);
    case 'timestamp':
      return writeTimestamp(target, at, source, from, false);
    case 'date':
      return writeDate(target, at, source, from);
    case 'int2':
      return writeInteger(target, at, source.getInt16(from));
    case 'bool':
      return writeWord(target, at, source.getUint8(from) === 0 ? 'false' : 'true');
    case 'float4':
      return writeFloat4(target, at, source.getFloat32(from));
    case 'float8':
      return writeFloat8(target, at, source.getFloat64(from));
  }
}
