/** Writers of ASCII forms at a position of a buffer. Each returns the position after its output. */

const ZERO = 48;
const MINUS = 45;
/** 2^53 / 2^32: with a high half below this a number represents an int64 exactly. */
const EXACT_HIGH = 0x20_0000;

export function readInt16(bytes: Buffer, at: number): number {
  return (((bytes[at] as number) << 24) | ((bytes[at + 1] as number) << 16)) >> 16;
}

export function readInt32(bytes: Buffer, at: number): number {
  return (
    ((bytes[at] as number) << 24) |
    ((bytes[at + 1] as number) << 16) |
    ((bytes[at + 2] as number) << 8) |
    (bytes[at + 3] as number)
  );
}

/** Reads an int64 as a number if that is exact, else as a bigint. */
export function readInt64(bytes: Buffer, at: number): number | bigint {
  const high = readInt32(bytes, at);
  if (high < EXACT_HIGH && high >= -EXACT_HIGH) {
    return high * 4_294_967_296 + (readInt32(bytes, at + 4) >>> 0);
  }
  return bytes.readBigInt64BE(at);
}

/** A whole number in decimal; at most 20 bytes. */
export function writeInteger(out: Buffer, at: number, value: number | bigint): number {
  if (typeof value === 'bigint') return at + out.write(value.toString(), at, 'latin1');
  if (value < 0) {
    out[at] = MINUS;
    return writeSize(out, at + 1, -value);
  }
  return writeSize(out, at, value);
}

/** A whole number from 0 to 2^53. */
function writeSize(out: Buffer, at: number, value: number): number {
  if (value <= 0x7fff_ffff) return writeShort(out, at, value);
  const high = Math.floor(value / lowUnit);
  const start = writeShort(out, at, high);
  const end = start + lowDigits;
  // Nine digits: those that are there, behind zeros.
  const low = value - high * lowUnit;
  const digits = digitsOf(low);
  for (let to = start; to < end - digits; to += 1) out[to] = ZERO;
  return writeShort(out, end - digits, low);
}

const lowDigits = 9;
const lowUnit = 10 ** lowDigits;

/** A whole number from 0 to 2^31 - 1. */
function writeShort(out: Buffer, at: number, value: number): number {
  const end = at + digitsOf(value);
  let rest = value;
  let to = end - 2;
  for (; rest >= 100; to -= 2) {
    const next = (rest / 100) | 0;
    writePair(out, to, rest - next * 100);
    rest = next;
  }
  if (rest >= 10) writePair(out, to, rest);
  else out[to + 1] = ZERO + rest;
  return end;
}

/** Of a whole number below 2^31. */
function digitsOf(value: number): number {
  if (value < 100_000) {
    if (value < 100) return value < 10 ? 1 : 2;
    return value < 1000 ? 3 : value < 10_000 ? 4 : 5;
  }
  if (value < 10_000_000) return value < 1_000_000 ? 6 : 7;
  return value < 100_000_000 ? 8 : value < 1_000_000_000 ? 9 : 10;
}

/** A number below 100 in two digits. */
export function writePair(out: Buffer, at: number, value: number): void {
  const tens = (value * 103) >>> 10;
  out[at] = ZERO + tens;
  out[at + 1] = ZERO + value - tens * 10;
}

const HEX = Buffer.from('0123456789abcdef', 'latin1');

/** The 36 characters of a UUID. */
export function writeUuid(out: Buffer, at: number, bytes: Buffer, from: number): number {
  let to = at;
  for (let index = 0; index < 16; index += 1) {
    if (index === 4 || index === 6 || index === 8 || index === 10) {
      out[to] = MINUS;
      to += 1;
    }
    const byte = bytes[from + index] as number;
    out[to] = HEX[byte >> 4] as number;
    out[to + 1] = HEX[byte & 15] as number;
    to += 2;
  }
  return to;
}

/** Two hexadecimal digits per byte. */
export function writeHex(
  out: Buffer,
  at: number,
  bytes: Buffer,
  from: number,
  end: number,
): number {
  let to = at;
  for (let index = from; index < end; index += 1) {
    const byte = bytes[index] as number;
    out[to] = HEX[byte >> 4] as number;
    out[to + 1] = HEX[byte & 15] as number;
    to += 2;
  }
  return to;
}
