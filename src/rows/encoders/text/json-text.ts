import type { ByteWriter } from '../../../foundation/domain/byte-writer.ts';
import {
  BACKSLASH,
  CARRIAGE_RETURN,
  LINE_FEED,
  QUOTE,
  SPACE,
} from '../../../foundation/domain/json-bytes.ts';
import {
  escapeOf,
  isEscapedByte,
  longTextBytes,
  skipPlainBytes,
} from '../../../foundation/domain/json-string.ts';

/** Below this a loop is faster than a copy call. */
const SHORT_BYTES = 40;
const ESCAPED_BYTES = 6;

export function writeJsonString(out: ByteWriter, bytes: Buffer, from: number, end: number): void {
  out.ensure(end - from + 2);
  out.put(QUOTE);
  writeJsonCharacters(out, bytes, from, end);
  out.put(QUOTE);
}

export function writeJsonCharacters(
  out: ByteWriter,
  bytes: Buffer,
  from: number,
  end: number,
): void {
  out.ensure(end - from);
  const view =
    end - from < longTextBytes
      ? null
      : new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let plainFrom = from;
  for (;;) {
    const near = Math.min(end, plainFrom + SHORT_BYTES);
    let special = findSpecial(bytes, plainFrom, near);
    // A text may have nothing but escapes: a call for each would take many times as long.
    if (special === near && near < end) {
      special = findSpecial(bytes, view ? skipPlainBytes(view, near, end) : near, end);
    }
    copyBytes(out, bytes, plainFrom, special);
    if (special === end) break;
    const replacement = escapeOf(bytes[special] as number);
    out.ensure(ESCAPED_BYTES + end - special);
    copyBytes(out, replacement, 0, replacement.length);
    plainFrom = special + 1;
  }
}

function findSpecial(bytes: Buffer, from: number, end: number): number {
  let at = from;
  while (at < end && isEscapedByte[bytes[at] as number] === 0) at += 1;
  return at;
}

export function copyBytes(out: ByteWriter, bytes: Buffer, from: number, end: number): void {
  if (end - from > SHORT_BYTES) {
    bytes.copy(out.bytes, out.length, from, end);
    out.length += end - from;
    return;
  }
  const target = out.bytes;
  let to = out.length;
  for (let index = from; index < end; index += 1) {
    target[to] = bytes[index] as number;
    to += 1;
  }
  out.length = to;
}

/** On one line: a line break can be only between tokens, so a space can replace it. */
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

export function writeJsonbValue(out: ByteWriter, bytes: Buffer, from: number, end: number): void {
  out.ensure(end - from);
  // The first byte is the version of the binary form.
  copyBytes(out, bytes, from + 1, end);
}

export function decodeJsonString(bytes: Buffer, from: number, end: number): Buffer {
  if (bytes[from] !== QUOTE) return bytes.subarray(from, end);
  if (!isEscaped(bytes, from, end)) return bytes.subarray(from + 1, end - 1);
  return Buffer.from(JSON.parse(bytes.toString('utf8', from, end)) as string);
}

/** Says whether the content of a JSON string is not its text. */
export function isEscaped(bytes: Buffer, from: number, end: number): boolean {
  if (end - from > SHORT_BYTES) return bytes.subarray(from, end).includes(BACKSLASH);
  for (let at = from; at < end; at += 1) if (bytes[at] === BACKSLASH) return true;
  return false;
}
