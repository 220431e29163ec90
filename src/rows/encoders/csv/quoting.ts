import {
  BACKSLASH,
  CARRIAGE_RETURN,
  LINE_FEED,
  QUOTE,
  SPACE,
} from '../../../foundation/domain/json-bytes.ts';

/** Which cells are in quotes: everything that decides it is in this file, and nowhere else. */

const TAB = 0x09;
/** `\.`: PostgreSQL before 18 reads a line of only this, unquoted, as the end of the data. */
const FULL_STOP = 0x2e;
/** `\N`: ClickHouse reads it, unquoted, as a null. */
const CAPITAL_N = 0x4e;
/** The first byte of a byte order mark, `EF BB BF`. */
const MARK = 0xef;

export interface Quoting {
  readonly delimiter: number;
  readonly nullText: Buffer;
  /** By byte: whether a cell that contains it is quoted. `putUnquoted` looks for the same four. */
  readonly isSpecial: Uint8Array;
}

export function quotingOf(delimiter: number, nullText: Buffer): Quoting {
  const isSpecial = new Uint8Array(256);
  for (const byte of [delimiter, QUOTE, LINE_FEED, CARRIAGE_RETURN]) isSpecial[byte] = 1;
  return { delimiter, nullText, isSpecial };
}

/** Because of a byte in it, or because a reader could take it for another value. */
export function mustQuote(bytes: Buffer, from: number, end: number, quoting: Quoting): boolean {
  if (isMistakable(bytes, from, end, quoting.nullText)) return true;
  return hasSpecial(bytes, from, end, quoting);
}

export function hasSpecial(
  bytes: Buffer,
  from: number,
  end: number,
  { isSpecial }: Pick<Quoting, 'isSpecial'>,
): boolean {
  for (let at = from; at < end; at += 1) {
    if (isSpecial[bytes[at] as number] === 1) return true;
  }
  return false;
}

/**
 * Four bytes at a time, with room; looks for special ones in the same step. Written out, because a call, or a constant
 * of the module, per word costs as much as the word. @param source a view of `bytes` @returns the end of what was
 * written; `at` if the cell needs quotes, and then what follows `at` is undefined
 */
export function putUnquoted(
  target: DataView,
  at: number,
  { bytes, view: source }: { readonly bytes: Buffer; readonly view: DataView },
  from: number,
  end: number,
  { delimiter, nullText, isSpecial }: Quoting,
): number {
  if (isMistakable(bytes, from, end, nullText)) return at;
  const delimiters = delimiter * 0x01010101;
  const distance = at - from;
  let index = from;
  for (const last = end - 4; index <= last; index += 4) {
    const word = source.getInt32(index, true);
    // A byte of zero borrows from its highest bit.
    const quotes = word ^ 0x22222222;
    const commas = word ^ delimiters;
    const feeds = word ^ 0x0a0a0a0a;
    const returns = word ^ 0x0d0d0d0d;
    const special =
      ((quotes - 0x01010101) & ~quotes) |
      ((commas - 0x01010101) & ~commas) |
      ((feeds - 0x01010101) & ~feeds) |
      ((returns - 0x01010101) & ~returns);
    if ((special & 0x80808080) !== 0) return at;
    target.setInt32(index + distance, word, true);
  }
  for (; index < end; index += 1) {
    const byte = source.getUint8(index);
    if (isSpecial[byte] === 1) return at;
    target.setUint8(index + distance, byte);
  }
  return end + distance;
}

/**
 * An empty text or the word of a null for a null, `\N` or `\.` for what they mean elsewhere. Readers such as ClickHouse
 * drop blanks at the ends of a cell without quotes, and most drop a byte order mark with which a file begins.
 */
export function isMistakable(bytes: Buffer, from: number, end: number, nullText: Buffer): boolean {
  if (from === end) return true;
  const first = bytes[from] as number;
  const last = bytes[end - 1] as number;
  if (first <= SPACE || last <= SPACE || first === BACKSLASH) {
    if (isBlank(first) || isBlank(last)) return true;
    if (end - from === 2 && first === BACKSLASH && (last === FULL_STOP || last === CAPITAL_N)) {
      return true;
    }
  }
  if (first === MARK && bytes[from + 1] === 0xbb && bytes[from + 2] === 0xbf) return true;
  if (nullText.length !== end - from || nullText[0] !== first) return false;
  return nullText.compare(bytes, from, end) === 0;
}

function isBlank(byte: number): boolean {
  return byte === SPACE || byte === TAB;
}
