import type { Column, RowBlock } from '../../foundation/domain/row-block.ts';
import {
  type ByteSink,
  type Edit,
  type Json,
  JsonObject,
  type JsonText,
  jsonNull,
  objectOf,
  quote,
  textOf,
  trustJson,
  writeJson,
} from './json.ts';
import { JsonbObject } from './jsonb-object.ts';

export type FieldToJson = (bytes: Buffer, start: number, end: number) => string;

type ReadField = (bytes: Buffer, start: number, end: number) => Json;

interface Bounds {
  readonly start: number;
  readonly end: number;
}

/** The first byte of jsonb is the version of its form. */
const jsonbVersionBytes = 1;

export class BlockColumns {
  readonly names: readonly string[];
  readonly #indices: ReadonlyMap<string, number>;
  readonly #readers: readonly ReadField[];
  readonly #isJsonb: readonly boolean[];
  readonly #prefixes: readonly string[];

  constructor(columns: readonly Column[], toJson: (column: Column) => FieldToJson) {
    this.names = columns.map(({ name }) => name);
    this.#indices = new Map(this.names.map((name, index) => [name, index]));
    this.#readers = columns.map((column) => readerOf(column, toJson));
    this.#isJsonb = columns.map(({ type }) => type === 'jsonb');
    this.#prefixes = this.names.map((name) => `${quote(name)}: `);
  }

  prefix(column: number): string {
    return this.#prefixes[column] ?? '';
  }

  indexOf(name: string): number {
    return this.#indices.get(name) ?? -1;
  }

  /** In the block's bytes; null if it is not there as text. */
  textBounds({ offsets, lengths }: RowBlock, first: number, column: number): Bounds | null {
    const start = offsets[first + column] ?? 0;
    const length = lengths[first + column] ?? -1;
    if (length < 0 || !this.#isJsonb[column]) return null;
    return { start: start + jsonbVersionBytes, end: start + length };
  }

  /** @param first index of the row's first field in the block's arrays */
  read({ bytes, offsets, lengths }: RowBlock, first: number, column: number): Json {
    const start = offsets[first + column] ?? 0;
    const length = lengths[first + column] ?? -1;
    if (length < 0) return jsonNull;
    return this.#readers[column]?.(bytes, start, start + length) ?? jsonNull;
  }
}

function readerOf(column: Column, toJson: (column: Column) => FieldToJson): ReadField {
  if (column.type === 'text')
    return (bytes, start, end) => quote(bytes.toString('utf8', start, end));
  if (column.type === 'jsonb') return readJsonb;
  const read = toJson(column);
  return (bytes, start, end) => {
    const text = trustJson(read(bytes, start, end));
    return objectOf(text) ?? text;
  };
}

function readJsonb(bytes: Buffer, start: number, end: number): Json {
  const object = JsonbObject.open(bytes, start + jsonbVersionBytes, end);
  if (object) return object;
  const text = trustJson(bytes.toString('utf8', start + jsonbVersionBytes, end));
  return objectOf(text) ?? text;
}

/** A row in a block: a column becomes JSON when a step asks for it. Valid as long as the block is. */
export class BlockRow extends JsonObject {
  readonly #columns: BlockColumns;
  readonly #block: RowBlock;
  readonly #first: number;
  /** Values read from the block, by column: shared with the rows that steps make of this one. */
  readonly #read: (Json | undefined)[];
  /** Values that steps wrote, by column; null: taken away. */
  readonly #written: readonly (Json | null | undefined)[];

  private constructor(
    columns: BlockColumns,
    block: RowBlock,
    first: number,
    read: (Json | undefined)[],
    written: readonly (Json | null | undefined)[],
  ) {
    super(null);
    this.#columns = columns;
    this.#block = block;
    this.#first = first;
    this.#read = read;
    this.#written = written;
  }

  static of(columns: BlockColumns, block: RowBlock, row: number): BlockRow {
    return new BlockRow(columns, block, row * columns.names.length, [], nothing);
  }

  override get(name: string): Json | undefined {
    const column = this.#columns.indexOf(name);
    return column < 0 ? undefined : this.#get(column);
  }

  /** Null if it was taken away, undefined if nothing was written. */
  written(column: number): Json | null | undefined {
    return this.#written[column];
  }

  override edit(edits: readonly Edit[]): JsonObject {
    const written = this.#written.slice();
    for (const [name, value] of edits) {
      const column = this.#columns.indexOf(name);
      if (column >= 0) written[column] = value ?? null;
      // No block has a place for it.
      else if (value !== undefined) return super.edit(edits);
    }
    return new BlockRow(this.#columns, this.#block, this.#first, this.#read, written);
  }

  override changesSince(before: JsonObject): readonly Edit[] {
    if (!(before instanceof BlockRow) || before.#read !== this.#read) {
      return super.changesSince(before);
    }
    const changes: Edit[] = [];
    for (let column = 0; column < this.#written.length; column += 1) {
      if (this.#written[column] === before.#written[column]) continue;
      const value = this.#get(column);
      if (value === before.#get(column)) continue;
      changes.push([this.#columns.names[column] ?? '', value]);
    }
    return changes;
  }

  protected override read(): ReadonlyMap<string, Json> {
    const members = new Map<string, Json>();
    for (const [column, name] of this.#columns.names.entries()) {
      const value = this.#get(column);
      if (value !== undefined) members.set(name, value);
    }
    return members;
  }

  /** Prints the members without a Map of them: own plugins get every row as text. */
  protected override print(): JsonText {
    let text = '';
    for (let column = 0; column < this.#columns.names.length; column += 1) {
      const value = this.#get(column);
      if (value === undefined) continue;
      text += (text === '' ? '{' : ', ') + this.#columns.prefix(column) + textOf(value);
    }
    return (text === '' ? '{}' : `${text}}`) as JsonText;
  }

  override writeTo(sink: ByteSink): void {
    let text = '{';
    let isFirst = true;
    for (let column = 0; column < this.#columns.names.length; column += 1) {
      const written = this.#written[column];
      if (written === null) continue;
      text += (isFirst ? '' : ', ') + this.#columns.prefix(column);
      isFirst = false;
      const bounds =
        written === undefined ? this.#columns.textBounds(this.#block, this.#first, column) : null;
      if (bounds === null && !(written instanceof JsonbObject)) {
        text += textOf(this.#get(column) ?? jsonNull);
        continue;
      }
      sink.write(text);
      text = '';
      if (bounds) sink.copy(this.#block.bytes, bounds.start, bounds.end);
      else writeJson(sink, written ?? jsonNull);
    }
    sink.write(`${text}}`);
  }

  #get(column: number): Json | undefined {
    const written = this.#written[column];
    if (written !== undefined) return written ?? undefined;
    let read = this.#read[column];
    if (read === undefined) {
      read = this.#columns.read(this.#block, this.#first, column);
      this.#read[column] = read;
    }
    return read;
  }
}

const nothing: readonly undefined[] = [];
