import {
  BACKSLASH,
  CLOSE_LIST,
  CLOSE_OBJECT,
  COLON,
  COMMA,
  OPEN_LIST,
  OPEN_OBJECT,
  QUOTE,
} from '../../foundation/domain/json-bytes.ts';
/**
 * A value stays the text it came as until a step reads it, and what no step changes is written as that text. So
 * 9007199254740993, 1.10 and 1e400 stay what they are, and `__proto__` is a member like any other.
 */

import { RowError, spendMade, spendPassed } from './effort.ts';

declare const isJson: unique symbol;

export type JsonText = string & { readonly [isJson]: true };

export type Json = JsonText | JsonObject | readonly Json[];

export type JsonKind = 'null' | 'boolean' | 'number' | 'string' | 'object' | 'list';

export const jsonNull = 'null' as JsonText;

/** PostgreSQL or `JSON.stringify` wrote it: valid JSON. */
export function trustJson(text: string): JsonText {
  return text.trim() as JsonText;
}

/** @throws SyntaxError if the text is no JSON */
export function parseJson(text: string): JsonText {
  JSON.parse(text);
  return trustJson(text);
}

export function toJson(value: string | number | boolean | null): JsonText {
  return typeof value === 'string' ? quote(value) : (JSON.stringify(value) as JsonText);
}

/** A member and its new value; undefined takes it away. */
export type Edit = readonly [string, Json | undefined];

export interface ByteSink {
  copy(from: Buffer, start: number, end: number): void;
  write(text: string): void;
}

/** Immutable; it is read at most once, and its text is made at most once. */
export class JsonObject {
  #text: JsonText | null = null;
  #members: ReadonlyMap<string, Json> | null = null;

  /** @param source null: a subclass reads and prints it in its own way */
  constructor(source: JsonText | ReadonlyMap<string, Json> | null) {
    if (typeof source === 'string') this.#text = source;
    else this.#members = source;
  }

  /** In the order of the text. Of members with the same name the last one counts, as in JSON.parse. */
  get members(): ReadonlyMap<string, Json> {
    this.#members ??= this.read();
    return this.#members;
  }

  get text(): JsonText {
    this.#text ??= this.print();
    return this.#text;
  }

  get(name: string): Json | undefined {
    return this.members.get(name);
  }

  /** This object stays as it is. */
  with(members: readonly (readonly [string, Json])[]): JsonObject {
    return this.edit(members);
  }

  edit(edits: readonly Edit[]): JsonObject {
    const copy = new Map(this.members);
    for (const [name, value] of edits) {
      if (value === undefined) copy.delete(name);
      else copy.set(name, value);
    }
    return new JsonObject(copy);
  }

  /** The edits that made this object of another one: at least the members that differ, each with its value here. */
  changesSince(before: JsonObject): readonly Edit[] {
    if (before === this) return [];
    const changed = [...this.members].filter(([name, value]) => value !== before.get(name));
    const gone = [...before.members.keys()].filter((name) => this.get(name) === undefined);
    return [...changed, ...gone.map((name): Edit => [name, undefined])];
  }

  writeTo(sink: ByteSink): void {
    sink.write(this.text);
  }

