import { SluiceError } from '../../foundation/domain/errors.ts';
import {
  type Column,
  copyBlock,
  type RowBlock,
  rowsOf,
} from '../../foundation/domain/row-block.ts';
import { RowKeys, showKeys } from './row-keys.ts';
import type { Encoding } from './interval-job.ts';

/** Finds rows with the key of the row before them: those of an element come in the order of the key. */
export class DistinctKeys {
  readonly #keys: RowKeys;
  readonly #indices: readonly number[];
  /** The last row of the block before; null: there was none. */
  #last: RowBlock | null = null;

  constructor(columns: readonly Column[], indices: readonly number[], toJson: Encoding['toJson']) {
    this.#keys = new RowKeys(columns, indices, toJson);
    this.#indices = indices;
  }

  /** @throws SluiceError `model.key_not_unique`; `source.model_invalid` if a row has no key */
  check(block: RowBlock): void {
    for (let row = 0; row < block.rowCount; row += 1) {
      this.#refuseNull(block, row);
      const isSame =
        row === 0
          ? this.#isSame(this.#last, 0, block, 0)
          : this.#isSame(block, row - 1, block, row);
      if (!isSame) continue;
      const shown = showKeys(this.#keys.keyOf(block, row));
      throw new SluiceError('model.key_not_unique', `two rows have the key ${shown}`);
    }
    if (block.rowCount === 0) return;
    // The block's memory is used again.
    this.#last = copyBlock(rowsOf(block, block.rowCount - 1));
  }

  #refuseNull({ columns, lengths }: RowBlock, row: number): void {
    for (const index of this.#indices) {
      if ((lengths[row * columns.length + index] as number) >= 0) continue;
      const { name } = columns[index] as Column;
      const detail = `a row has no ${name}, so readers cannot tell it from others. Make the key columns NOT NULL, or name others`;
      throw new SluiceError('source.model_invalid', detail);
    }
  }

  #isSame(one: RowBlock | null, oneRow: number, other: RowBlock, row: number): boolean {
    if (one === null) return false;
    const width = other.columns.length;
    for (const index of this.#indices) {
      const [a, b] = [oneRow * width + index, row * width + index];
      const length = other.lengths[b] as number;
      if (one.lengths[a] !== length) return false;
      const [from, to] = [one.offsets[a] as number, other.offsets[b] as number];
      // Keys in order differ at their ends.
      for (let at = length - 1; at >= 0; at -= 1) {
        if (one.bytes[from + at] !== other.bytes[to + at]) return false;
      }
    }
    return true;
  }
}
