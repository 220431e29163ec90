import type pg from 'pg';
import { ByteWriter, viewOf } from '../../../foundation/domain/byte-writer.ts';
import {
  numericTextBytes,
  writeNumeric,
  writeShortNumeric,
} from '../../../foundation/domain/numeric-text.ts';
import type { RowBlock } from '../../../foundation/domain/row-block.ts';
import type { DataInterval } from '../../../foundation/domain/time.ts';
import type { Slice } from '../source.ts';
import { withAbort } from './connection.ts';
import { type Copy, CopyReader } from './copy-reader.ts';
import { KeyDigest, type KeyFields } from './key-digest.ts';
import type { SelectPlan } from './plan.ts';
import { CopyFormatError, RowBlockBuilder, type SourceBlock } from './row-blocks.ts';
import { nameLargeRow, RowTooLargeError } from './row-skimmer.ts';

/** Smaller rows are part of the memory that each run has. */
const freeRowBytes = 2 * 2 ** 20;

/**
 * Waits until a row of so many bytes may be held.
 *
 * @returns a function to call once it is no longer held
 * @throws the signal's reason if it aborts
 */
export type HoldRow = (bytes: number, signal: AbortSignal) => Promise<() => void>;

export interface SliceOptions {
  readonly blockBytes: number;
  /** A larger row is refused before it is held. */
  readonly maxRowBytes: number;
  readonly holdRow?: HoldRow;
}

/** A slice is read with these. */
export interface SliceReading {
  readonly options: SliceOptions;
  readonly select: SelectPlan;
  /** Gets the keys of all rows. */
  readonly keys: KeyDigest;
}

/**
 * The rows of a slice, by its interval column, then by key.
 *
 * @throws the errors of the reader and its memory; the connection can't be used afterwards
 */
export async function* readSlice(
  client: pg.Client,
  reading: SliceReading,
  slice: Slice,
  signal: AbortSignal,
): AsyncGenerator<RowBlock, void> {
  for await (const { block } of readSlices(client, [{ reading, slice }], signal)) yield block;
}

/** A slice that is read with others. */
interface JointSlice {
  readonly reading: SliceReading;
  readonly slice: Slice;
}

/**
 * The rows of several slices, in the order of `readSlice`. The server sends all of them after one message. Their options
 * about large rows are those of the first.
 *
 * @returns each block with the index of its slice; the next block reuses its memory
 * @throws as `readSlice`
 */
export async function* readSlices(
  client: pg.Client,
  slices: readonly JointSlice[],
  signal: AbortSignal,
): AsyncGenerator<{ readonly of: number; readonly block: RowBlock }, void> {
  const [first, ...others] = slices;
  if (!first) return;
  const copies = others.map(copyOf);
  const reader = new CopyReader([copyOf(first), ...copies], holdOf(first.reading, signal));
  try {
    client.query(reader);
    for (const [of, { reading }] of slices.entries()) {
      for await (const block of blocksOf(client, reading, { reader, of }, signal))
        yield { of, block };
    }
  } finally {
    reader.close();
  }
}

function copyOf({ reading: { options, select }, slice }: JointSlice): Copy {
  const { blockBytes, maxRowBytes, holdRow } = options;
  const builder = new RowBlockBuilder(select.columns, blockBytes, {
    hidden: select.hidden.length,
    maxRowBytes,
    freeBytes: holdRow ? freeRowBytes : Number.POSITIVE_INFINITY,
  });
  return { sql: select.copySql(slice), builder };
}

/** Holds the memory for a row's text too, but not more than a row of text alone may have. */
function holdOf({ options, select }: SliceReading, signal: AbortSignal) {
  const { maxRowBytes, holdRow } = options;
  const decodes = select.numerics.includes(true);
  if (!holdRow) return undefined;
  return (bytes: number) =>
    holdRow(decodes ? Math.max(bytes, Math.min(bytes * 2, maxRowBytes)) : bytes, signal);
}

interface OneCopy {
  readonly reader: CopyReader;
  /** Its index among the copies of the reader. */
  readonly of: number;
}

/** The decoded rows of a copy. */
async function* blocksOf(
  client: pg.Client,
  { options, select, keys }: SliceReading,
  { reader, of }: OneCopy,
  signal: AbortSignal,
): AsyncGenerator<RowBlock, void> {
  const { maxRowBytes, holdRow } = options;
  const hold = holdRow && ((bytes: number) => holdRow(bytes, signal));
  const decoder = new BlockDecoder(select.numerics, { textBytes: freeRowBytes, maxRowBytes });
  const named = (error: unknown): never => {
    throw nameLargeRow(error, select, maxRowBytes);
  };
  for (;;) {
    const block = await withAbort(client, signal, () => reader.next(of).catch(named));
    if (!block) return;
    if (select.keys) keys.add(block.bytes, block.rowCount, keyFields(select, block));
    yield* decoder.decode(block, hold);
  }
}