  protected read(): ReadonlyMap<string, Json> {
    return scanMembers(this.#text ?? '');
  }

  protected print(): JsonText {
    return writeObject(this.members);
  }
}

export function textOf(value: Json): JsonText {
  if (typeof value === 'string') return value;
  if (value instanceof JsonObject) return value.text;
  return `[${value.map(textOf).join(', ')}]` as JsonText;
}

export function writeJson(sink: ByteSink, value: Json): void {
  if (value instanceof JsonObject) value.writeTo(sink);
  else sink.write(textOf(value));
}

export function kindOf(value: Json): JsonKind {
  if (typeof value !== 'string') return value instanceof JsonObject ? 'object' : 'list';
  switch (value[0]) {
    case '"':
      return 'string';
    case '{':
      return 'object';
    case '[':
      return 'list';
    case 't':
    case 'f':
      return 'boolean';
    case 'n':
      return 'null';
    default:
      return 'number';
  }
}

export function objectOf(value: Json | undefined): JsonObject | null {
  if (value instanceof JsonObject) return value;
  return typeof value === 'string' && value[0] === '{' ? new JsonObject(value) : null;
}

export function listOf(value: Json | undefined): readonly Json[] | null {
  if (typeof value === 'string') return value[0] === '[' ? scanElements(value) : null;
  return value === undefined || value instanceof JsonObject ? null : value;
}

export function stringOf(value: Json | undefined): string | null {
  return typeof value === 'string' && value[0] === '"' ? unquote(value) : null;
}

/** A string's own text, and the JSON of other values: `a`, `1.10`, `{"b": 2}`. */
export function plainOf(value: Json): string {
  return stringOf(value) ?? textOf(value);
}

function unquote(text: string): string {
  return text.includes('\\') ? String(JSON.parse(text)) : text.slice(1, -1);
}

/** The depth to which steps look into a value: to open one level costs as much as the text is long. */
const maxLevels = 64;

/** Counts a level down. @throws RowError if a value is nested too deeply for a step to look into */
export function descend(levels = maxLevels): number {
  if (levels === 0) throw new RowError(`A value is nested more than ${maxLevels} levels deep.`);
  return levels - 1;
}

/** At any depth; names stay as they are. @returns the same value if nothing in it changed */
export function mapScalars(
  value: Json,
  change: (scalar: JsonText) => JsonText,
  levels?: number,
): Json {
  const list = listOf(value);
  const object = objectOf(value);
  if (!list && !object) return change(textOf(value));
  const below = descend(levels);
  if (list) return mapList(list, (element) => mapScalars(element, change, below)) ?? value;
  const changed = [...(object?.members ?? [])].flatMap(([name, before]): [string, Json][] => {
    const after = mapScalars(before, change, below);
    return after === before ? [] : [[name, after]];
  });
  return object && changed.length > 0 ? object.with(changed) : value;
}

export function mapList(
  list: readonly Json[],
  change: (element: Json) => Json,
): readonly Json[] | null {
  const after = list.map(change);
  return after.some((element, index) => element !== list[index]) ? after : null;
}

const needsEscape = /[^ !#-[\]-\ud7ff]/;

export function quote(text: string): JsonText {
  return (needsEscape.test(text) ? JSON.stringify(text) : `"${text}"`) as JsonText;
}

/** Prints as PostgreSQL prints jsonb, so that changed and unchanged rows look alike. */
function writeObject(members: ReadonlyMap<string, Json>): JsonText {
  let text = '';
  for (const [name, value] of members) {
    text += `${text === '' ? '{' : ', '}${quote(name)}: ${textOf(value)}`;
  }
  return (text === '' ? '{}' : `${text}}`) as JsonText;
}

function scanMembers(text: string): Map<string, Json> {
  const members = new Map<string, Json>();
  let at = skipBlanks(text, 1);
  while (text.charCodeAt(at) === QUOTE) {
    const nameEnd = endOfString(text, at);
    const start = skipBlanks(text, expect(text, skipBlanks(text, nameEnd), COLON));
    const end = endOfValue(text, start);
    spendMade(1);
    members.set(unquote(text.slice(at, nameEnd)), text.slice(start, end) as JsonText);
    at = skipBlanks(text, end);
    if (text.charCodeAt(at) !== COMMA) break;
    at = skipBlanks(text, at + 1);
  }
  expect(text, at, CLOSE_OBJECT);
  return members;
}

function scanElements(text: string): Json[] {
  const elements: Json[] = [];
  let at = skipBlanks(text, 1);
  while (text.charCodeAt(at) !== CLOSE_LIST) {
    const end = endOfValue(text, at);
    spendMade(1);
    elements.push(text.slice(at, end) as JsonText);
    at = skipBlanks(text, end);
    if (text.charCodeAt(at) !== COMMA) break;
    at = skipBlanks(text, at + 1);
  }
  expect(text, at, CLOSE_LIST);
  return elements;
}

function expect(text: string, at: number, code: number): number {
  if (text.charCodeAt(at) !== code) throw new SyntaxError('The text is not JSON.');
  return at + 1;
}

function skipBlanks(text: string, start: number): number {
  let at = start;
  while (text.charCodeAt(at) <= 0x20) at += 1;
  return at;
}

function endOfString(text: string, start: number): number {
  let at = text.indexOf('"', start + 1);
  while (at >= 0 && isEscaped(text, at)) at = text.indexOf('"', at + 1);
  if (at < 0) throw new SyntaxError('The text is not JSON.');
  return at + 1;
}

function isEscaped(text: string, at: number): boolean {
  let backslashes = 0;
  while (text.charCodeAt(at - 1 - backslashes) === BACKSLASH) backslashes += 1;
  return backslashes % 2 === 1;
}

/** Characters that are counted at a time; a value of fewer is not. */
const passedAtOnce = 65_536;

/** Without recursion: a hostile row may be nested thousands of levels deep. */
function endOfValue(text: string, start: number): number {
  const first = text.charCodeAt(start);
  if (first === QUOTE) return endOfString(text, start);
  if (first !== OPEN_OBJECT && first !== OPEN_LIST) return endOfScalar(text, start);
  let depth = 0;
  let sinceSpent = 0;
  for (let at = start; at < text.length; at += 1) {
    sinceSpent += 1;
    if (sinceSpent === passedAtOnce) {
      spendPassed(sinceSpent);
      sinceSpent = 0;
    }
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = endOfString(text, at) - 1;
    else if (code === OPEN_OBJECT || code === OPEN_LIST) depth += 1;
    else if (code === CLOSE_OBJECT || code === CLOSE_LIST) depth -= 1;
    if (depth === 0) {
      spendPassed(sinceSpent);
      return at + 1;
    }
  }
  throw new SyntaxError('The text is not JSON.');
}

function endOfScalar(text: string, start: number): number {
  let at = start;
  while (at < text.length && !endsScalar(text.charCodeAt(at))) at += 1;
  if (at === start) throw new SyntaxError('The text is not JSON.');
  return at;
}

function endsScalar(code: number): boolean {
  return code <= 0x20 || code === COMMA || code === CLOSE_LIST || code === CLOSE_OBJECT;
}
