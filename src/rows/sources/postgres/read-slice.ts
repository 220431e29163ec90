import type pg from 'pg';
import type { RowBlock } from '../../../foundation/domain/row-block.ts';
import type { DataInterval } from '../../../foundation/domain/time.ts';
import type { Slice } from '../source.ts';
import { withAbort } from './connection.ts';
import { type Copy, CopyReader } from './copy-reader.ts';
import { KeyDigest, type KeyFields } from './key-digest.ts';
import type { SelectPlan } from './plan.ts';
import { RowBlockBuilder, type SourceBlock } from './row-blocks.ts';
import { nameLargeRow } from './row-skimmer.ts';

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
  const { holdRow } = first.reading.options;
  const hold = holdRow && ((bytes: number) => holdRow(bytes, signal));
  const reader = new CopyReader([copyOf(first), ...copies], hold);
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

interface OneCopy {
  readonly reader: CopyReader;
  /** Its index among the copies of the reader. */
  readonly of: number;
}

/** The rows of a copy. */
async function* blocksOf(
  client: pg.Client,
  { options, select, keys }: SliceReading,
  { reader, of }: OneCopy,
  signal: AbortSignal,
): AsyncGenerator<RowBlock, void> {
  const named = (error: unknown): never => {
    throw nameLargeRow(error, select, options.maxRowBytes);
  };
  for (;;) {
    const block = await withAbort(client, signal, () => reader.next(of).catch(named));
    if (!block) return;
    if (select.keys) keys.add(block.bytes, block.rowCount, keyFields(select, block));
    yield block;
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