/** The positions of the keys in a block of the plan's rows. */
function keyFields({ columns, keys }: SelectPlan, block: SourceBlock): KeyFields[] {
  const { offsets, lengths, hiddenOffsets, hiddenLengths, rowCount } = block;
  const width = columns.length;
  return (keys?.places ?? []).map((field) =>
    field < width
      ? { offsets, lengths, width, field }
      : {
          offsets: hiddenOffsets,
          lengths: hiddenLengths,
          width: hiddenOffsets.length / rowCount,
          field: field - width,
        },
  );
}

/** The keys of an interval's rows as a set. */
export async function readKeys(
  client: pg.Client,
  { keys }: SelectPlan,
  interval: DataInterval,
  blockBytes: number,
  signal: AbortSignal,
): Promise<KeyDigest> {
  const { columns, copySql } = keys ?? { columns: [], copySql: () => '' };
  const digest = new KeyDigest();
  const reader = new CopyReader([
    { sql: copySql(interval), builder: new RowBlockBuilder(columns, blockBytes) },
  ]);
  client.query(reader);
  for (;;) {
    const block = await withAbort(client, signal, () => reader.next());
    if (!block) return digest;
    const { offsets, lengths } = block;
    const fields = columns.map((_, field) => ({ offsets, lengths, width: columns.length, field }));
    digest.add(block.bytes, block.rowCount, fields);
  }
}

/** A large row whose text is more than so many times as large as the row is refused. */
const mostGrowth = 6;

const numericHeaderBytes = 8;

/** Before each field is its length, which is no longer needed. */
const lengthBytes = 4;

interface DecoderLimits {
  /** Maximum text of a block beyond its own bytes; only a single row's may be more. */
  readonly textBytes: number;
  /** A row with more text is refused. */
  readonly maxRowBytes: number;
}

/**
 * Replaces binary numerics of blocks by the text that `to_json` gives. Text that fits is written over the field, the rest
 * behind the block's bytes. A few bytes can have a long text, so a block may become several.
 */
export class BlockDecoder {
  readonly #numerics: readonly boolean[];
  readonly #limits: DecoderLimits;
  /** Fields whose text does not fit, as indices of the block, and the bytes of their text. */
  #pending: number[] = [];
  #pendingBytes = 0;
  readonly #out: ByteWriter;

  /** @param numerics whether each column is one of binary numerics */
  constructor(numerics: readonly boolean[], limits: DecoderLimits) {
    this.#numerics = numerics;
    this.#limits = limits;
    this.#out = new ByteWriter(0);
  }

  /**
   * Passes on the rows as one block or several; each may be read until the next one is asked for.
   *
   * @param hold waits for the memory of a row with more text than fits a block
   * @throws CopyFormatError, RowTooLargeError
   */
  async *decode(
    block: SourceBlock,
    hold?: (bytes: number) => Promise<() => void>,
  ): AsyncGenerator<SourceBlock> {
    for (const [place, isNumeric] of this.#numerics.entries()) {
      if (isNumeric) this.#printNumerics(block, place);
    }
    if (this.#pending.length === 0) {
      yield block;
      return;
    }
    if (this.#pendingBytes <= this.#limits.textBytes) {
      yield this.#withText(block, this.#pending);
      this.#startAnew();
      return;
    }
    yield* this.#inParts(block, hold);
    this.#startAnew();
  }

