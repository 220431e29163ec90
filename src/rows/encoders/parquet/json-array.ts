const quote = 0x22;
const backslash = 0x5c;
const comma = 0x2c;
const closing = 0x5d;
const opening = 0x5b;
const brace = 0x7b;
const lastSpace = 0x20;

/** What `scanArray` returns for JSON that is no flat array. */
export const notFlat = -1;

/**
 * Finds the elements of a JSON array without decoding them.
 *
 * @param visit gets the start and the end of an element
 * @returns how many there are; `notFlat` if the value is no array or an element is an array or an object
 */
export function scanArray(
  bytes: Buffer,
  from: number,
  end: number,
  visit: (from: number, end: number) => void,
): number {
  if (bytes[from] !== opening) return notFlat;
  let count = 0;
  let at = skipSpace(bytes, from + 1, end);
  while (at < end && bytes[at] !== closing) {
    const first = bytes[at];
    if (first === opening || first === brace) return notFlat;
    const elementEnd = first === quote ? stringEnd(bytes, at, end) : wordEnd(bytes, at, end);
    visit(at, elementEnd);
    count++;
    at = skipSpace(bytes, elementEnd, end);
    if (bytes[at] === comma) at = skipSpace(bytes, at + 1, end);
  }
  return count;
}

function skipSpace(bytes: Buffer, from: number, end: number): number {
  let at = from;
  while (at < end && (bytes[at] as number) <= lastSpace) at++;
  return at;
}

function stringEnd(bytes: Buffer, from: number, end: number): number {
  let at = from + 1;
  while (at < end && bytes[at] !== quote) at += bytes[at] === backslash ? 2 : 1;
  return at + 1;
}

function wordEnd(bytes: Buffer, from: number, end: number): number {
  let at = from;
  for (; at < end; at++) {
    const byte = bytes[at] as number;
    if (byte === comma || byte === closing || byte <= lastSpace) break;
  }
  return at;
}

export function isNullElement(bytes: Buffer, from: number, end: number): boolean {
  // No other word of JSON begins with an n.
  return end > from && bytes[from] === 0x6e;
}
