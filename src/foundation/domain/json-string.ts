import { BACKSLASH, QUOTE, SPACE } from './json-bytes.ts';

/** The form of a byte in a JSON string; null: unchanged. Everything else is plain UTF-8. */
const escapes: readonly (Buffer | null)[] = Array.from({ length: 256 }, (_, byte) => {
  const plain = byte >= SPACE && byte !== QUOTE && byte !== BACKSLASH;
  return plain ? null : Buffer.from(JSON.stringify(String.fromCharCode(byte)).slice(1, -1));
});

/** By byte: 1 if it is not written as it is. */
export const isEscapedByte = Uint8Array.from(escapes, (escaped) => (escaped === null ? 0 : 1));

/** Returns the form of a byte for which `isEscapedByte` is 1. */
export function escapeOf(byte: number): Buffer {
  return escapes[byte] as Buffer;
}

/** Bytes from which on it pays to make a DataView and look at eight at a time: a third of the time for long texts. */
export const longTextBytes = 512;

const ONES = 0x01010101;
const HIGH_BITS = 0x80808080;

/** Not 0 in a high bit if one of four bytes is 0. Source: https://graphics.stanford.edu/~seander/bithacks.html#ZeroInWord */
const zeroIn = (word: number): number => (word - ONES) & ~word;

/** Marks a quote, a backslash and what is less than a space. */
const escapedIn = (word: number): number =>
  zeroIn(word ^ (ONES * QUOTE)) |
  zeroIn(word ^ (ONES * BACKSLASH)) |
  ((word - ONES * SPACE) & ~word);

/** A position at most 7 before the first byte from `from` on that is escaped, or `end`. @param view of all the bytes */
export function skipPlainBytes(view: DataView, from: number, end: number): number {
  let at = from;
  for (; at + 8 <= end; at += 8) {
    const marks = escapedIn(view.getInt32(at, true)) | escapedIn(view.getInt32(at + 4, true));
    if ((marks & HIGH_BITS) !== 0) break;
  }
  return at;
}
