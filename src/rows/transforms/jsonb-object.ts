import {
  BACKSLASH,
  CLOSE_LIST,
  CLOSE_OBJECT,
  COLON,
  COMMA,
  OPEN_LIST,
  OPEN_OBJECT,
  QUOTE,
  SPACE,
} from '../../foundation/domain/json-bytes.ts';
import { longTextBytes, skipPlainBytes } from '../../foundation/domain/json-string.ts';
import { spendMade } from './effort.ts';
import {
  type ByteSink,
  type Edit,
  type Json,
  JsonObject,
  type JsonText,
  quote,
  writeJson,
} from './json.ts';

const maxEdits = 32;
const comma = Buffer.from(', ');
const open = Buffer.from('{');
const close = Buffer.from('}');

/**
 * As PostgreSQL prints jsonb: names in its order, none twice, `", "` and `": "` between. What a step does not change is
 * copied as bytes, and only values that a step reads become text.
 */
export class JsonbObject extends JsonObject {
  readonly #source: Source;
  /** Members of the source that have another value, by index; undefined: taken away. */
  readonly #edited: readonly number[];
  readonly #values: readonly (Json | undefined)[];
  readonly #added: ReadonlyMap<string, Json> | null;

  private constructor(
    source: Source,
    edited: readonly number[],
    values: readonly (Json | undefined)[],
    added: ReadonlyMap<string, Json> | null,
  ) {
    super(null);
    this.#source = source;
    this.#edited = edited;
    this.#values = values;
    this.#added = added;
  }

  /** Null if `bytes[start, end)` are not as PostgreSQL prints an object of jsonb, or if a name has escapes. */
  static open(bytes: Buffer, start: number, end: number): JsonbObject | null {
    const ends = findEnds(bytes, start, end);
    return ends && new JsonbObject({ bytes, start, end, ends }, [], [], null);
  }

