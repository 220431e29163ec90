import type { ColumnType } from '../domain/row-block.ts';
import type { Manifest } from '../pipeline/manifest.ts';
import { readText, splitRecords } from './file-text.ts';
import {
  canonicalKey,
  joinKeys,
  type KeyColumn,
  keyOfDays,
  keyOfJson,
  keyOfMicroseconds,
} from './key-values.ts';
import { rawProperty } from './raw-json.ts';

/**
 * The keys of the rows of a file on local disk, in file order, read by other code than that which
 * wrote them. Of the file no more is in memory than a few MiB, a record or a row group's keys.
 */
export function readFileKeys(
  path: string,
  { format, compression }: Pick<Manifest, 'format' | 'compression'>,
  columns: readonly KeyColumn[],
): AsyncIterable<string> {
  if (format === 'Parquet') return parquetKeys(path, columns);
  const text = readText(path, compression);
  return format === 'CSV' ? csvKeys(text, columns) : jsonLinesKeys(text, columns, null);
}

/** The keys of the rows of a rejected file: `{"column", "reason", "row"}` a line. */
export function readRejectedKeys(
  path: string,
  columns: readonly KeyColumn[],
): AsyncIterable<string> {
  return jsonLinesKeys(readText(path, null), columns, 'row');
}

/** @param inside the property of a line that holds the row; null where the line is the row */
async function* jsonLinesKeys(
  text: AsyncIterable<Buffer>,
  columns: readonly KeyColumn[],
  inside: string | null,
): AsyncGenerator<string> {
  for await (const record of splitRecords(text, false)) {
    const line = record.toString('utf8');
    const parsed: unknown = JSON.parse(line);
    const row = inside === null ? parsed : (parsed as Row)[inside];
    const json = inside === null ? line : (rawProperty(line, inside) ?? '');
    yield joinKeys(columns.map((column) => keyOfJsonRow(column, row as Row, json)));
  }
}

type Row = Readonly<Record<string, unknown>>;

function keyOfJsonRow({ name, type }: KeyColumn, row: Row, json: string): string | null {
  const value = row[name];
  if (value === null) return null;
  if (typeof value === 'string') return canonicalKey(type, value);
  return canonicalKey(type, rawProperty(json, name) ?? '');
}

async function* csvKeys(
  text: AsyncIterable<Buffer>,
  columns: readonly KeyColumn[],
): AsyncGenerator<string> {
  let places: readonly number[] | null = null;
  for await (const record of splitRecords(text, true)) {
    const fields = csvFields(record.toString('utf8'));
    if (!places) {
      places = columns.map(({ name }) => fields.indexOf(name));
      continue;
    }
    const keys = places.map((place) => fields[place] ?? null);
    yield joinKeys(
      columns.map(({ type }, index) => {
        const key = keys[index] ?? null;
        return key === null ? null : canonicalKey(type, key);
      }),
    );
  }
}

const cellEnd = /[,\r\n]/g;

/** The fields of a record of RFC 4180; an empty one without quotes is null. */
function csvFields(record: string): readonly (string | null)[] {
  const fields: (string | null)[] = [];
  for (let position = 0; ; position += 1) {
    let field: string | null = null;
    if (record[position] === '"') {
      field = '';
      for (;;) {
        const quote = record.indexOf('"', position + 1);
        if (quote === -1) throw new Error('a quoted field does not end');
        field += record.slice(position + 1, quote);
        position = quote + 1;
        if (record[position] !== '"') break;
        field += '"';
      }
    } else {
      cellEnd.lastIndex = position;
      const end = cellEnd.exec(record)?.index ?? record.length;
      if (end > position) field = record.slice(position, end);
      position = end;
    }
    fields.push(field);
    if (record[position] !== ',') return fields;
  }
}

async function* parquetKeys(path: string, columns: readonly KeyColumn[]): AsyncGenerator<string> {
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
      // Only what is marked as text is text; its own times end at milliseconds.
      utf8: false,
      parsers: { timestampFromMicroseconds: keyOfMicroseconds, dateFromDays: keyOfDays },
      // Columns as they are: an object a row would take several times their memory.
      onChunk: ({ columnName, columnData }) => pieces.get(columnName)?.push(columnData),
    });
    const values = columns.map(({ name }) => each(pieces.get(name) ?? []));
    for (; rowStart < rowEnd; rowStart += 1) {
      yield joinKeys(columns.map(({ type }, at) => keyOfParquet(type, values[at]?.next().value)));
    }
  }
}

function* each(pieces: readonly Iterable<unknown>[]): Generator<unknown, undefined> {
  for (const piece of pieces) yield* piece;
}

function keyOfParquet(type: ColumnType, value: unknown): string | null {
  if (value === null || value === undefined) return null;
  if (value instanceof Uint8Array) return `\\x${Buffer.from(value).toString('hex')}`;
  return type === 'as_json' ? keyOfJson(String(value)) : canonicalKey(type, String(value));
}
