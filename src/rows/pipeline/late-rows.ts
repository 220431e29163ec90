import { SluiceError } from '../../foundation/domain/errors.ts';
import type { Column, RowBlock } from '../../foundation/domain/row-block.ts';
import type { SourceSnapshot } from '../sources/source.ts';
import { digestOf, KeySpool } from './key-spool.ts';
import type { SpoolFolder } from './spool-folder.ts';
import { type RowKeys, textOfKeys } from './row-keys.ts';

/** The sum of digests of keys, whatever their order. */
class DigestSum {
  readonly #sums = new Int32Array(4);

  add(digest: string): void {
    const bytes = Buffer.from(digest, 'latin1');
    for (let lane = 0; lane < this.#sums.length; lane += 1) {
      this.#sums[lane] = (this.#sums[lane] as number) + bytes.readInt32LE(lane * 4);
    }
  }

  equals(other: DigestSum): boolean {
    return this.#sums.every((sum, lane) => sum === other.#sums[lane]);
  }
}

/** Which rows of a snapshot the files of its interval lack, by their numbers: one bit for each row. */
export class LateRows {
  readonly #bits: Uint8Array;
  readonly #expected = new DigestSum();
  readonly #picked = new DigestSum();
  #count = 0;
  #row = 0;

  constructor(rows: number) {
    this.#bits = new Uint8Array(Math.ceil(rows / 8));
  }

  get count(): number {
    return this.#count;
  }

  add(row: number, digest: string): void {
    this.#bits[row >> 3] = (this.#bits[row >> 3] as number) | (1 << (row & 7));
    this.#expected.add(digest);
    this.#count += 1;
  }

  /** The late rows of the next block. */
  pick(block: RowBlock, keys: RowKeys): RowBlock {
    const indices: number[] = [];
    for (let row = 0; row < block.rowCount; row += 1, this.#row += 1) {
      const bits = this.#bits[this.#row >> 3] ?? 0;
      if ((bits & (1 << (this.#row & 7))) === 0) continue;
      indices.push(row);
      this.#picked.add(digestOf(keys.keyOf(block, row)));
    }
    return rowsOf(block, indices);
  }

  /**
   * The rows were found by their numbers, so their keys must be those that are missing.
   *
   * @throws SluiceError `source.count_mismatch` if the source gave its rows in another order than its keys
   */
  checkPicked(): void {
    if (this.#picked.equals(this.#expected)) return;
    const detail = 'the late rows that were read are not those whose keys are missing';
    throw new SluiceError('source.count_mismatch', detail);
  }
}

/** Some rows of a block, in its order; the bytes are shared. */
function rowsOf(block: RowBlock, rows: readonly number[]): RowBlock {
  if (rows.length === block.rowCount) return block;
  const width = block.columns.length;
  const offsets = new Int32Array(rows.length * width);
  const lengths = new Int32Array(rows.length * width);
  for (const [index, row] of rows.entries()) {
    const from = row * width;
    offsets.set(block.offsets.subarray(from, from + width), index * width);
    lengths.set(block.lengths.subarray(from, from + width), index * width);
  }
  return { ...block, rowCount: rows.length, offsets, lengths };
}

/** The result of comparing the keys of a source with the files of its interval. */
export interface KeysCompared {
  readonly late: LateRows;
  /** Rows whose key the files have, but less often: rows of a view may share a key. */
  readonly ambiguous: number;
}

async function readSourceKeys(
  keys: SourceSnapshot,
  seen: KeySpool,
  without: readonly string[],
  signal: AbortSignal,
): Promise<void> {
  for (const slice of keys.slices) {
    for await (const block of keys.read(slice, signal)) {
      for (let row = 0; row < block.rowCount; row += 1) {
        const waits = seen.add(textOfKeys(block, row, without));
        if (waits) await waits;
      }
    }
  }
}

/**
 * Counts the rows that seem late only because a name in their keys was changed, such as the label of an enum: beside that name
 * they have the key of a delivered row that the source no longer has.
 *
 * @param renamable the key columns with such names
 * @param readDelivered reads the delivered keys in some columns
 */
export async function countRenamed(
  { keys, seen, late, inFiles, folder }: ComparedKeys,
  renamable: readonly string[],
  readDelivered: (into: KeySpool, columns: readonly Column[]) => Promise<string | null>,
  signal: AbortSignal,
): Promise<number> {
  const gone = inFiles.count - (seen.count - late.count);
  if (gone === 0 || renamable.length === 0) return 0;
  const lasting = keys.columns.filter(({ name }) => !renamable.includes(name));
  if (lasting.length === 0) return Math.min(gone, late.count);
  const [source, files] = [
    new KeySpool(folder, 'source-keys-without-names'),
    new KeySpool(folder, 'delivered-keys-without-names'),
  ];
  try {
    await readSourceKeys(keys, source, renamable, signal);
    const fault = await readDelivered(files, lasting);
    if (fault !== null) throw new SluiceError('run.late_rows_wait', fault);
    let others = 0;
    await source.subtract(files, () => {
      others += 1;
    });
    return late.count - others;
  } finally {
    await Promise.all([source.close(), files.close()]);
  }
}

interface ComparedKeys {
  /** A snapshot of the keys. */
  readonly keys: SourceSnapshot;
  readonly seen: KeySpool;
  readonly late: LateRows;
  readonly inFiles: KeySpool;
  readonly folder: SpoolFolder;
}

/**
 * Finds the rows of an interval that its files lack.
 *
 * @param keys a snapshot of the keys
 * @param seen gets them
 * @param delivered the keys in the files
 */
export async function findLateRows(
  keys: SourceSnapshot,
  seen: KeySpool,
  delivered: KeySpool,
  signal: AbortSignal,
): Promise<KeysCompared> {
  await readSourceKeys(keys, seen, [], signal);
  const late = new LateRows(seen.count);
  let ambiguous = 0;
  await seen.subtract(delivered, ({ row, digest }, isKnown) => {
    if (isKnown) ambiguous += 1;
    else late.add(row, digest);
  });
  return { late, ambiguous };
}
