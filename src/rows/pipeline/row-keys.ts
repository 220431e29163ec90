import type { Column, RowBlock } from '../../foundation/domain/row-block.ts';
import type { FieldToJson } from '../transforms/block-row.ts';
import type { StepRejection } from '../transforms/transform-rows.ts';
import { joinKeys, keyOfJson } from './key-values.ts';

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
