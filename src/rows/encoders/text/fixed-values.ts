import { type ByteWriter, viewOf } from '../../../foundation/domain/byte-writer.ts';
import {
  readInt64,
  writeInteger,
  writeWhole,
  writePair,
  writePairAnd,
  writeUuid,
  writeWord,
} from './format-integers.ts';
import { type ColumnType, epochDays } from '../../../foundation/domain/row-block.ts';
import { float4Text, float8Text } from './format-floats.ts';
import type { ViewedRows } from './row-formatter.ts';

export type ValueBytes = Pick<ViewedRows, 'bytes' | 'view'>;

/** Writes one value that is not null: `bytes[from, end)` is the field. It ensures its own room. */
export type FieldWriter = (out: ByteWriter, value: ValueBytes, from: number, end: number) => void;

/** Maximum room for a value of a type of fixed width: its text, and bytes behind it that are written over. */
export const maxFixedBytes = 64;

/** Types with short text and nothing to escape; the same in every text format. */
export type FixedType = Exclude<ColumnType, 'text' | 'json' | 'jsonb' | 'as_json' | 'bytea'>;

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
 * Most floats are decimals of a few digits. The engine's string of them takes two to seven times as long. A decimal that
 * reads back as the value is its shortest form if it has no more digits than every float keeps apart: 15 of a float8, 6
 * of a float4.
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

function writeFloat8(target: DataView, at: number, value: number): number {
  const size = Math.abs(value);
  if (size >= LEAST && size < DOUBLE_BELOW) {
    const millionths = Math.round(size * MILLION);
    if (millionths / MILLION === size) return writeDecimal(target, at, value < 0, millionths);
  }
  return writeWord(target, at, float8Text(value));
}

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

const DAY_US = 86_400_000_000;
const MAX_DATE = 0x7fff_ffff;
const MIN_DATE = -0x8000_0000;
const MAX_TIMESTAMP = 2n ** 63n - 1n;
const MIN_TIMESTAMP = -(2n ** 63n);
const WORD = 0x1_0000_0000;
/** 2^53 / 2^32: with a high half below this a number represents an int64 exactly. */
const EXACT_HIGH = 0x20_0000;

/** Texts of days, at the slot of a number's lowest bits: rows near each other have few days. All 16 bytes are written. */
const DAYS = 512;
const TEXT_BYTES = 16;
const keptDays = new Float64Array(DAYS).fill(Number.NaN);
const keptTexts = Buffer.alloc(DAYS * TEXT_BYTES);
const keptView = viewOf(keptTexts);
const keptLengths = new Uint8Array(DAYS);
const keptBeforeChrist = new Uint8Array(DAYS);

const COLON = 0x3a;

/** `2024-03-01`; infinity, BC and years past 9999 as PostgreSQL writes them. */
function writeDate(target: DataView, at: number, source: DataView, from: number): number {
  const days = source.getInt32(from);
  if (days === MAX_DATE) return writeWord(target, at, 'infinity');
  if (days === MIN_DATE) return writeWord(target, at, '-infinity');
  const slot = slotOf(days);
  const to = writeDay(target, at, slot);
  return keptBeforeChrist[slot] === 1 ? writeWord(target, to, ' BC') : to;
}

/** `2024-03-01T00:00:00.000000`, with `Z` if it is an instant; `infinity` and ` BC` as PostgreSQL writes them. */
function writeTimestamp(
  target: DataView,
  at: number,
  source: DataView,
  from: number,
  isInstant: boolean,
): number {
  const high = source.getInt32(from);
  let day: number;
  let rest: number;
  if (high < EXACT_HIGH && high >= -EXACT_HIGH) {
    const value = high * WORD + source.getUint32(from + 4);
    day = Math.floor(value / DAY_US);
    rest = value - day * DAY_US;
  } else {
    const value = source.getBigInt64(from);
    if (value === MAX_TIMESTAMP) return writeWord(target, at, 'infinity');
    if (value === MIN_TIMESTAMP) return writeWord(target, at, '-infinity');
    const restOf = BigInt.asIntN(
      64,
      ((value % 86_400_000_000n) + 86_400_000_000n) % 86_400_000_000n,
    );
    rest = Number(restOf);
    day = Number((value - restOf) / 86_400_000_000n);
  }
  const slot = slotOf(day);
  let to = writeDay(target, at, slot);
  const second = (rest / 1_000_000) | 0;
  const micros = (rest - second * 1_000_000) | 0;
  const minute = (second / 60) | 0;
  const hour = (minute / 60) | 0;
  target.setUint8(to, 0x54); // T
  writePairAnd(target, to + 1, hour, COLON);
  writePairAnd(target, to + 4, minute - hour * 60, COLON);
  writePairAnd(target, to + 7, second - minute * 60, POINT);
  const upper = (micros / 10_000) | 0;
  const lower = micros - upper * 10_000;
  const middle = (lower / 100) | 0;
  writePair(target, to + 10, upper);
  writePair(target, to + 12, middle);
  writePair(target, to + 14, lower - middle * 100);
  to += 16;
  if (isInstant) {
    target.setUint8(to, 0x5a); // Z
    to += 1;
  }
  return keptBeforeChrist[slot] === 1 ? writeWord(target, to, ' BC') : to;
}

function slotOf(day: number): number {
  const slot = day & (DAYS - 1);
  if (keptDays[slot] !== day) formatDay(day, slot);
  return slot;
}

function writeDay(target: DataView, at: number, slot: number): number {
  const text = slot * TEXT_BYTES;
  // They are copied as numbers of eight bytes: a digit in the first byte is never that of a NaN.
  target.setFloat64(at, keptView.getFloat64(text));
  target.setFloat64(at + 8, keptView.getFloat64(text + 8));
  return at + (keptLengths[slot] as number);
}

/** Day number to calendar date: http://howardhinnant.github.io/date_algorithms.html#civil_from_days */
function formatDay(day: number, slot: number): void {
  const shifted = day + epochDays + 719_468;
  const era = Math.floor(shifted / 146_097);
  const dayOfEra = shifted - era * 146_097;
  const yearOfEra = Math.floor(
    (dayOfEra -
      Math.floor(dayOfEra / 1460) +
      Math.floor(dayOfEra / 36_524) -
      Math.floor(dayOfEra / 146_096)) /
      365,
  );
  const dayOfYear =
    dayOfEra - (365 * yearOfEra + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100));
  const shiftedMonth = Math.floor((5 * dayOfYear + 2) / 153);
  const dayOfMonth = dayOfYear - Math.floor((153 * shiftedMonth + 2) / 5) + 1;
  const month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9;
  const year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0);
  const shownYear = year <= 0 ? 1 - year : year;
  const pad = (value: number, digits: number) => value.toString().padStart(digits, '0');
  keptLengths[slot] = keptTexts.write(
    `${pad(shownYear, 4)}-${pad(month, 2)}-${pad(dayOfMonth, 2)}`,
    slot * TEXT_BYTES,
    'latin1',
  );
  keptBeforeChrist[slot] = year <= 0 ? 1 : 0;
  keptDays[slot] = day;
}
