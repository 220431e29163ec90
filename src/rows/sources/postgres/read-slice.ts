import type pg from 'pg';
import type { RowBlock } from '../../../foundation/domain/row-block.ts';
import type { Slice } from '../source.ts';
import { BlockDecoder, rowsOf } from './block-decoder.ts';
import { withAbort } from './connection.ts';
import { type Copy, CopyReader } from './copy-reader.ts';
import type { KeyDigest, KeyFields } from './key-digest.ts';
import type { SelectPlan, TiedPlan } from './plan.ts';
import { RowBlockBuilder, type SourceBlock } from './row-blocks.ts';
import { nameLargeRow } from './row-too-large.ts';

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
  /** Names of models whose rows of one moment have been too many to be sorted here. */
  readonly manyTies?: Set<string>;
}

/** A slice is read with these. */
export interface SliceReading {
  readonly options: SliceOptions;
  /** The name of the model. */
  readonly model: string;
  readonly select: SelectPlan;
  /** Gets the keys of all rows. */
  readonly keys: KeyDigest;
}

/**
 * The rows of a slice, by its interval column, then by key. The server sorts by the interval column alone if
 * the rest can be done here. If too many rows have one moment for that, it sends them again, in order.
 *
 * @throws the errors of the reader and its memory; the connection can't be used afterwards
 */
export async function* readSlice(
  client: pg.Client,
  reading: SliceReading,
  slice: Slice,
  signal: AbortSignal,
): AsyncGenerator<RowBlock, void> {
  const { options, model } = reading;
  const tied = tiedOf(reading);
  let sent = 0;
  if (tied) {
    const builder = yield* copyRows(client, reading, { tied, slice, skipped: 0 }, signal);
    if (builder.givenUpAt === null) return;
    options.manyTies?.add(model);
    // All rows of the moments before: the first ones in the order of the server too.
    sent = builder.givenUpAt;
  }
  yield* copyRows(client, reading, { tied: null, slice, skipped: sent }, signal);
}

interface CopiedRows {
  readonly tied: TiedPlan | null;
  readonly slice: Slice;
  /** The number of first rows that are left out. */
  readonly skipped: number;
}

/** @returns what has cut the rows into blocks */
async function* copyRows(
  client: pg.Client,
  reading: SliceReading,
  { tied, slice, skipped }: CopiedRows,
  signal: AbortSignal,
): AsyncGenerator<RowBlock, RowBlockBuilder> {
  const copy = copyOf(reading, tied, slice);
  const reader = new CopyReader([copy], holdOf(reading, signal));
  try {
    client.query(reader);
    yield* blocksOf(client, reading, { reader, of: 0, skipped }, signal);
    return copy.builder;
  } finally {
    reader.close();
  }
}

/** A slice that is read with others. */
export interface JointSlice {
  readonly reading: SliceReading;
  readonly slice: Slice;
}

/**
 * The rows of several slices, in the order of `readSlice`. The server sends all of them after one message. Their options
 * about large rows are those of the first.
 *
 * @returns each block with the index of its slice; the next block reuses its memory
 * @throws as `readSlice`, and if too many rows have one moment; the connection can't be used afterwards
 */
export async function* readSlices(
  client: pg.Client,
  slices: readonly JointSlice[],
  signal: AbortSignal,
): AsyncGenerator<{ readonly of: number; readonly block: RowBlock }, void> {
  const copies = slices.map(({ reading, slice }) => copyOf(reading, tiedOf(reading), slice));
  const [first, ...others] = copies;
  const [{ reading: usual } = {}] = slices;
  if (!first || !usual) return;
  const reader = new CopyReader([first, ...others], holdOf(usual, signal));
  try {
    client.query(reader);
    for (const [of, { reading }] of slices.entries()) {
      for await (const block of blocksOf(client, reading, { reader, of, skipped: 0 }, signal))
        yield { of, block };
      if (copies[of]?.builder.givenUpAt === null) continue;
      reading.options.manyTies?.add(reading.model);
      throw new Error('too many rows have one moment');
    }
  } finally {
    reader.close();
  }
}

/** Null if the server sorts the rows. */
function tiedOf({ options, select, model }: SliceReading): TiedPlan | null {
  return options.manyTies?.has(model) ? null : (select.tied ?? null);
}

function copyOf({ options, select }: SliceReading, tied: TiedPlan | null, slice: Slice): Copy {
  const { blockBytes, maxRowBytes, holdRow } = options;
  const { copySql, hidden } = tied ?? select;
  const builder = new RowBlockBuilder(select.columns, blockBytes, {
    hidden: hidden.length,
    maxRowBytes,
    freeBytes: holdRow ? freeRowBytes : Number.POSITIVE_INFINITY,
    ties: tied?.fields,
  });
  return { sql: copySql(slice), builder };
}

/** Holds the memory for a row's text too, but not more than a row of text alone may have. */
function holdOf({ options, select }: SliceReading, signal: AbortSignal) {
  const { maxRowBytes, holdRow } = options;
  const decodes = select.numerics.some((form) => form !== null);
  if (!holdRow) return undefined;
  return (bytes: number) =>
    holdRow(decodes ? Math.max(bytes, Math.min(bytes * 2, maxRowBytes)) : bytes, signal);
}

interface OneCopy extends Pick<CopiedRows, 'skipped'> {
  readonly reader: CopyReader;
  /** Its index among the copies of the reader. */
  readonly of: number;
}

/** The decoded rows of a copy. */
async function* blocksOf(
  client: pg.Client,
  { options, select, keys }: SliceReading,
  { reader, of, skipped }: OneCopy,
  signal: AbortSignal,
): AsyncGenerator<RowBlock, void> {
  const { maxRowBytes, holdRow } = options;
  const width = select.columns.length;
  const hold = holdRow && ((bytes: number) => holdRow(bytes, signal));
  const decoder = new BlockDecoder(select.numerics, { textBytes: freeRowBytes, maxRowBytes });
  const named = (error: unknown): never => {
    throw nameLargeRow(error, select, maxRowBytes);
  };
  let toSkip = skipped;
  for (;;) {
    const given = await withAbort(client, signal, () => reader.next(of).catch(named));
    if (!given) return;
    const skippedHere = Math.min(toSkip, given.rowCount);
    toSkip -= skippedHere;
    if (skippedHere === given.rowCount) continue;
    const block = skippedHere === 0 ? given : rowsOf(given, skippedHere, given.rowCount, width);
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
