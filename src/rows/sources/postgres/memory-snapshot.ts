import type { RowBlock } from '../../../foundation/domain/row-block.ts';
import type { KeySet, Slice, SourceSnapshot } from '../source.ts';
import type { KeyDigest } from './key-digest.ts';
import { type SelectPlan, showsKeys } from './plan.ts';

interface Held {
  readonly select: SelectPlan;
  readonly slices: readonly Slice[];
  readonly blocks: readonly RowBlock[];
  readonly rows: number;
  readonly keys: KeyDigest;
  readonly snapshot: string;
}

/** The rows of a request in memory. Its transaction has ended. */
export class MemorySnapshot implements SourceSnapshot {
  readonly columns;
  readonly hasDays: boolean;
  readonly typeChanges: readonly string[] = [];
  readonly keyIndices: readonly number[];
  readonly showsKeys: boolean;
  readonly totalCount: number;
  readonly snapshot: string;
  readonly slices: readonly Slice[];
  readonly projection;
  readonly #keys: KeyDigest | null;
  #blocks: readonly RowBlock[];

  constructor({ select, slices, blocks, rows, keys, snapshot }: Held) {
    this.columns = select.columns;
    this.hasDays = select.moment.type === 'date';
    this.keyIndices = select.keys?.places.filter((place) => place < this.columns.length) ?? [];
    this.showsKeys = showsKeys(select);
    this.projection = select.projection;
    this.totalCount = rows;
    this.snapshot = snapshot;
    this.slices = slices;
    this.#keys = select.keys === null ? null : keys;
    this.#blocks = blocks;
  }

  async countRows(): Promise<number> {
    return this.totalCount;
  }

  keySet(): KeySet | null {
    return this.#keys && { digest: this.#keys.read(), count: this.#keys.count };
  }

  readKeySet(): Promise<KeySet> {
    throw new Error('the rows are in memory, without their transaction');
  }

  share(): Promise<SourceSnapshot> {
    throw new Error('the rows are in memory, without their transaction');
  }

  async *read(_: Slice, signal: AbortSignal): AsyncGenerator<RowBlock> {
    for (const block of this.#blocks) {
      signal.throwIfAborted();
      yield block;
    }
  }

  async close(): Promise<void> {
    this.#blocks = [];
  }
}
