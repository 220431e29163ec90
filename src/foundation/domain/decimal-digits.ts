/** Writers of decimal digits, in ASCII, at a position of a buffer. For text of rows: they take a few nanoseconds. */

const ZERO = 0x30;

/** Numbers below 100 in two digits, for a little-endian write. */
const PAIRS = Uint16Array.from(
  { length: 100 },
  (_, value) => ZERO + Math.floor(value / 10) + ((ZERO + (value % 10)) << 8),
);

/** A number below 100 in two digits. */
export function writePair(target: DataView, at: number, value: number): void {
  target.setUint16(at, PAIRS[value] as number, true);
}

/**
 * A number below 100 in two digits, and the ASCII character `next`. A fourth byte is written behind them, which
 * the caller writes over.
 */
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

/** Counts the digits of a whole number below 2^31. */
export function digitsOf(value: number): number {
  if (value < 100_000) {
    if (value < 100) return value < 10 ? 1 : 2;
    return value < 1000 ? 3 : value < 10_000 ? 4 : 5;
  }
  if (value < 10_000_000) return value < 1_000_000 ? 6 : 7;
  return value < 100_000_000 ? 8 : value < 1_000_000_000 ? 9 : 10;
}
