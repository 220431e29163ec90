import { setImmediate, setTimeout as sleep } from 'node:timers/promises';
import { type Column, copyBlock, type RowBlock } from '../../foundation/domain/row-block.ts';
import { BlockColumns, BlockRow, type FieldToJson } from './block-row.ts';
import type { ChainStep, RowKey, StepTally, Watcher } from './chain-step.ts';
import { Chain, type Pause } from './chain.ts';
import { chainColumnsOf, writerOf, type WriteValue } from './column-values.ts';
import { type Json, jsonNull, objectOf, plainOf } from './json.ts';
import type { Step } from './step.ts';
import { TextWriter } from './text-writer.ts';
import type { Row } from './transform.ts';

/** Bytes of a row times steps: more take so long that there is a turn after each step. */
const largeRowWork = 512 * 1024;

interface RowOutput {
  readonly name: string;
  readonly column: string;
  readonly path: readonly string[];
}

export interface RowsShape {
  readonly columns: readonly Column[];
  readonly outputs: readonly RowOutput[];
  /** The columns that name a row in logs and among the rejected: there under the names of their outputs. */
  readonly keyColumns: readonly string[];
  readonly fixedColumns: readonly string[];
  /** Turns fields of a column into JSON; not asked for text and jsonb. */
  readonly toJson: (column: Column) => FieldToJson;
}

/** A key column that no output shows is not in it. */
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

/** Then the SELECT list. A value that no step changed keeps its bytes. Results may share the memory of given blocks. */
export class RowTransformer {
  readonly columns: readonly Column[];
  readonly #chain: Chain;
  readonly #given: BlockColumns;
  readonly #fields: readonly Field[];
  readonly #signal: AbortSignal | null;
  readonly #turns: Pause | null;
  #last: Promise<void> = Promise.resolve();

  /** @param signal ends the work on a large row between two steps @param turns default: between those of large rows */
  constructor(
    steps: readonly Step[],
    shape: RowsShape,
    signal: AbortSignal | null = null,
    turns: Pause | null = null,
  ) {
    this.#signal = signal;
    this.#turns = turns;
    const { columns, outputs, keyColumns, fixedColumns, toJson } = shape;
    const shownAs = (key: string) =>
      outputs.filter(({ column, path }) => column === key && path.length === 0).map(nameOf);
    this.#chain = new Chain(steps, chainColumnsOf(columns, fixedColumns), keyColumns, shownAs);
    this.#given = new BlockColumns(columns, toJson);
    this.#fields = outputs.map((output) => fieldOf(output, columns));
    this.columns = this.#fields.map(({ column }) => column);
  }

  get steps(): readonly ChainStep[] {
    return this.#chain.steps;
  }

  watch(watcher: Watcher): void {
    this.#chain.watch(watcher);
  }

  read(block: RowBlock, index: number): Row {
    return BlockRow.of(this.#given, block, index);
  }

  /** The next block may be given before this one is out; they come out in their order. */
  apply(block: RowBlock): Promise<TransformedRows> {
    const out = this.#apply(block, this.#last);
    this.#last = out.then(nothing, nothing);
    return out;
  }

  async #apply(block: RowBlock, before: Promise<void>): Promise<TransformedRows> {
    const out = new BlockWriter(this.columns, block);
    const rejected: StepRejection[] = [];
    let dropped = 0;
    const read = (index: number) => BlockRow.of(this.#given, block, index);
    const pause = this.#turns ?? takeTurns(this.#signal);
    const isLarge = this.#turns ? () => true : this.#largeRows(block);
    const pauseOf = (index: number) => (isLarge(index) ? pause : undefined);
    const rows = { length: block.rowCount, at: read };
    const judge = await this.#chain.judgeBlock(rows, pauseOf);
    await before;
    for (let index = 0; index < block.rowCount; index += 1) {
      const given = read(index);
      const judged = judge(index, given, pauseOf(index));
      const outcome = judged instanceof Promise ? await judged : judged;
      if (outcome.kind === 'dropped') dropped += 1;
      else if (outcome.kind === 'kept') this.#write(out, index, given, outcome.row);
      else {
        const { step: id, reason, key } = outcome;
        const name = this.steps.find(({ step }) => step.id === id)?.step.name;
        rejected.push({ step: `${id} (${name})`, reason, key });
      }
      const rest = pause();
      if (rest) await rest;
    }
    return { block: out.finish(), rejected, dropped };
  }

  #largeRows({ columns: { length: width }, bytes, lengths }: RowBlock): (index: number) => boolean {
    const most = largeRowWork / Math.max(1, this.steps.length);
    if (bytes.length <= most) return () => false;
    return (index) => {
      let size = 0;
      for (let field = index * width; field < (index + 1) * width; field += 1) {
        size += Math.max(0, lengths[field] as number);
      }
      return size > most;
    };
  }

  #write(out: BlockWriter, index: number, given: BlockRow, row: Row): void {
    const first = index * this.#given.names.length;
    for (const { source, name, path, write } of this.#fields) {
      if (path === null && isKept(given, row, source, name)) {
        out.keep(first + source);
        continue;
      }
      const value = row.get(name) ?? jsonNull;
      const field = path === null ? value : textAt(value, path);
      if (field === jsonNull) {
        out.putNull();
        continue;
      }
      out.begin();
      write(out, field);
      out.end();
    }
  }
}

/** The value is the source's own: some of those have no form that a step could write. */
function isKept(given: BlockRow, row: Row, column: number, name: string): boolean {
  if (row instanceof BlockRow && row.written(column) === undefined) return true;
  return row.get(name) === given.get(name);
}

