import { type Column, type RowBlock, textOfJson } from '../../foundation/domain/row-block.ts';
import type { FieldToJson } from '../transforms/block-row.ts';
import type { StepRejection } from '../transforms/transform-rows.ts';
import type { KeySpool } from './key-spool.ts';
import { canonicalKey, joinKeys, keyOfJson } from './key-values.ts';

interface KeyColumn {
  readonly index: number;
  readonly column: Column;
  readonly toJson: FieldToJson;
}

/** Reads the keys of rows before they are written, as `keyOfRow` reads them from a file. */
export class RowKeys {
  readonly #columns: readonly KeyColumn[];

  /** @param indices the indices of the keys among `columns` */
  constructor(
    columns: readonly Column[],
    indices: readonly number[],
    toJson: (column: Column) => FieldToJson,
  ) {
    this.#columns = indices.flatMap((index) => {
      const column = columns[index];
      return column ? [{ index, column, toJson: toJson(column) }] : [];
    });
  }

  keyOf({ columns, bytes, offsets, lengths }: RowBlock, row: number): string {
    return joinKeys(
      this.#columns.map(({ index, column, toJson }) => {
        const field = row * columns.length + index;
        const start = offsets[field] ?? 0;
        const length = lengths[field] ?? -1;
        if (length < 0) return null;
        return keyOfJson(column, toJson(bytes, start, start + length));
      }),
    );
  }

  keyOfRejection({ key }: StepRejection): string {
    return joinKeys(
      this.#columns.map(({ column }) => {
        const json = key[column.name];
        if (json === undefined) throw new Error(`a rejection has no key ${column.name}`);
        return keyOfJson(column, json);
      }),
    );
  }
}

/** Passes the keys of all rows on, also of those that a step rejected. */
export class KeyNotes {
  readonly #spool: KeySpool;
  readonly #keys: RowKeys;

  constructor(spool: KeySpool, keys: RowKeys) {
    this.#spool = spool;
    this.#keys = keys;
  }

  async addRows(block: RowBlock): Promise<void> {
    for (let row = 0; row < block.rowCount; row += 1) {
      const waits = this.#spool.add(this.#keys.keyOf(block, row));
      if (waits) await waits;
    }
  }

  async addRejections(rejected: readonly StepRejection[]): Promise<void> {
    for (const rejection of rejected) await this.#spool.add(this.#keys.keyOfRejection(rejection));
  }
}

/**
 * The key of a row in a block of a request of keys, as `keyOfRow` reads it from a file.
 *
 * @param without names of columns to leave out
 */
export function textOfKeys(
  { columns, bytes, offsets, lengths }: RowBlock,
  row: number,
  without: readonly string[] = [],
): string {
  return joinKeys(
    columns.flatMap((column, index) => {
      if (without.includes(column.name)) return [];
      const field = row * columns.length + index;
      const start = offsets[field] ?? 0;
      const length = lengths[field] ?? -1;
      if (length < 0) return null;
      const text = bytes.toString('utf8', start, start + length);
      const plain = column.type === 'as_json' ? textOfJson(text) : text;
      return plain === null ? null : canonicalKey(column, plain);
    }),
  );
}
