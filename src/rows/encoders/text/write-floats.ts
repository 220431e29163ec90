import { writeWhole } from '../../../foundation/domain/decimal-digits.ts';
import { float4Text, float8Text } from './format-floats.ts';
import { writeWord } from './format-integers.ts';

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
export function writeFloat8(target: DataView, at: number, value: number): number {
  const size = Math.abs(value);
  if (size >= LEAST && size < DOUBLE_BELOW) {
    const millionths = Math.round(size * MILLION);
    if (millionths / MILLION === size) return writeDecimal(target, at, value < 0, millionths);
  }
  return writeWord(target, at, float8Text(value));
}

/** @param value a float4. @returns as `writeFloat8` */
export function writeFloat4(target: DataView, at: number, value: number): number {
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
    const left = (rest / 10) | 0;
    target.setUint8(digit, ZERO + rest - left * 10);
    rest = left;
  }
  return end;
}
