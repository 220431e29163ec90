import type { ByteWriter } from '../../../foundation/domain/byte-writer.ts';
import type { ColumnType } from '../../../foundation/domain/row-block.ts';
import { readInt64, writeInteger, writeUuid, writeWord } from './format-integers.ts';
import { writeDate, writeTimestamp } from './format-times.ts';
import type { ViewedRows } from './row-formatter.ts';
import { writeWhole } from '../../../foundation/domain/decimal-digits.ts';
import { float4Text, float8Text } from './format-floats.ts';

/** The bytes that a value is in. */
export type ValueBytes = Pick<ViewedRows, 'bytes' | 'view'>;

/** Writes one value that is not null: `bytes[from, end)` is the field. It ensures its own room. */
export type FieldWriter = (out: ByteWriter, value: ValueBytes, from: number, end: number) => void;

/** Maximum room for a value of a type of fixed width: its text, and bytes behind it that are written over. */
export const maxFixedBytes = 64;

/** Types with short text and nothing to escape; the same in every text format. */
export type FixedType = Exclude<ColumnType, 'text' | 'json' | 'jsonb' | 'as_json' | 'bytea'>;

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

/**
 * Most floats are decimals of a few digits, such as amounts. Their digits are written without a string of the engine, which
 * takes two to seven times as long. A decimal that reads back as the value is its shortest form if it has no more digits than every
 * float keeps apart: 15 of a float8, 6 of a float4.
 */

const ZERO = 48;
const MINUS = 45;
const POINT = 46;

/** Below this PostgreSQL writes an exponent; zero has a sign. */
const LEAST = 1e-4;
/** With six decimals there are at most 15 digits. */
const DOUBLE_BELOW = 1e9;
/** With two decimals there are at most 6 digits. */
const FLOAT_BELOW = 1e4;
const MILLION = 1e6;
const HUNDREDTH = 10_000;

/** @returns the end of what was written, at most 26 bytes */
function writeFloat8(target: DataView, at: number, value: number): number {
  const size = Math.abs(value);
  if (size >= LEAST && size < DOUBLE_BELOW) {
    const millionths = Math.round(size * MILLION);
    if (millionths / MILLION === size) return writeDecimal(target, at, value < 0, millionths);
  }
  return writeWord(target, at, float8Text(value));
}

/** @param value a float4. @returns as `writeFloat8` */
function writeFloat4(target: DataView, at: number, value: number): number {
  const size = Math.abs(value);
  if (size >= LEAST && size < FLOAT_BELOW) {
    const hundredths = Math.round(size * 100);
    if (Math.fround(hundredths / 100) === size) {
      return writeDecimal(target, at, value < 0, hundredths * HUNDREDTH);
    }
  }
  return writeWord(target, at, float4Text(value));
}

function writeDecimal(
  target: DataView,
  at: number,
  isNegative: boolean,
  millionths: number,
): number {
  const whole = Math.floor(millionths / MILLION);
  let rest = (millionths - whole * MILLION) | 0;
  let to = at;
  if (isNegative) target.setUint8(to++, MINUS);
  to = writeWhole(target, to, whole);
  if (rest === 0) return to;
  let decimals = 6;
  if (rest % HUNDREDTH === 0) {
    rest = (rest / HUNDREDTH) | 0;
    decimals = 2;
  }
  while (rest % 10 === 0) {
    rest = (rest / 10) | 0;
    decimals -= 1;
  }
  target.setUint8(to, POINT);
  const end = to + 1 + decimals;
  for (let digit = end - 1; digit > to; digit -= 1) {
    const quotient = (rest / 10) | 0;
    target.setUint8(digit, ZERO + rest - quotient * 10);
    rest = quotient;
  }
  return end;
}
