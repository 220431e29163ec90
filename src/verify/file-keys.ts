import { promisify } from 'node:util';
import zlib from 'node:zlib';
import type { ColumnType } from '../domain/row-block.ts';
import type { Manifest } from '../pipeline/manifest.ts';
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
 * The keys of the rows of a file, in file order, read by other code than that which wrote them.
 */
export function readFileKeys(
  bytes: Buffer,
  manifest: Pick<Manifest, 'format' | 'compression'>,
  columns: readonly KeyColumn[],
): AsyncIterable<string> {
  if (manifest.format === 'Parquet') return parquetKeys(bytes, columns);
  const text = decompress(bytes, manifest.compression);
  return manifest.format === 'CSV' ? csvKeys(text, columns) : jsonLinesKeys(text, columns, null);
}

/** The keys of the rows of a rejected file: `{"column", "reason", "row"}` a line. */
export function readRejectedKeys(
  bytes: Buffer,
  columns: readonly KeyColumn[],
): AsyncIterable<string> {
  return jsonLinesKeys(Promise.resolve(bytes), columns, 'row');
}

async function decompress(bytes: Buffer, compression: string | null): Promise<Buffer> {
  switch (compression) {
    case null:
      return bytes;
    case 'gzip':
      return promisify(zlib.gunzip)(bytes);
    case 'brotli':
      return promisify(zlib.brotliDecompress)(bytes);
    case 'zstd':
      return decompressZstd(bytes);
    default:
      throw new Error(`unknown compression ${compression}`);
  }
}

async function decompressZstd(bytes: Buffer): Promise<Buffer> {
  const { zstdDecompress } = zlib as {
    zstdDecompress?: (input: Buffer, done: (error: Error | null, result: Buffer) => void) => void;
  };
  if (zstdDecompress) return promisify(zstdDecompress)(bytes);
  const { decompress: native } = await import('@mongodb-js/zstd');
  return native(bytes);
}

/** @param inside the property of a line that holds the row; null where the line is the row */
async function* jsonLinesKeys(
  text: Promise<Buffer>,
  columns: readonly KeyColumn[],
  inside: string | null,
): AsyncGenerator<string> {
  const bytes = await text;
  for (let start = 0; start < bytes.length; ) {
    const found = bytes.indexOf(10, start);
    const end = found === -1 ? bytes.length : found;
    const line = bytes.toString('utf8', start, end);
    const parsed: unknown = JSON.parse(line);
    const row = inside === null ? parsed : (parsed as Row)[inside];
    const json = inside === null ? line : (rawProperty(line, inside) ?? '');
    yield joinKeys(columns.map((column) => keyOfJsonRow(column, row as Row, json)));
    start = end + 1;
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
  text: Promise<Buffer>,
  columns: readonly KeyColumn[],
): AsyncGenerator<string> {
  let places: readonly number[] | null = null;
  for (const fields of csvRecords((await text).toString('utf8'))) {
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

/** Records of RFC 4180; an empty cell without quotes is null. */
function* csvRecords(text: string): Generator<(string | null)[]> {
  let fields: (string | null)[] = [];
  let position = 0;
  while (position < text.length) {
    let field: string | null = null;
    if (text[position] === '"') {
      field = '';
      for (;;) {
        const quote = text.indexOf('"', position + 1);
        if (quote === -1) throw new Error('a quoted field does not end');
        field += text.slice(position + 1, quote);
        position = quote + 1;
        if (text[position] !== '"') break;
        field += '"';
      }
    } else {
      cellEnd.lastIndex = position;
      const end = cellEnd.exec(text)?.index ?? text.length;
      if (end > position) field = text.slice(position, end);
      position = end;
    }
    fields.push(field);
    if (text[position] === ',') {
      position += 1;
      continue;
    }
    position += text[position] === '\r' ? 2 : 1;
    yield fields;
    fields = [];
  }
}

async function* parquetKeys(bytes: Buffer, columns: readonly KeyColumn[]): AsyncGenerator<string> {
  const [{ parquetReadObjects }, { compressors }] = await Promise.all([
    import('hyparquet'),
    import('hyparquet-compressors'),
  ]);
  const file = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
  const rows = await parquetReadObjects({
    file: file as ArrayBuffer,
    columns: columns.map(({ name }) => name),
    compressors,
    // Only what is marked as text is text; its own times end at milliseconds.
    utf8: false,
    parsers: { timestampFromMicroseconds: keyOfMicroseconds, dateFromDays: keyOfDays },
  });
  for (const row of rows) {
    yield joinKeys(columns.map(({ name, type }) => keyOfParquet(type, row[name])));
  }
}

function keyOfParquet(type: ColumnType, value: unknown): string | null {
  if (value === null || value === undefined) return null;
  if (value instanceof Uint8Array) return `\\x${Buffer.from(value).toString('hex')}`;
  return type === 'as_json' ? keyOfJson(String(value)) : canonicalKey(type, String(value));
}