function nothing(): void {}

const nameOf = ({ name }: RowOutput): string => name;

interface Field {
  readonly source: number;
  readonly name: string;
  readonly path: readonly string[] | null;
  readonly column: Column;
  readonly write: WriteValue;
}

function fieldOf({ name, column, path }: RowOutput, columns: readonly Column[]): Field {
  const source = columns.findIndex((candidate) => candidate.name === column);
  const sourceColumn = columns[source];
  if (!sourceColumn) throw new Error(`there is no column ${column}`);
  if (path.length === 0) {
    const write = writerOf(sourceColumn);
    return { source, name: column, path: null, column: { ...sourceColumn, name }, write };
  }
  const text: Column = { name, type: 'text', sourceType: 'text' };
  const write: WriteValue = (sink, value) => sink.write(plainOf(value));
  return { source, name: column, path, column: text, write };
}

/** Follows a path as PostgreSQL's `->` and `->>` do with text keys: null for what is no object. */
function textAt(value: Json, path: readonly string[]): Json {
  let inner: Json = value;
  for (const key of path) inner = objectOf(inner)?.get(key) ?? jsonNull;
  return inner;
}

const maxSpareBytes = 256 * 1_024;

/** Its bytes with new values behind them: a field that stays is two numbers. `keep`, or `begin` and `end`, in turn. */
export class BlockWriter extends TextWriter {
  readonly #columns: readonly Column[];
  readonly #given: RowBlock;
  readonly #offsets: Int32Array;
  readonly #lengths: Int32Array;
  #fields = 0;
  #start = 0;

  constructor(columns: readonly Column[], given: RowBlock) {
    super(given.bytes, given.bytes.length, maxSpareBytes);
    this.#columns = columns;
    this.#given = given;
    this.#offsets = new Int32Array(given.rowCount * columns.length);
    this.#lengths = new Int32Array(given.rowCount * columns.length);
  }

  /** The next field is this one of the given block. */
  keep(field: number): void {
    this.#place(this.#given.offsets[field] ?? 0, this.#given.lengths[field] ?? -1);
  }

  putNull(): void {
    this.#place(0, -1);
  }

  /** The next field is what is written from here to `end`. */
  begin(): void {
    this.#start = this.length;
  }

  end(): void {
    this.#place(this.#start, this.length - this.#start);
  }

  finish(): RowBlock {
    return {
      columns: this.#columns,
      rowCount: this.#columns.length === 0 ? 0 : this.#fields / this.#columns.length,
      bytes: this.bytes.subarray(0, this.length),
      offsets: this.#offsets.subarray(0, this.#fields),
      lengths: this.#lengths.subarray(0, this.#fields),
    };
  }

  #place(offset: number, length: number): void {
    this.#offsets[this.#fields] = offset;
    this.#lengths[this.#fields] = length;
    this.#fields += 1;
  }
}

/** The time that a chain may keep the event loop from others, apart from one step of a large row. */
const turnMs = 10;

function takeTurns(signal: AbortSignal | null): Pause {
  let endsAt = performance.now() + turnMs;
  const next = async () => {
    await setImmediate();
    signal?.throwIfAborted();
    endsAt = performance.now() + turnMs;
  };
  return () => (performance.now() < endsAt ? null : next());
}

/** Work for a request takes this time, then leaves the process to others for three times as long. */
const requestTurnMs = 5;
const restShare = 3;

/** In the process that answers all requests. @param signal gives the work up, with its reason */
export function takeRests(signal: AbortSignal): Pause {
  let startedAt = performance.now();
  const rest = async (spentMs: number) => {
    await sleep(spentMs * restShare);
    signal.throwIfAborted();
    startedAt = performance.now();
  };
  return () => {
    const spentMs = performance.now() - startedAt;
    return spentMs < requestTurnMs ? null : rest(spentMs);
  };
}

export interface BlockTransformer {
  readonly columns: readonly Column[];
  /** In the order of the chain; complete once `finish` has resolved. */
  readonly steps: readonly StepTally[];
  /** Then its memory may be used again, unless it is in the result. @returns the blocks that are ready, in order */
  write(block: RowBlock): Promise<readonly TransformedRows[]>;
  finish(): Promise<readonly TransformedRows[]>;
}

export function blockByBlock(transformer: RowTransformer): BlockTransformer {
  return {
    columns: transformer.columns,
    steps: transformer.steps,
    write: async (block) => [await transformer.apply(block)],
    finish: async () => [],
  };
}

/** Blocks in the processes of a chain or on their way: while one is encoded, the next ones are made. */
const maxInFlight = 2;
/** A larger one goes alone, since a copy of it and the blocks beside it would take too much memory. */
const maxBlockBytes = 2 * 1024 ** 2;

export function withBlocksInFlight(transformer: RowTransformer): BlockTransformer {
  const results: Promise<TransformedRows>[] = [];
  const take = async (most: number) => {
    const ready: TransformedRows[] = [];
    while (results.length > most) {
      const first = await results[0];
      results.shift();
      if (first) ready.push(first);
    }
    return ready;
  };
  return {
    columns: transformer.columns,
    steps: transformer.steps,
    write: async (block) => {
      if (block.bytes.length > maxBlockBytes) {
        return [...(await take(0)), await transformer.apply(block)];
      }
      // The memory of a block that was read belongs to its source.
      const result = transformer.apply(copyBlock(block));
      // It is thrown when the block's turn comes; until then it must not count as unhandled.
      result.catch(() => {});
      results.push(result);
      return take(maxInFlight);
    },
    finish: () => take(0),
  };
}
