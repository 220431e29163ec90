import {
  BACKSLASH,
  CLOSE_LIST,
  CLOSE_OBJECT,
  COLON,
  COMMA,
  endOfString,
  OPEN_LIST,
  OPEN_OBJECT,
  QUOTE,
  SPACE,
} from '../../../foundation/domain/json-bytes.ts';
import { streamCodecOf } from '../codecs/stream-compressions.ts';
import type { ReadColumn, ReadRow } from '../encoder.ts';
import { splitRecords } from '../text/split-records.ts';

/** @param inside the property of a line that holds the row; null if the line is the row */
export async function* readJsonLines(
  text: AsyncIterable<Buffer>,
  columns: readonly ReadColumn[],
  inside: string | null = null,
): AsyncGenerator<ReadRow> {
  const names = new Set(columns.map(({ name }) => name));
  const holder = new Set(inside === null ? [] : [inside]);
  for await (const record of splitRecords(text, false)) {
    const start = inside === null ? 0 : findMembers(record, holder).get(inside)?.start;
    if (start === undefined) throw new Error(`a record has no ${inside}`);
    const members = findMembers(record, names, start);
    yield columns.map(({ name, type }) => {
      const bounds = members.get(name);
      // A row that a step rejected has only its keys.
      if (bounds === undefined && inside !== null) return undefined;
      if (bounds === undefined) throw new Error(`column not found: ${name}`);
      const isText = record[bounds.start] === QUOTE && type !== 'json' && type !== 'jsonb';
      if (isText) return readString(record, bounds);
      const value = record.toString('utf8', bounds.start, bounds.end);
      return value === 'null' ? null : value;
    });
  }
}

export function readRejectedRows(
  path: string,
  columns: readonly ReadColumn[],
): AsyncIterable<ReadRow> {
  return readJsonLines(streamCodecOf(null).read(path), columns, 'row');
}

interface ValueBounds {
  readonly start: number;
  readonly end: number;
}

/**
 * Makes no values: `JSON.parse` would round 9007199254740993, shorten 1.10, and hold a large row many times. Takes a row
 * of any depth. @throws SyntaxError if it is no object, or if it does not end
 */
export function findMembers(
  json: Buffer,
  names: ReadonlySet<string>,
  start = 0,
): ReadonlyMap<string, ValueBounds> {
  const members = new Map<string, ValueBounds>();
  let at = skipBlanks(json, start);
  if (json[at] !== OPEN_OBJECT) throw new SyntaxError('a record is no JSON object');
  at = skipBlanks(json, at + 1);
  while (json[at] === QUOTE) {
    const nameEnd = endOfString(json, at);
    const name = readString(json, { start: at, end: nameEnd });
    const before = skipBlanks(json, nameEnd);
    if (json[before] !== COLON) break;
    const from = skipBlanks(json, before + 1);
    const end = endOfValue(json, from);
    if (names.has(name)) members.set(name, { start: from, end });
    at = skipBlanks(json, end);
    if (json[at] !== COMMA) break;
    at = skipBlanks(json, at + 1);
  }
  if (json[at] !== CLOSE_OBJECT) throw new SyntaxError('a JSON object does not end');
  return members;
}

function readString(json: Buffer, { start, end }: ValueBounds): string {
  const content = json.subarray(start + 1, end - 1);
  if (!content.includes(BACKSLASH)) return content.toString('utf8');
  return String(JSON.parse(json.toString('utf8', start, end)));
}

function endOfValue(json: Buffer, start: number): number {
  const first = json[start];
  if (first === QUOTE) return endOfString(json, start);
  if (first !== OPEN_OBJECT && first !== OPEN_LIST) return endOfWord(json, start);
  let depth = 0;
  for (let at = start; at < json.length; ) {
    const byte = json[at];
    if (byte === QUOTE) {
      at = endOfString(json, at);
      continue;
    }
    at += 1;
    if (byte === OPEN_OBJECT || byte === OPEN_LIST) depth += 1;
    else if (byte === CLOSE_OBJECT || byte === CLOSE_LIST) {
      depth -= 1;
      if (depth === 0) return at;
    }
  }
  throw new SyntaxError('a JSON value does not end');
}

function endOfWord(json: Buffer, start: number): number {
  let at = start;
  for (; at < json.length; at += 1) {
    const byte = json[at] as number;
    if (byte <= SPACE || byte === COMMA || byte === CLOSE_LIST || byte === CLOSE_OBJECT) break;
  }
  if (at === start) throw new SyntaxError('a JSON value is missing');
  return at;
}

function skipBlanks(json: Buffer, start: number): number {
  let at = start;
  while (at < json.length && (json[at] as number) <= SPACE) at += 1;
  return at;
}
