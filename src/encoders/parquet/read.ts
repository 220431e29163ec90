import { type ColumnType, textOfJson } from '../../domain/row-block.ts';
import { toTimestamp } from '../../domain/time.ts';
import type { ReadColumn, ReadRow } from '../encoder.ts';

export async function* readParquet(
  path: string,
  columns: readonly ReadColumn[],
): AsyncGenerator<ReadRow> {
  const [{ asyncBufferFromFile, parquetMetadataAsync, parquetRead }, { compressors }] =
    await Promise.all([import('hyparquet'), import('hyparquet-compressors')]);
  const file = await asyncBufferFromFile(path);
  const metadata = await parquetMetadataAsync(file);
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
      parsers: { timestampFromMicroseconds: textOfMicroseconds, dateFromDays: textOfDays },
      // Columns, because one object per row would take several times their memory.
      onChunk: ({ columnName, columnData }) => pieces.get(columnName)?.push(columnData),
    });
    const values = columns.map(({ name }) => each(pieces.get(name) ?? []));
    for (; rowStart < rowEnd; rowStart += 1) {
      yield columns.map(({ type }, at) => textOf(type, values[at]?.next().value));
    }
  }
}

function* each(pieces: readonly Iterable<unknown>[]): Generator<unknown, undefined> {
  for (const piece of pieces) yield* piece;
}

function textOf(type: ColumnType, value: unknown): string | null {
  if (value === null || value === undefined) return null;
  if (value instanceof Uint8Array) return `\\x${Buffer.from(value).toString('hex')}`;
  return type === 'as_json' ? textOfJson(String(value)) : String(value);
}

/** A time of a Parquet file, microseconds since 1970. */
export function textOfMicroseconds(micros: bigint): string {
  const fraction = ((micros % 1_000n) + 1_000n) % 1_000n;
  const text = toTimestamp(Number((micros - fraction) / 1_000n));
  return yearOfPostgres(`${text.slice(0, -4)}${String(fraction).padStart(3, '0')}Z`);
}

/** A date of a Parquet file, days since 1970. */
export function textOfDays(days: number): string {
  return yearOfPostgres(toTimestamp(days * 86_400_000)).replace(/T.*Z/, '');
}

/** ISO's years 0 and below are years before Christ, and those past 9999 have a sign. */
function yearOfPostgres(text: string): string {
  const [, year = '', rest = ''] = /^([+-]?\d+)(-.*)$/.exec(text) ?? [];
  const number = Number(year);
  const shown = String(number > 0 ? number : 1 - number).padStart(4, '0');
  return `${shown}${rest}${number > 0 ? '' : ' BC'}`;
}
