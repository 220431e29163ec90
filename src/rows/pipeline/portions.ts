import { type RowBlock, rowsOf } from '../../foundation/domain/row-block.ts';
import type { TransformedRows } from '../transforms/transform-rows.ts';

/** About as many bytes as a chain may make at once. */
const madeAtOnce = 8 * 1024 ** 2;

/** Cuts the blocks that a chain gets, so that what it makes of one stays small: a step may answer megabytes for each row. */
export class Portions {
  #rows = 1;

  *of(block: RowBlock): Generator<RowBlock> {
    for (let from = 0; from < block.rowCount; ) {
      const to = Math.min(from + this.#rows, block.rowCount);
      yield rowsOf(block, from, to);
      from = to;
    }
  }

  /** The last rows first, in parts whose rows stay in their order. */
  *fromEnd(block: RowBlock): Generator<RowBlock> {
    for (let to = block.rowCount; to > 0; ) {
      const from = Math.max(0, to - this.#rows);
      yield rowsOf(block, from, to);
      to = from;
    }
  }

  /** Twice as many rows next time, if what was made of so many is small. */
  see(made: readonly TransformedRows[]): void {
    for (const { block, rejected, dropped } of made) {
      const rows = block.rowCount + rejected.length + dropped;
      const fitting = Math.floor((rows * madeAtOnce) / Math.max(1, block.bytes.length));
      this.#rows = Math.max(1, Math.min(2 * this.#rows, fitting));
    }
  }
}
