import type { ByteWriter } from '../../domain/byte-writer.ts';

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const SPACE = 0x20;
const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;
/** Below this a loop is faster than a copy call. */
const SHORT_BYTES = 40;
const ESCAPED_BYTES = 6;

/** How a byte is written in a JSON string; null: unchanged. Everything else is plain UTF-8. */
const escapes: readonly (Buffer | null)[] = Array.from({ length: 256 }, (_, byte) => {
  const plain = byte >= SPACE && byte !== QUOTE && byte !== BACKSLASH;
  return plain ? null : Buffer.from(JSON.stringify(String.fromCharCode(byte)).slice(1, -1));
});
const isSpecial = Uint8Array.from(escapes, (replacement) => (replacement === null ? 0 : 1));

/** A JSON string of UTF-8 text, with the quotes. */
export function writeJsonString(out: ByteWriter, bytes: Buffer, from: number, end: number): void {
  out.ensure(end - from + 2);
  out.bytes[out.length] = QUOTE;
  out.length += 1;
  let plainFrom = from;
  for (;;) {
    const special = findSpecial(bytes, plainFrom, end);
    copyBytes(out, bytes, plainFrom, special);
    if (special === end) break;
    const replacement = escapes[bytes[special] as number] as Buffer;
    out.ensure(ESCAPED_BYTES + end - special);
    copyBytes(out, replacement, 0, replacement.length);
    plainFrom = special + 1;
  }
  out.put(QUOTE);
}

function findSpecial(bytes: Buffer, from: number, end: number): number {
  let at = from;
  while (at < end && isSpecial[bytes[at] as number] === 0) at += 1;
  return at;
}

/** Copies bytes for which there is room. */
export function copyBytes(out: ByteWriter, bytes: Buffer, from: number, end: number): void {
  const target = out.bytes;
  let to = out.length;
  out.length += end - from;
  if (end - from > SHORT_BYTES) {
    bytes.copy(target, to, from, end);
    return;
  }
  for (let at = from; at < end; at += 1) {
    target[to] = bytes[at] as number;
    to += 1;
  }
}

/**
 * A JSON value as it is, on one line. A line break can be only between its tokens, so a space can replace
 * it.
 */
export function writeJsonValue(out: ByteWriter, bytes: Buffer, from: number, end: number): void {
  out.ensure(end - from);
  const start = out.length;
  copyBytes(out, bytes, from, end);
  const written = out.bytes;
  for (let at = start; at < out.length; at += 1) {
    const byte = written[at];
    if (byte === LINE_FEED || byte === CARRIAGE_RETURN) written[at] = SPACE;
  }
}

/** The JSON value that jsonb prints: always on one line. */
export function writeJsonbValue(out: ByteWriter, bytes: Buffer, from: number, end: number): void {
  out.ensure(end - from);
  // The first byte is the version of the binary form.
  copyBytes(out, bytes, from + 1, end);
}

/** The decoded text of a JSON string, or the value itself if it is not a string. */
export function decodeJsonString(bytes: Buffer, from: number, end: number): Buffer {
  if (bytes[from] !== QUOTE) return bytes.subarray(from, end);
  return Buffer.from(JSON.parse(bytes.toString('utf8', from, end)) as string);
}
