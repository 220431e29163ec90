import { numericTextBytes, writeNumeric } from '../../../foundation/domain/numeric-text.ts';
import { exact } from './bounds.ts';
import { physicalType } from './column-types.ts';
import { type FixedValues, plainOf, readValues } from './fixed-values.ts';
import type { JsonNumber } from './json-numbers.ts';

/**
 * Columns of PostgreSQL's binary numeric as DECIMAL, without their text. Nearly all values of a DECIMAL of up to 15
 * digits are read from their digits to the base 10,000; the others go by their text, as if they had come so.
 */

const headerBytes = 8;
const digitBytes = 2;
/** Decimal digits of a digit. */
const places = 4;
const base = 10 ** places;
const negative = 0x4000;
const word = 0x1_0000_0000;
/** One digit after the point and three before it: exact as a number. */
const maxScale = places;
const maxWeight = 2;

/** The value of a digit after the point in a DECIMAL of the scale, as its divisor. */
const divisors = [base, base / 10, base / 100, base / 1000, 1] as const;
const factors = [1, 10, 100, 1000, base] as const;

/**
 * The number times 10^scale; NaN if it is none, or has to be read by its text: it has too many digits, or more
 * after the point than the scale.
 *
 * @param scale up to 4
 */
function readScaledNumeric(view: DataView, from: number, scale: number): number {
  const weight = view.getInt16(from + 2);
  const sign = view.getUint16(from + 4);
  if (weight < -1 || weight > maxWeight || sign > negative) return Number.NaN;
  const count = view.getUint16(from);
  if (view.getUint16(from + 6) > scale || count > weight + 2) return Number.NaN;
  let at = from + headerBytes;
  const end = at + count * digitBytes;
  let whole = 0;
  for (let power = weight; power >= 0; power--) {
    whole *= base;
    if (at < end) whole += view.getUint16(at);
    at += digitBytes;
  }
  if (at >= end) return sign === negative ? 0 - whole * factorOf(scale) : whole * factorOf(scale);
  const fraction = view.getUint16(at) / divisorOf(scale);
  if (!Number.isInteger(fraction)) return Number.NaN;
  const value = whole * factorOf(scale) + fraction;
  // Never -0: it would be a bound of its own.
  return sign === negative ? 0 - value : value;
}

const divisorOf = (scale: number): number => divisors[scale] as number;
const factorOf = (scale: number): number => factors[scale] as number;

/** The JSON text of a numeric, until the next one is asked for. */
function textOf(bytes: Buffer, from: number): { readonly text: Buffer; readonly end: number } {
  const needed = numericTextBytes(bytes, from);
  const text = needed > shared.length ? Buffer.alloc(needed) : shared;
  return { text, end: writeNumeric(text, 0, bytes, from) };
}

const shared = Buffer.alloc(256);

/** Why a DECIMAL has no such value; undefined if it has. */
export function checkNumeric({
  check,
  exactScale,
  wholeDigits = 0,
}: JsonNumber): (bytes: Buffer, at: number, end: number, view: DataView) => string | undefined {
  const byText = (bytes: Buffer, at: number) => {
    const { text, end } = textOf(bytes, at);
    return check(text, 0, end);
  };
  if (exactScale === undefined) return byText;
  // So many digits are certainly not too many.
  const safeWeight = Math.floor(wholeDigits / places) - 1;
  return (bytes, at, _end, view) => {
    const isSafe =
      view.getInt16(at + 2) <= safeWeight &&
      view.getUint16(at + 4) <= negative &&
      view.getUint16(at + 6) <= exactScale;
    return isSafe ? undefined : byText(bytes, at);
  };
}

/** Values of a DECIMAL that `checkNumeric` accepts. */
export function numericValues(number: JsonNumber): FixedValues {
  const { type, read, exactScale } = number;
  const byText = (bytes: Buffer, from: number) => {
    const { text, end } = textOf(bytes, from);
    return read(text, 0, end);
  };
  if (exactScale === undefined || exactScale > maxScale) return readValues(number, byText);
  const isShort = type.physical === physicalType.int32;
  let min = Number.POSITIVE_INFINITY;
  let max = Number.NEGATIVE_INFINITY;
  return {
    width: isShort ? 4 : 8,
    put({ sink }, { block, view }, first, count) {
      const { bytes, offsets, lengths } = block;
      const step = block.columns.length;
      const end = first + count * step;
      const target = sink.view;
      let at = sink.length;
      let low = min;
      let high = max;
      for (let field = first; field < end; field += step) {
        if ((lengths[field] as number) < 0) continue;
        const from = offsets[field] as number;
        let value = readScaledNumeric(view, from, exactScale);
        if (Number.isNaN(value)) value = byText(bytes, from) as number;
        target.setInt32(at, value, true);
        at += 4;
        if (!isShort) {
          target.setInt32(at, Math.floor(value / word), true);
          at += 4;
        }
        if (value < low) low = value;
        if (value > high) high = value;
      }
      sink.length = at;
      min = low;
      max = high;
    },
    takeBounds() {
      const bounds = min <= max ? exact(plainOf(number, min), plainOf(number, max)) : undefined;
      min = Number.POSITIVE_INFINITY;
      max = Number.NEGATIVE_INFINITY;
      return bounds;
    },
  };
}
