import type { Column, RowBlock } from '../domain/row-block.ts';
import { Chain } from './chain.ts';
import type { ChainStep, RowKey } from './chain-step.ts';
import { chainColumnsOf, encoderOf } from './column-values.ts';
import { type Json, JsonObject, jsonNull, objectOf, plainOf, textOf, trustJson } from './json.ts';
import type { Step } from './step.ts';
import { makeRow, type Row } from './transform.ts';

/** What a SELECT list makes of a transformed row: a column, or the text at a path into it. */
export interface RowOutput {
  readonly name: string;
  readonly column: string;
  readonly path: readonly string[];
}

export interface RowsShape {
  /** Of the blocks that are given. */
  readonly columns: readonly Column[];
  /** Of the blocks that come out. */
  readonly outputs: readonly RowOutput[];
  /** What names a row in logs and among the rejected. */
  readonly keyColumns: readonly string[];
  /** No step changes them. */
  readonly fixedColumns: readonly string[];
  /** The rows of a block as JSON Lines. */
  readonly toJsonLines: (block: RowBlock) => Promise<string>;
}

/** A row that a step rejected: all that is left of it. */
export interface StepRejection {
  readonly step: string;
  readonly reason: string;
  readonly key: RowKey;
}

export interface TransformedRows {
  readonly block: RowBlock;
  readonly rejected: readonly StepRejection[];
  readonly dropped: number;
}

/**
 * Applies a chain to row blocks, then the SELECT list. A value that no step changed is copied byte for
 * byte, so a chain that does nothing gives the block that it was given.
 */
export class RowTransformer {
  readonly columns: readonly Column[];
  readonly #chain: Chain;
  readonly #shape: RowsShape;
  readonly #fields: readonly Field[];

  constructor(steps: readonly Step[], shape: RowsShape) {
    const { columns, outputs, keyColumns, fixedColumns } = shape;
    this.#chain = new Chain(steps, chainColumnsOf(columns, fixedColumns), keyColumns);
    this.#shape = shape;
    this.#fields = outputs.map((output) => fieldOf(output, columns));
    this.columns = this.#fields.map(({ column }) => column);
  }

  /** With their counters and errors. */
  get steps(): readonly ChainStep[] {
    return this.#chain.steps;
  }

  /** As `Chain.findExcess`. */
  findExcess(): ReturnType<Chain['findExcess']> {
    return this.#chain.findExcess();
  }

  async apply(block: RowBlock): Promise<TransformedRows> {
    const lines = (await this.#shape.toJsonLines(block)).split('\n');
    const out = new BlockWriter(this.columns, block.bytes.length);
    const rejected: StepRejection[] = [];
    let dropped = 0;
    for (let index = 0; index < block.rowCount; index += 1) {
      const given = readRow(lines[index] ?? '');
      const outcome = this.#chain.apply(given);
      if (outcome.kind === 'dropped') dropped += 1;
      else if (outcome.kind === 'kept') this.#write(out, block, index, given, outcome.row);
      else {
        const { step: id, reason, key } = outcome;
        const name = this.steps.find(({ step }) => step.id === id)?.step.name;
        rejected.push({ step: `${id} (${name})`, reason, key });
      }
    }
    return { block: out.finish(), rejected, dropped };
  }

  #write(out: BlockWriter, block: RowBlock, index: number, given: Row, row: Row): void {
    const { offsets, lengths, columns } = block;
    for (const { source, name, path, encode } of this.#fields) {
      const value = row.get(name) ?? jsonNull;
      if (path === null && value === given.get(name)) {
        const at = index * columns.length + source;
        out.copy(block.bytes, offsets[at] ?? 0, lengths[at] ?? -1);
        continue;
      }
      const field = path === null ? value : textAt(value, path);
      const bytes = field === jsonNull ? null : encode(field);
      // The chain has let through only what the column can hold.
      if (typeof bytes === 'string') throw new Error(`a step's value does not fit ${name}`);
      out.put(bytes);
    }
  }
}

interface Field {
  /** Its index in the blocks that are given. */
  readonly source: number;
  readonly name: string;
  readonly path: readonly string[] | null;
  readonly column: Column;
  readonly encode: (value: Json) => Buffer | string;
}

function fieldOf({ name, column, path }: RowOutput, columns: readonly Column[]): Field {
  const source = columns.findIndex((candidate) => candidate.name === column);
  const found = columns[source];
  if (!found) throw new Error(`there is no column ${column}`);
  if (path.length === 0) {
    return {
      source,
      name: column,
      path: null,
      column: { ...found, name },
      encode: encoderOf(found),
    };
  }
  const text: Column = { name, type: 'text', sourceType: 'text' };
  return {
    source,
    name: column,
    path,
    column: text,
    encode: (value) => Buffer.from(plainOf(value)),
  };
}

/** A row from its line of JSON Lines. */
export function readRow(line: string): Row {
  const { members } = new JsonObject(trustJson(line));
  return makeRow([...members].map(([name, value]) => [name, textOf(value)]));
}

/** As PostgreSQL's `->` and `->>` with text keys: null for what is no object. */
function textAt(value: Json, path: readonly string[]): Json {
  let found: Json = value;
  for (const key of path) {
    found = objectOf(found)?.get(key) ?? jsonNull;
  }
  return found;
}

/** Rows one after the other, as a block. */
class BlockWriter {
  readonly #columns: readonly Column[];
  #bytes: Buffer;
  #used = 0;
  readonly #offsets: number[] = [];
  readonly #lengths: number[] = [];

  constructor(columns: readonly Column[], capacity: number) {
    this.#columns = columns;
    this.#bytes = Buffer.allocUnsafe(capacity);
  }

  /** @param length -1 for null */
  copy(from: Buffer, offset: number, length: number): void {
    this.#offsets.push(this.#used);
    this.#lengths.push(length);
    if (length <= 0) return;
    this.#ensure(length);
    from.copy(this.#bytes, this.#used, offset, offset + length);
    this.#used += length;
  }

  put(bytes: Buffer | null): void {
    if (bytes === null) this.copy(this.#bytes, 0, -1);
    else this.copy(bytes, 0, bytes.length);
  }

  finish(): RowBlock {
    return {
      columns: this.#columns,
      rowCount: this.#columns.length === 0 ? 0 : this.#offsets.length / this.#columns.length,
      bytes: this.#bytes,
      offsets: Int32Array.from(this.#offsets),
      lengths: Int32Array.from(this.#lengths),
    };
  }

  #ensure(more: number): void {
    if (this.#used + more <= this.#bytes.length) return;
    const grown = Buffer.allocUnsafe(Math.max(this.#used + more, this.#bytes.length * 2));
    this.#bytes.copy(grown, 0, 0, this.#used);
    this.#bytes = grown;
  }
}
