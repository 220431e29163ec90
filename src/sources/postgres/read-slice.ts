import type pg from 'pg';
import type { RowBlock } from '../../domain/row-block.ts';
import type { Slice } from '../source.ts';
import { BlockDecoder, rowsOf } from './block-decoder.ts';
import { withAbort } from './connection.ts';
import { CopyReader } from './copy-reader.ts';
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

/** What a slice is read with. */
interface SliceReading {
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
  const { options, select, model } = reading;
  const tied = options.manyTies?.has(model) ? null : (select.tied ?? null);
  let sent = 0;
  if (tied) {
    const builder = yield* copyRows(client, reading, tied, slice, signal, 0);
    if (builder.givenUpAt === null) return;
    options.manyTies?.add(model);
    // All rows of the moments before: the first ones in the order of the server too.
    sent = builder.givenUpAt;
  }
  yield* copyRows(client, reading, null, slice, signal, sent);
}

/** @param skipped how many of the first rows are left out. @returns what has cut the rows into blocks */
async function* copyRows(
  client: pg.Client,
  { options, select, keys }: SliceReading,
  tied: TiedPlan | null,
  slice: Slice,
  signal: AbortSignal,
  skipped: number,
): AsyncGenerator<RowBlock, RowBlockBuilder> {
  const { blockBytes, maxRowBytes, holdRow } = options;
  const { copySql, hidden } = tied ?? select;
  const width = select.columns.length;
  const freeBytes = holdRow ? freeRowBytes : Number.POSITIVE_INFINITY;
  const builder = new RowBlockBuilder(select.columns, blockBytes, {
    hidden: hidden.length,
    maxRowBytes,
    freeBytes,
    ties: tied?.fields,
  });
  const hold = holdRow && ((bytes: number) => holdRow(bytes, signal));
  // With the memory for a row's text, but not for more than a row of text alone may have.
  const decodes = select.decoders.some((decoder) => decoder !== null);
  const holdBoth =
    hold && ((bytes: number) => hold(Math.max(bytes, Math.min(bytes * 2, maxRowBytes))));
  const reader = new CopyReader(copySql(slice), builder, decodes ? holdBoth : hold);
  const decoder = new BlockDecoder(select.decoders, { textBytes: freeRowBytes, maxRowBytes });
  const named = (error: unknown): never => {
    throw nameLargeRow(error, select, maxRowBytes);
  };
  let left = skipped;
  try {
    client.query(reader);
    for (;;) {
      const given = await withAbort(client, signal, () => reader.next().catch(named));
      if (!given) return builder;
      const known = Math.min(left, given.rowCount);
      left -= known;
      if (known === given.rowCount) continue;
      const block = known === 0 ? given : rowsOf(given, known, given.rowCount, width);
      if (select.keys) keys.add(block.bytes, block.rowCount, keyFields(select, block));
      yield* decoder.decode(block, hold);
    }
  } finally {
    reader.close();
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
