import { changeColumns, changeOps } from '../../foundation/domain/element.ts';
import type { Column, RowBlock } from '../../foundation/domain/row-block.ts';

export interface DeletedColumns {
  readonly columns: readonly Column[];
  readonly keyIndices: readonly number[];
}

/** Key, operation, version and element; all else is null. @param given its columns are the keys and the version */
export function deletedBlock(
  given: RowBlock,
  { columns, keyIndices }: DeletedColumns,
  number: number,
): RowBlock {
  const width = columns.length;
  const indexOf = (name: string) => columns.findIndex((column) => column.name === name);
  const [op, version, element] = [
    indexOf(changeColumns.op),
    indexOf(changeColumns.version),
    indexOf(changeColumns.element),
  ];
  const places = [...keyIndices, version];
  checkTypes(given.columns, columns, places);
  const constants = Buffer.alloc(1 + 8);
  constants.write(changeOps.delete);
  constants.writeBigInt64BE(BigInt(number), 1);
  const { rowCount, bytes: before } = given;
  const offsets = new Int32Array(rowCount * width);
  const lengths = new Int32Array(rowCount * width).fill(-1);
  for (let row = 0; row < rowCount; row += 1) {
    for (const [index, place] of places.entries()) {
      const from = row * places.length + index;
      offsets[row * width + place] = given.offsets[from] as number;
      lengths[row * width + place] = given.lengths[from] as number;
    }
    offsets[row * width + op] = before.length;
    lengths[row * width + op] = 1;
    offsets[row * width + element] = before.length + 1;
    lengths[row * width + element] = 8;
  }
  return { columns, rowCount, bytes: Buffer.concat([before, constants]), offsets, lengths };
}

function checkTypes(
  given: readonly Column[],
  columns: readonly Column[],
  places: readonly number[],
): void {
  const fits = places.every((place, index) => columns[place]?.type === given[index]?.type);
  if (fits && given.length === places.length) return;
  throw new Error('the keys of deletes have other types than those of rows');
}
