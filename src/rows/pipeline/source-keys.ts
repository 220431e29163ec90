import { type RowBlock, textOfJson } from '../../foundation/domain/row-block.ts';
import { canonicalKey, joinKeys } from './key-values.ts';

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
