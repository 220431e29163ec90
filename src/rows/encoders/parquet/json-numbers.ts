import type { ByteWriter } from '../../../foundation/domain/byte-writer.ts';
import { exactDigits } from '../../../foundation/domain/decimal-columns.ts';
import { decimalType, type ParquetType, physicalType } from './column-types.ts';

export interface JsonNumber {
  readonly type: ParquetType;
  check(bytes: Buffer, from: number, end: number): string | undefined;
  /** Of a text that `check` accepts. All values of a column are of one type. */
  read(bytes: Buffer, from: number, end: number): number | bigint;
  write(out: ByteWriter, value: number | bigint): void;
}

const minus = 0x2d;
const point = 0x2e;
const zero = 0x30;

const word = 0x1_0000_0000;

export function writeInt32(out: ByteWriter, value: number | bigint): void {
  out.ensure(4);
  out.view.setInt32(out.length, Number(value), true);
  out.length += 4;
}

export function writeInt64(out: ByteWriter, value: number | bigint): void {
  out.ensure(8);
  if (typeof value === 'bigint') out.view.setBigInt64(out.length, value, true);
  else {
    out.view.setInt32(out.length, value >>> 0, true);
    out.view.setInt32(out.length + 4, Math.floor(value / word), true);
  }
  out.length += 8;
}

function writeFixed(out: ByteWriter, value: bigint, width: number): void {
  out.ensure(width);
  wide.writeBigInt64BE(value >> 64n);
  wide.writeBigUInt64BE(BigInt.asUintN(64, value), 8);
  wide.copy(out.bytes, out.length, wide.length - width);
  out.length += width;
}

const wide = Buffer.alloc(16);

/** A `numeric(precision, scale)`: a JSON number, or a string of what is not finite. */
export function decimalNumber(precision: number, scale: number): JsonNumber {
  const type = decimalType(precision, scale);
  const { physical, width = 0 } = type;
  const name = `DECIMAL(${precision},${scale})`;
  const wholeDigits = precision - scale;
  return {
    type,
    check(bytes, from, end) {
      let at = bytes[from] === minus ? from + 1 : from;
      while (bytes[at] === zero && at < end) at++;
      const start = at;
      while (at < end && isDigit(bytes[at] as number)) at++;
      const whole = at - start;
      if (bytes[at] === point && at < end) {
        at++;
        const fraction = at;
        while (at < end && isDigit(bytes[at] as number)) at++;
        let last = at;
        while (last > fraction && bytes[last - 1] === zero) last--;
        if (last - fraction > scale) return `more digits after the point than ${name} has`;
      }
      if (at === end) return whole > wholeDigits ? `too large for ${name}` : undefined;
      const special = /^"(-?Infinity|NaN)"$/.exec(bytes.toString('latin1', from, end))?.[1];
      return special === undefined ? `not written as ${name} is` : `${special} has no ${name}`;
    },
    read(bytes, from, end) {
      if (precision <= exactDigits) return readScaled(bytes, from, end, scale);
      const [whole = '', fraction = ''] = bytes.toString('latin1', from, end).split('.');
      return BigInt(whole + fraction.slice(0, scale).padEnd(scale, '0'));
    },
    write(out, value) {
      if (physical === physicalType.int32) writeInt32(out, value);
      else if (physical === physicalType.int64) writeInt64(out, value);
      else writeFixed(out, BigInt(value), width);
    },
  };
}

function isDigit(byte: number): boolean {
  return byte >= zero && byte < zero + 10;
}

/** Up to 15 digits. Reading a text of it costs wide rows half as much CPU again. */
function readScaled(bytes: Buffer, from: number, end: number, scale: number): number {
  const isNegative = bytes[from] === minus;
  let at = isNegative ? from + 1 : from;
  let value = 0;
  for (; at < end && bytes[at] !== point; at++) value = value * 10 + (bytes[at] as number) - zero;
  const last = Math.min(end, at + 1 + scale);
  let missing = scale;
  for (at++; at < last; at++) {
    value = value * 10 + (bytes[at] as number) - zero;
    missing--;
  }
  while (missing-- > 0) value *= 10;
  // Never -0: it would be a bound of its own.
  return isNegative ? 0 - value : value;
}
