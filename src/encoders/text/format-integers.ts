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
  if (typeof value === 'bigint' || value > 0x7fff_ffff || value < -0x7fff_ffff) {
    return at + out.write(value.toString(), at, 'latin1');
  }
  let rest = value;
  let start = at;
  if (rest < 0) {
    out[start] = MINUS;
    start += 1;
    rest = -rest;
  }
  let digits = 1;
  for (let limit = 10; digits < 10 && rest >= limit; limit *= 10) digits += 1;
  writeDigits(out, start, rest, digits);
  return start + digits;
}

/** `value` in exactly `digits` digits. */
export function writeDigits(out: Buffer, at: number, value: number, digits: number): void {
  let rest = value;
  for (let index = at + digits - 1; index >= at; index -= 1) {
    const next = (rest / 10) | 0;
    out[index] = ZERO + rest - next * 10;
    rest = next;
  }
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
