import { textOfJson } from '../../../foundation/domain/row-block.ts';
import type { ReadColumn, ReadRow } from '../encoder.ts';
import { valueParsers } from './column-cursor.ts';
import { type ReadLeaf, takeLeaves, textOfJsonColumn } from './read-values.ts';

export async function* readParquet(
  path: string,
  columns: readonly ReadColumn[],
): AsyncGenerator<ReadRow> {
  const [{ asyncBufferFromFile, parquetMetadataAsync, parquetRead }, { compressors }] =
    await Promise.all([import('hyparquet'), import('hyparquet-compressors')]);
  const file = await asyncBufferFromFile(path);
  const metadata = await parquetMetadataAsync(file);
  const leaves = takeLeaves(metadata.schema);
  let rowStart = 0;
  for (const { num_rows } of metadata.row_groups) {
    const rowEnd = rowStart + Number(num_rows);
    const pieces = new Map(columns.map(({ name }) => [name, [] as Iterable<unknown>[]]));
    await parquetRead({
      file,
      metadata,
      rowStart,
      rowEnd,
      columns: [...pieces.keys()],
      compressors,
      // Only text is decoded as text. Times are decoded here: the library's have milliseconds only.
      utf8: false,
      parsers: valueParsers,
      // Columns, because one object per row would take several times their memory.
      onChunk: ({ columnName, columnData }) => pieces.get(columnName)?.push(columnData),
    });
    const values = columns.map(({ name }) => each(pieces.get(name) ?? []));
    for (; rowStart < rowEnd; rowStart += 1) {
      yield columns.map((column, at) =>
        textOf(column, values[at]?.next().value, leaves.get(column.name)),
      );
    }
  }
}

function* each(pieces: readonly Iterable<unknown>[]): Generator<unknown, undefined> {
  for (const piece of pieces) yield* piece;
}

function textOf(
  { type, sourceType }: ReadColumn,
  value: unknown,
  leaf: ReadLeaf | undefined,
): string | null {
  if (value === null || value === undefined) return null;
  if (leaf && (type === 'as_json' || leaf.isBare)) return textOfJsonColumn(value, leaf, sourceType);
  if (value instanceof Uint8Array) return `\\x${Buffer.from(value).toString('hex')}`;
  return type === 'as_json' ? textOfJson(String(value)) : String(value);
}
