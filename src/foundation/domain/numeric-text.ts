import { writePair, writeWhole } from './decimal-digits.ts';

/**
 * PostgreSQL's binary numeric (`numeric_send`): int16 number of digits, int16 weight of the first, uint16 sign,
 * uint16 digits after the point, then digits to the base 10,000. Printed as `numeric_out` and `to_json` do.
 */

const MINUS = 0x2d;
const POINT = 0x2e;
const ZERO = 0x30;
const headerBytes = 8;
/** Decimal digits of a digit. */
const places = 4;

const negative = 0x4000;
/** The words as JSON strings, by sign. */
const words: ReadonlyMap<number, Buffer> = new Map([
  [0xc000, Buffer.from('"NaN"')],
  [0xd000, Buffer.from('"Infinity"')],
  [0xf000, Buffer.from('"-Infinity"')],
]);

const uint16 = (bytes: Buffer, at: number): number =>
  ((bytes[at] as number) << 8) | (bytes[at + 1] as number);

const signOf = (bytes: Buffer, from: number): number => uint16(bytes, from + 4);

/** The bytes of its JSON text. */
export function numericTextBytes(bytes: Buffer, from: number): number {
  const sign = signOf(bytes, from);
  if (sign > negative) return words.get(sign)?.length ?? 0;
  const weight = (uint16(bytes, from + 2) << 16) >> 16;
  const scale = uint16(bytes, from + 6);
  const hasDigits = uint16(bytes, from) > 0;
  const first = hasDigits ? uint16(bytes, from + headerBytes) : 0;
  const whole = weight < 0 ? 1 : weight * places + widthOf(first);
  return (sign === 0 ? 0 : 1) + whole + (scale === 0 ? 0 : scale + 1);
}

/**
 * Writes the JSON text of a number below 10^8 with at most four digits after the point from `at` on, which may be
 * four bytes before the number itself: the text is no longer than the two together.
 *
 * @returns the end of what was written; -1 if it is another number, and nothing was written
 */
export function writeShortNumeric(bytes: DataView, at: number, from: number): number {
  const weight = bytes.getInt16(from + 2);
  const sign = bytes.getUint16(from + 4);
  const scale = bytes.getUint16(from + 6);
  if (weight < -1 || weight > 1 || sign > negative || scale > places) return -1;
  const end = from + headerBytes + bytes.getUint16(from) * 2;
  let next = from + headerBytes;
  let whole = 0;
  for (let power = weight; power >= 0; power -= 1) {
    whole = whole * 10_000 + (next < end ? bytes.getUint16(next) : 0);
    next += 2;
  }
  const fraction = next < end ? bytes.getUint16(next) : 0;
  let to = at;
  if (sign === negative) bytes.setUint8(to++, MINUS);
  to = writeWhole(bytes, to, whole);
  if (scale === 0) return to;
  bytes.setUint8(to++, POINT);
  const high = (fraction * 5243) >>> 19;
  const low = fraction - high * 100;
  if (scale === 1) bytes.setUint8(to, ZERO + ((high * 103) >>> 10));
  else writePair(bytes, to, high);
  if (scale === 3) bytes.setUint8(to + 2, ZERO + ((low * 103) >>> 10));
  else if (scale === 4) writePair(bytes, to + 2, low);
  return to + scale;
}

const widthOf = (digit: number): number =>
  digit < 10 ? 1 : digit < 100 ? 2 : digit < 1000 ? 3 : 4;

/**
 * Writes the JSON text. It may be written over the number itself, which is read first.
 *
 * @returns the end of what was written
 */
export function writeNumeric(target: Buffer, at: number, bytes: Buffer, from: number): number {
  const sign = signOf(bytes, from);
  if (sign > negative) return at + (words.get(sign)?.copy(target, at) ?? 0);
  const count = uint16(bytes, from);
  const weight = (uint16(bytes, from + 2) << 16) >> 16;
  const scale = uint16(bytes, from + 6);
  const digits = count <= fewDigits.length ? fewDigits : new Uint16Array(count);
  for (let index = 0, next = from + headerBytes; index < count; index += 1, next += 2) {
    digits[index] = uint16(bytes, next);
  }
  let to = at;
  if (sign === negative) {
    target[to] = MINUS;
    to += 1;
  }
  if (weight < 0) {
    target[to] = ZERO;
    to += 1;
  } else {
    const first = count > 0 ? (digits[0] as number) : 0;
    to = writeEnd(target, to, first, widthOf(first));
    for (let index = 1; index <= weight; index += 1) {
      to = writeDigit(target, to, index < count ? (digits[index] as number) : 0);
    }
  }
  if (scale === 0) return to;
  target[to] = POINT;
  to += 1;
  for (let rest = scale, index = weight + 1; rest > 0; rest -= places, index += 1) {
    const digit = index >= 0 && index < count ? (digits[index] as number) : 0;
    to = rest >= places ? writeDigit(target, to, digit) : writeStart(target, to, digit, rest);
  }
  return to;
}

/** Room for the digits of most numbers. */
const fewDigits = new Uint16Array(16);

/** All four decimal digits. */
function writeDigit(target: Buffer, at: number, digit: number): number {
  const high = (digit * 5243) >>> 19;
  const low = digit - high * 100;
  const highTens = (high * 103) >>> 10;
  const lowTens = (low * 103) >>> 10;
  target[at] = ZERO + highTens;
  target[at + 1] = ZERO + high - highTens * 10;
  target[at + 2] = ZERO + lowTens;
  target[at + 3] = ZERO + low - lowTens * 10;
  return at + places;
}

/** The last `width` decimal digits. */
function writeEnd(target: Buffer, at: number, digit: number, width: number): number {
  let rest = digit;
  for (let to = at + width - 1; to >= at; to -= 1) {
    const next = (rest / 10) | 0;
    target[to] = ZERO + rest - next * 10;
    rest = next;
  }
  return at + width;
}

/** The first `width` decimal digits, less than four. */
function writeStart(target: Buffer, at: number, digit: number, width: number): number {
  const divisor = width === 1 ? 1000 : width === 2 ? 100 : 10;
  return writeEnd(target, at, (digit / divisor) | 0, width);
}
