import { QUOTE } from '../../../foundation/domain/json-bytes.ts';
/**
 * Four bytes at a time, looking for those that the format writes otherwise. Written out for each format: a call, or a
 * constant of the module, per word costs as much as the word.
 */

/** Copies `source[from, end)` to `target`, which has room. @returns the end of what was written */
export function putBytes(
  target: DataView,
  at: number,
  source: DataView,
  from: number,
  end: number,
): number {
  const distance = at - from;
  let index = from;
  for (const last = end - 4; index <= last; index += 4) {
    target.setInt32(index + distance, source.getInt32(index, true), true);
  }
  for (; index < end; index += 1) target.setUint8(index + distance, source.getUint8(index));
  return end + distance;
}

/**
 * With its quotes, if nothing is escaped. There must be room for its bytes and two more.
 * @returns the end of what was written; `at` if a byte must be escaped, and then what follows `at` is undefined
 */
export function putPlainString(
  target: DataView,
  at: number,
  source: DataView,
  from: number,
  end: number,
): number {
  target.setUint8(at, QUOTE);
  const distance = at + 1 - from;
  let index = from;
  for (const last = end - 4; index <= last; index += 4) {
    const word = source.getInt32(index, true);
    const quotes = word ^ 0x22222222;
    const slashes = word ^ 0x5c5c5c5c;
    // A byte below 0x20, or one of zero, borrows from its highest bit, which it did not have.
    const special =
      ((word - 0x20202020) & ~word) |
      ((quotes - 0x01010101) & ~quotes) |
      ((slashes - 0x01010101) & ~slashes);
    if ((special & 0x80808080) !== 0) return at;
    target.setInt32(index + distance, word, true);
  }
  for (; index < end; index += 1) {
    const byte = source.getUint8(index);
    if (byte < 0x20 || byte === 0x22 || byte === 0x5c) return at;
    target.setUint8(index + distance, byte);
  }
  target.setUint8(end + distance, QUOTE);
  return end + distance + 1;
}

/** JSON for which there is room, if it has no line break. @returns as `putPlainString` */
export function putOneLine(
  target: DataView,
  at: number,
  source: DataView,
  from: number,
  end: number,
): number {
  const distance = at - from;
  let index = from;
  for (const last = end - 4; index <= last; index += 4) {
    const word = source.getInt32(index, true);
    const feeds = word ^ 0x0a0a0a0a;
    const returns = word ^ 0x0d0d0d0d;
    const special = ((feeds - 0x01010101) & ~feeds) | ((returns - 0x01010101) & ~returns);
    if ((special & 0x80808080) !== 0) return at;
    target.setInt32(index + distance, word, true);
  }
  for (; index < end; index += 1) {
    const byte = source.getUint8(index);
    if (byte === 0x0a || byte === 0x0d) return at;
    target.setUint8(index + distance, byte);
  }
  return end + distance;
}
