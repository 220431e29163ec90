import type { ByteWriter } from '../../domain/byte-writer.ts';
import type { ColumnType } from '../../domain/row-block.ts';
import { float4Text, float8Text } from './format-floats.ts';
import { readInt16, readInt32, readInt64, writeInteger, writeUuid } from './format-integers.ts';
import { writeDate, writeTimestamp } from './format-times.ts';

/** Writes one value that is not null: `bytes[from, end)` is the field. It ensures its own room. */
export type FieldWriter = (out: ByteWriter, bytes: Buffer, from: number, end: number) => void;

/** Maximum text length of the types of fixed width. */
export const maxFixedBytes = 48;

/** Types with short text and nothing to escape; the same in every text format. */
export type FixedType = Exclude<ColumnType, 'text' | 'json' | 'jsonb' | 'as_json' | 'bytea'>;

/**
 * Writes a value for which there is room.
 *
 * @returns the end of what was written
 */
export function putFixed(
  type: FixedType,
  target: Buffer,
  at: number,
  bytes: Buffer,
  from: number,
): number {
  switch (type) {
    case 'timestamptz':
      return writeTimestamp(target, at, bytes, from, true);
    case 'int4':
      return writeInteger(target, at, readInt32(bytes, from));
    case 'int8':
      return writeInteger(target, at, readInt64(bytes, from));
    case 'uuid':
      return writeUuid(target, at, bytes, from);
    case 'timestamp':
      return writeTimestamp(target, at, bytes, from, false);
    case 'date':
      return writeDate(target, at, bytes, from);
    case 'int2':
      return writeInteger(target, at, readInt16(bytes, from));
    case 'bool':
      return writeWord(target, at, bytes[from] ? 'true' : 'false');
    case 'float4':
      return writeWord(target, at, float4Text(bytes.readFloatBE(from)));
    case 'float8':
      return writeWord(target, at, float8Text(bytes.readDoubleBE(from)));
  }
}

/** An ASCII text: its few characters by hand, which is faster than a call into the engine. */
function writeWord(target: Buffer, at: number, word: string): number {
  for (let index = 0; index < word.length; index += 1) target[at + index] = word.charCodeAt(index);
  return at + word.length;
}
