import { setImmediate as nextTurn } from 'node:timers/promises';
import { SluiceError } from '../../foundation/domain/errors.ts';
import { JsonLevels, maxJsonLevels, mayBeTooDeep } from '../../foundation/domain/json-depth.ts';
import type { Column, RowBlock } from '../../foundation/domain/row-block.ts';
import type { FieldToJson } from '../transforms/block-row.ts';
import { rowNamer } from './rejection-tally.ts';

/** Bytes between two turns of the event loop. */
const pieceBytes = 4 * 1024 ** 2;

/** Refuses rows whose JSON is so deep that readers of the files, and we ourselves, could fail at it. */
export class JsonDepths {
  readonly #indices: readonly number[];
  readonly #nameRow: (block: RowBlock, row: number) => string;

  /**
   * @param keyIndices the indices of the keys among `columns`
   * @param toJson how a field of a column is shown
   */
  constructor(
    columns: readonly Column[],
    keyIndices: readonly number[],
    toJson: (column: Column) => FieldToJson,
  ) {
    this.#indices = columns.flatMap(({ type }, index) => (jsonTypes.has(type) ? [index] : []));
    this.#nameRow = rowNamer(columns, keyIndices, toJson);
  }

  /** @throws SluiceError `source.json_too_deep`, which names the row and the column */
  async check(block: RowBlock): Promise<void> {
    const { columns, rowCount, bytes, offsets, lengths } = block;
    for (const index of this.#indices) {
      for (let row = 0; row < rowCount; row += 1) {
        const field = row * columns.length + index;
        const length = lengths[field] as number;
        // Most values are too short for it: they cost no call.
        if (length <= 2 * maxJsonLevels) continue;
        const from = offsets[field] as number;
        const value = bytes.subarray(from, from + length);
        if (!mayBeTooDeep(value) || !(await isTooDeep(value))) continue;
        const name = columns[index]?.name;
        const detail = `column ${name} of the row with the key ${this.#nameRow(block, row)} has more than ${maxJsonLevels.toLocaleString('en')} levels`;
        throw new SluiceError('source.json_too_deep', detail);
      }
    }
  }
}

const jsonTypes: ReadonlySet<Column['type']> = new Set(['json', 'jsonb', 'as_json']);

/** The first byte of jsonb is its version, and no bracket. */
async function isTooDeep(value: Buffer): Promise<boolean> {
  const levels = new JsonLevels();
  for (let at = 0; at < value.length; at += pieceBytes) {
    if (at > 0) await nextTurn();
    if (levels.exceed(value.subarray(at, at + pieceBytes))) return true;
  }
  return false;
}
