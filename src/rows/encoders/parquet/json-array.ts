import {
  CLOSE_LIST,
  COMMA,
  endOfString,
  OPEN_LIST,
  OPEN_OBJECT,
  QUOTE,
  SPACE,
} from '../../../foundation/domain/json-bytes.ts';

export const notFlat = -1;

/**
 * Without decoding them. @param visit gets the start and the end of an element @returns how many there are; `notFlat` if
 * the value is no array or an element is an array or an object
 */
export function scanArray(
  bytes: Buffer,
  from: number,
  end: number,
  visit: (from: number, end: number) => void,
): number {
  if (bytes[from] !== OPEN_LIST) return notFlat;
  let count = 0;
  let at = skipSpace(bytes, from + 1, end);
  while (at < end && bytes[at] !== CLOSE_LIST) {
    const first = bytes[at];
    if (first === OPEN_LIST || first === OPEN_OBJECT) return notFlat;
    const elementEnd = first === QUOTE ? endOfString(bytes, at, end) : wordEnd(bytes, at, end);
    visit(at, elementEnd);
    count++;
    at = skipSpace(bytes, elementEnd, end);
    if (bytes[at] === COMMA) at = skipSpace(bytes, at + 1, end);
  }
  return count;
}

function skipSpace(bytes: Buffer, from: number, end: number): number {
  let at = from;
  while (at < end && (bytes[at] as number) <= SPACE) at++;
  return at;
}

function wordEnd(bytes: Buffer, from: number, end: number): number {
  let at = from;
  for (; at < end; at++) {
    const byte = bytes[at] as number;
    if (byte === COMMA || byte === CLOSE_LIST || byte <= SPACE) break;
  }
  return at;
}

export function isNullElement(bytes: Buffer, from: number, end: number): boolean {
  // No other word of JSON begins with an n.
  return end > from && bytes[from] === 0x6e;
}
