import { setImmediate as nextTurn } from 'node:timers/promises';
import {
  CLOSE_LIST,
  CLOSE_OBJECT,
  COLON,
  COMMA,
  endOfString,
  OPEN_LIST,
  OPEN_OBJECT,
  QUOTE,
} from './json-bytes.ts';

export interface JsonBounds {
  /** Values, objects and lists, at any depth. */
  readonly values: number;
  /** Different names of members: each costs the engine several times as much as a value. */
  readonly names: number;
  readonly depth: number;
}

/** Bytes between two turns of the event loop: a few milliseconds of work. */
const sliceBytes = 512 * 1024;

/** Counts before it parses: a few MiB can be millions of objects. @throws SyntaxError; RangeError if it is out of bounds */
export async function parseForeignJson(bytes: Buffer, bounds: JsonBounds): Promise<unknown> {
  await countValues(bytes, bounds);
  return JSON.parse(bytes.toString());
}

async function countValues(bytes: Buffer, bounds: JsonBounds): Promise<void> {
  const names = new Set<string>();
  let values = 1;
  let depth = 0;
  let text = { start: 0, end: 0 };
  let sliceEnd = sliceBytes;
  for (let at = 0; at < bytes.length; at += 1) {
    if (at >= sliceEnd) {
      sliceEnd = at + sliceBytes;
      await nextTurn();
    }
    const byte = bytes[at];
    if (byte === QUOTE) {
      text = { start: at + 1, end: endOfString(bytes, at) - 1 };
      at = text.end;
    } else if (byte === COLON) {
      names.add(
        bytes.toString('latin1', text.start, Math.min(text.end, text.start + maxNameBytes)),
      );
      if (names.size > bounds.names) throw new RangeError('JSON has too many names');
    } else if (byte === OPEN_LIST || byte === OPEN_OBJECT) {
      values += 1;
      depth += 1;
      if (depth > bounds.depth) throw new RangeError('JSON is nested too deeply');
    } else if (byte === CLOSE_LIST || byte === CLOSE_OBJECT) depth -= 1;
    else if (byte === COMMA) values += 1;
    if (values > bounds.values) throw new RangeError('JSON has too many values');
  }
}

/** Longer names that begin alike count as one; a document has room for few of them. */
const maxNameBytes = 256;