  override get(name: string): Json | undefined {
    const index = find(this.#source, name);
    if (index < 0) return this.#added?.get(name);
    const at = this.#edited.indexOf(index);
    return at < 0 ? valueAt(this.#source, index) : this.#values[at];
  }

  override edit(edits: readonly Edit[]): JsonObject {
    // Each is looked for among all members: with many of both a row would take too long.
    if (this.#edited.length + edits.length > maxEdits) return super.edit(edits);
    const edited = this.#edited.slice();
    const values = this.#values.slice();
    let added: Map<string, Json> | null = this.#added && new Map(this.#added);
    for (const [name, value] of edits) {
      const index = find(this.#source, name);
      if (index < 0) {
        added ??= new Map();
        if (value === undefined) added.delete(name);
        else added.set(name, value);
        continue;
      }
      const at = edited.indexOf(index);
      // A removed member comes back at the end.
      if (at >= 0 && values[at] === undefined) return super.edit(edits);
      if (at < 0) edited.push(index);
      values[at < 0 ? values.length : at] = value;
    }
    return new JsonbObject(this.#source, edited, values, added);
  }

  override writeTo(sink: ByteSink): void {
    const { bytes, start, end, ends } = this.#source;
    if (this.#edited.length === 0 && this.#added === null) {
      sink.copy(bytes, start, end);
      return;
    }
    let isFirst = true;
    const separate = () => {
      if (!isFirst) sink.copy(comma, 0, comma.length);
      isFirst = false;
    };
    const copyMembers = (from: number, to: number) => {
      if (from >= to) return;
      separate();
      sink.copy(bytes, from, to);
    };
    sink.copy(open, 0, 1);
    let from = start + 1;
    for (const index of this.#edited.toSorted((one, other) => one - other)) {
      const memberStart = startOf(this.#source, index);
      copyMembers(from, memberStart - comma.length);
      from = (ends[index * 2 + 1] ?? 0) + comma.length;
      const value = this.#values[this.#edited.indexOf(index)];
      if (value === undefined) continue;
      separate();
      sink.copy(bytes, memberStart, (ends[index * 2] ?? 0) + nameEndBytes);
      writeJson(sink, value);
    }
    copyMembers(from, end - 1);
    for (const [name, value] of this.#added ?? []) {
      separate();
      sink.write(`${quote(name)}: `);
      writeJson(sink, value);
    }
    sink.copy(close, 0, 1);
  }

  protected override read(): ReadonlyMap<string, Json> {
    const members = new Map<string, Json>();
    const { bytes, ends } = this.#source;
    for (let index = 0; index * 2 < ends.length; index += 1) {
      const name = bytes.toString('utf8', startOf(this.#source, index) + 1, ends[index * 2]);
      const at = this.#edited.indexOf(index);
      const value = at < 0 ? valueAt(this.#source, index) : this.#values[at];
      if (value !== undefined) members.set(name, value);
    }
    for (const [name, value] of this.#added ?? []) members.set(name, value);
    return members;
  }

  protected override print(): JsonText {
    const { bytes, start, end } = this.#source;
    if (this.#edited.length > 0 || this.#added !== null) return super.print();
    return bytes.toString('utf8', start, end) as JsonText;
  }
}

interface Source {
  readonly bytes: Buffer;
  readonly start: number;
  readonly end: number;
  /** For each member: the position of the quote that ends its name, and where its value ends. */
  readonly ends: readonly number[];
}

const nameEndBytes = 3;

/** The position of the quote before the name. */
function startOf({ start, ends }: Source, index: number): number {
  return index === 0 ? start + 1 : (ends[index * 2 - 1] ?? 0) + comma.length;
}

function valueAt({ bytes, ends }: Source, index: number): JsonText {
  const start = (ends[index * 2] ?? 0) + nameEndBytes;
  return bytes.toString('utf8', start, ends[index * 2 + 1]) as JsonText;
}

function find({ bytes, start, ends }: Source, name: string): number {
  const sought = bytesOf(name);
  if (sought === null) return -1;
  let from = start + 2;
  for (let at = 0; at < ends.length; at += 2) {
    const length = (ends[at] ?? 0) - from;
    // The order of jsonb: shorter names first.
    if (length > sought.length) return -1;
    if (length === sought.length && compare(bytes, from, sought, 0, length) === 0) return at / 2;
    from = (ends[at + 1] ?? 0) + nameEndBytes;
  }
  return -1;
}

const knownNames = new Map<string, Buffer | null>();
const maxKnownNames = 1_000;
/** A longer one is made anew each time: a setting may have any length. */
const maxKnownLength = 200;

/** Null for a name with escapes: no object of these bytes has one. */
function bytesOf(name: string): Buffer | null {
  const stored = knownNames.get(name);
  if (stored !== undefined) return stored;
  const bytes = quote(name).length > name.length + 2 ? null : Buffer.from(name);
  if (name.length > maxKnownLength) return bytes;
  if (knownNames.size >= maxKnownNames) knownNames.clear();
  knownNames.set(name, bytes);
  return bytes;
}

function compare(a: Buffer, aStart: number, b: Buffer, bStart: number, length: number): number {
  for (let at = 0; at < length; at += 1) {
    const difference = (a[aStart + at] as number) - (b[bStart + at] as number);
    if (difference !== 0) return difference;
  }
  return 0;
}

/** Filled anew for each object: an array that grows would be garbage several times over. */
const scratch: number[] = [];

/** Null if the bytes are not in the one form that PostgreSQL prints. */
function findEnds(bytes: Buffer, start: number, end: number): readonly number[] | null {
  if (bytes[start] !== OPEN_OBJECT || bytes[end - 1] !== CLOSE_OBJECT) return null;
  if (end - start === 2) return [];
  const ends = scratch;
  let count = 0;
  let lastStart = 0;
  let lastLength = -1;
  for (let at = start + 1; at < end; at += 2) {
    if (bytes[at] !== QUOTE) return null;
    const nameEnd = endOfName(bytes, at + 1, end);
    const length = nameEnd - at - 1;
    if (length < lastLength || bytes[nameEnd + 1] !== COLON) return null;
    if (bytes[nameEnd + 2] !== SPACE) return null;
    if (length === lastLength && compare(bytes, lastStart, bytes, at + 1, length) >= 0) return null;
    lastStart = at + 1;
    lastLength = length;
    at = endOfValue(bytes, nameEnd + nameEndBytes, end);
    if (at === nameEnd + nameEndBytes) return null;
    spendMade(1);
    ends[count] = nameEnd;
    ends[count + 1] = at;
    count += 2;
    if (at === end - 1) return ends.slice(0, count);
    if (bytes[at] !== COMMA || bytes[at + 1] !== SPACE) return null;
  }
  return null;
}

/** The position of the closing quote; 0 if the name has an escape or does not end. */
function endOfName(bytes: Buffer, start: number, end: number): number {
  for (let at = start; at < end; at += 1) {
    const byte = bytes[at];
    if (byte === QUOTE) return at;
    if (byte === BACKSLASH) return 0;
  }
  return 0;
}

/** Bytes without an escape after which a text may have many more of them. */
const fewBytes = 32;

function endOfString(bytes: Buffer, start: number, end: number): number {
  let view: DataView | null = null;
  let skipsFrom = start + longTextBytes;
  for (let at = start + 1; at < end; at += 1) {
    if (at > skipsFrom) {
      view ??= new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
      at = skipPlainBytes(view, at, end);
      if (at >= end) break;
    }
    const byte = bytes[at];
    if (byte === QUOTE) return at + 1;
    if (byte === BACKSLASH) {
      at += 1;
      // Others may follow soon: a call for each takes many times as long as the bytes between them.
      skipsFrom = at + fewBytes;
    }
  }
  return end;
}

/** Without recursion: a hostile row may be nested thousands of levels deep. `end` if it does not end. */
function endOfValue(bytes: Buffer, start: number, end: number): number {
  if (bytes[start] === QUOTE) return endOfString(bytes, start, end);
  let depth = 0;
  for (let at = start; at < end; at += 1) {
    const byte = bytes[at];
    if (byte === QUOTE) {
      at = endOfString(bytes, at, end) - 1;
    } else if (byte === OPEN_OBJECT || byte === OPEN_LIST) {
      depth += 1;
    } else if (byte === CLOSE_OBJECT || byte === CLOSE_LIST) {
      if (depth === 0) return at;
      depth -= 1;
      if (depth === 0) return at + 1;
    } else if (depth === 0 && (byte === COMMA || byte === SPACE)) {
      return at;
    }
  }
  return end;
}
