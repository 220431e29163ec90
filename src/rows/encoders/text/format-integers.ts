/** ASCII at a position of a buffer. Each returns the position after its output. */

const ZERO = 48;

const PAIRS = Uint16Array.from(
  { length: 100 },
  (_, value) => ZERO + Math.floor(value / 10) + ((ZERO + (value % 10)) << 8),
);

export function writePair(target: DataView, at: number, value: number): void {
  target.setUint16(at, PAIRS[value] as number, true);
}

/** With the ASCII character `next`, and a fourth byte behind them, which the caller writes over. */
export function writePairAnd(target: DataView, at: number, value: number, next: number): void {
  target.setInt32(at, (PAIRS[value] as number) | (next << 16), true);
}

/** A whole number from 0 to 2^31 - 1. @returns the position after it */
export function writeWhole(target: DataView, at: number, value: number): number {
  const end = at + digitsOf(value);
  let rest = value;
  let to = end - 2;
  for (; rest >= 100; to -= 2) {
    const next = (rest / 100) | 0;
    writePair(target, to, rest - next * 100);
    rest = next;
  }
  if (rest >= 10) writePair(target, to, rest);
  else target.setUint8(to + 1, ZERO + rest);
  return end;
}

function digitsOf(value: number): number {
  if (value < 100_000) {
    if (value < 100) return value < 10 ? 1 : 2;
    return value < 1000 ? 3 : value < 10_000 ? 4 : 5;
  }
  if (value < 10_000_000) return value < 1_000_000 ? 6 : 7;
  return value < 100_000_000 ? 8 : value < 1_000_000_000 ? 9 : 10;
}

const MINUS = 45;
/** 2^53 / 2^32: with a high half below this a number represents an int64 exactly. */
const EXACT_HIGH = 0x20_0000;

/** As a number if that is exact, else as a bigint. */
export function readInt64(source: DataView, at: number): number | bigint {
  const high = source.getInt32(at);
  if (high < EXACT_HIGH && high >= -EXACT_HIGH) {
    return high * 4_294_967_296 + source.getUint32(at + 4);
  }
  return source.getBigInt64(at);
}

export function writeInteger(target: DataView, at: number, value: number | bigint): number {
  if (typeof value === 'bigint') return writeWord(target, at, value.toString());
  if (value < 0) {
    target.setUint8(at, MINUS);
    return writeSize(target, at + 1, -value);
  }
  return writeSize(target, at, value);
}

/** An ASCII text: its few characters by hand, which is faster than a call into the engine. */
export function writeWord(target: DataView, at: number, word: string): number {
  for (let index = 0; index < word.length; index += 1) {
    target.setUint8(at + index, word.charCodeAt(index));
  }
  return at + word.length;
}

function writeSize(target: DataView, at: number, value: number): number {
  if (value <= 0x7fff_ffff) return writeWhole(target, at, value);
  const high = Math.floor(value / lowUnit);
  const start = writeWhole(target, at, high);
  const end = start + lowDigits;
  // Nine digits: those that are there, behind zeros.
  const low = value - high * lowUnit;
  const digits = digitsOf(low);
  for (let to = start; to < end - digits; to += 1) target.setUint8(to, ZERO);
  return writeWhole(target, end - digits, low);
}

const lowDigits = 9;
const lowUnit = 10 ** lowDigits;

const HEX = Buffer.from('0123456789abcdef', 'latin1');

const HEX_PAIRS = Uint16Array.from(
  { length: 256 },
  (_, byte) => (HEX[byte >> 4] as number) | ((HEX[byte & 15] as number) << 8),
);

export function writeUuid(target: DataView, at: number, source: DataView, from: number): number {
  writeHexWord(target, at, source.getInt32(from));
  target.setUint8(at + 8, MINUS);
  const second = source.getInt32(from + 4);
  writeHexHalf(target, at + 9, second >>> 16);
  target.setUint8(at + 13, MINUS);
  writeHexHalf(target, at + 14, second);
  target.setUint8(at + 18, MINUS);
  const third = source.getInt32(from + 8);
  writeHexHalf(target, at + 19, third >>> 16);
  target.setUint8(at + 23, MINUS);
  writeHexHalf(target, at + 24, third);
  writeHexWord(target, at + 28, source.getInt32(from + 12));
  return at + 36;
}

function writeHexWord(target: DataView, at: number, word: number): void {
  writeHexHalf(target, at, word >>> 16);
  writeHexHalf(target, at + 4, word);
}

function writeHexHalf(target: DataView, at: number, word: number): void {
  const high = HEX_PAIRS[(word >>> 8) & 0xff] as number;
  target.setInt32(at, high | ((HEX_PAIRS[word & 0xff] as number) << 16), true);
}

export function writeHex(
  target: DataView,
  at: number,
  source: Buffer,
  from: number,
  end: number,
): number {
  let to = at;
  for (let index = from; index < end; index += 1) {
    target.setUint16(to, HEX_PAIRS[source[index] as number] as number, true);
    to += 2;
  }
  return to;
}