  /** Prints a column at a time: in these loops each value takes some 30 ns. */
  #printNumerics({ bytes, offsets, lengths, rowCount }: SourceBlock, place: number): void {
    const width = this.#numerics.length;
    const view = viewOf(bytes);
    for (let field = place; field < rowCount * width; field += width) {
      const length = lengths[field] as number;
      if (length < 0) continue;
      const from = offsets[field] as number;
      checkNumeric(bytes, from, length);
      const start = from - lengthBytes;
      let end = writeShortNumeric(view, start, from);
      if (end < 0) {
        const textBytes = numericTextBytes(bytes, from);
        if (textBytes > length + lengthBytes) {
          this.#pending.push(field);
          this.#pendingBytes += textBytes;
          continue;
        }
        end = writeNumeric(bytes, start, bytes, from);
      }
      lengths[field] = end - start;
      offsets[field] = start;
    }
  }

  #startAnew(): void {
    this.#pending = [];
    this.#pendingBytes = 0;
    // Memory that a large block has taken is not kept.
    if (this.#out.bytes.length > this.#limits.textBytes * 2) this.#out.take(0);
  }

  /** The block with the text of these fields behind its bytes. */
  #withText(block: SourceBlock, fields: readonly number[]): SourceBlock {
    const { bytes, offsets, lengths } = block;
    const out = this.#out;
    out.length = 0;
    out.ensure(bytes.length + Math.min(this.#pendingBytes, this.#limits.textBytes));
    bytes.copy(out.bytes);
    out.length = bytes.length;
    for (const field of fields) {
      const from = offsets[field] as number;
      out.ensure(numericTextBytes(bytes, from));
      const end = writeNumeric(out.bytes, out.length, bytes, from);
      offsets[field] = out.length;
      lengths[field] = end - out.length;
      out.length = end;
    }
    return { ...block, bytes: out.bytes.subarray(0, out.length) };
  }

  /** Rows one after the other, as many as have enough room for their text. */
  async *#inParts(
    block: SourceBlock,
    hold?: (bytes: number) => Promise<() => void>,
  ): AsyncGenerator<SourceBlock> {
    const width = this.#numerics.length;
    const { textBytes, maxRowBytes } = this.#limits;
    const fields = this.#pending.sort((one, other) => one - other);
    let next = 0;
    let firstRow = 0;
    while (firstRow < block.rowCount) {
      let row = firstRow;
      let textSize = 0;
      const first = next;
      for (; row < block.rowCount; row += 1) {
        const { end, bytes } = this.#measureRow(block, fields, next, (row + 1) * width);
        if (row > firstRow && textSize + bytes > textBytes) break;
        textSize += bytes;
        next = end;
      }
      const part = rowsOf(block, firstRow, row, width);
      const own = fields.slice(first, next).map((field) => field - firstRow * width);
      const most = block.isLarge ? block.bytes.length * mostGrowth : maxRowBytes;
      if (textSize > Math.min(most, maxRowBytes)) throw new RowTooLargeError(fieldsOf(part, width));
      // A large block has the memory for its text already: two runs that hold some and want more could wait for ever.
      const isFree = block.isLarge || textSize <= textBytes;
      const giveBack = isFree ? undefined : await hold?.(textSize);
      try {
        yield this.#withText(part, own);
      } finally {
        if (giveBack) this.#out.take(0);
        giveBack?.();
      }
      firstRow = row;
    }
  }

  /** The pending fields before `lastField`, from the one at `next` on, and the bytes of their text. */
  #measureRow(
    { bytes, offsets }: SourceBlock,
    fields: readonly number[],
    next: number,
    lastField: number,
  ): { readonly end: number; readonly bytes: number } {
    let end = next;
    let sum = 0;
    for (; end < fields.length && (fields[end] as number) < lastField; end += 1) {
      sum += numericTextBytes(bytes, offsets[fields[end] as number] as number);
    }
    return { end, bytes: sum };
  }
}

/** @throws CopyFormatError if the field is no numeric */
function checkNumeric(bytes: Buffer, from: number, length: number): void {
  const digits = ((bytes[from] as number) << 8) | (bytes[from + 1] as number);
  if (length !== numericHeaderBytes + digits * 2) {
    throw new CopyFormatError('a numeric is not as long as it says');
  }
}

/** Rows of a block; the bytes are shared. */
export function rowsOf(block: SourceBlock, from: number, to: number, width: number): SourceBlock {
  const hidden = block.rowCount === 0 ? 0 : block.hiddenOffsets.length / block.rowCount;
  return {
    ...block,
    rowCount: to - from,
    offsets: block.offsets.subarray(from * width, to * width),
    lengths: block.lengths.subarray(from * width, to * width),
    hiddenOffsets: block.hiddenOffsets.subarray(from * hidden, to * hidden),
    hiddenLengths: block.hiddenLengths.subarray(from * hidden, to * hidden),
  };
}

/** The short fields of the first row, which may name it. */
function fieldsOf(block: SourceBlock, width: number): readonly (Buffer | undefined)[] {
  const { bytes, offsets, lengths, hiddenOffsets, hiddenLengths } = block;
  const field = (at: number | undefined, length: number | undefined) =>
    at === undefined || length === undefined || length < 0 || length > keptBytes
      ? undefined
      : Buffer.from(bytes.subarray(at, at + length));
  const shown = Array.from({ length: width }, (_, index) => field(offsets[index], lengths[index]));
  const hidden = Array.from(hiddenOffsets.subarray(0, hiddenOffsets.length / block.rowCount));
  return [...shown, ...hidden.map((at, index) => field(at, hiddenLengths[index]))];
}

/** Keys are short. */
const keptBytes = 256;
