import { promisify } from 'node:util';
import zlib from 'node:zlib';
import type { Manifest } from '../pipeline/manifest.ts';

/** The text of one row's keys; the separator is in no text of PostgreSQL. */
export function joinKeys(keys: readonly string[]): string {
  return keys.join('\0');
}

/**
 * The keys of the rows of a file, in file order, read by other code than that which wrote them.
 *
 * @param names the key columns
 */
export function readFileKeys(
  bytes: Buffer,
  manifest: Pick<Manifest, 'format' | 'compression'>,
  names: readonly string[],
): AsyncIterable<string> {
  if (manifest.format === 'Parquet') return parquetKeys(bytes, names);
  const text = decompress(bytes, manifest.compression);
  return manifest.format === 'CSV' ? csvKeys(text, names) : jsonLinesKeys(text, names);
}

/** The keys of the rows of a rejected file: `{"column", "reason", "row"}` a line. */
export function readRejectedKeys(bytes: Buffer, names: readonly string[]): AsyncIterable<string> {
  return jsonLinesKeys(Promise.resolve(bytes), names, (line) => (line as { row: Row }).row);
}

type Row = Readonly<Record<string, unknown>>;

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

async function* jsonLinesKeys(
  text: Promise<Buffer>,
  names: readonly string[],
  rowOf: (line: unknown) => Row = (line) => line as Row,
): AsyncGenerator<string> {
  const bytes = await text;
  for (let start = 0; start < bytes.length; ) {
    const found = bytes.indexOf(10, start);
    const end = found === -1 ? bytes.length : found;
    const row = rowOf(JSON.parse(bytes.toString('utf8', start, end)));
    yield joinKeys(names.map((name) => String(row[name])));
    start = end + 1;
  }
}

async function* csvKeys(text: Promise<Buffer>, names: readonly string[]): AsyncGenerator<string> {
  let columns: readonly number[] | null = null;
  for (const fields of csvRecords((await text).toString('utf8'))) {
    if (columns) yield joinKeys(columns.map((column) => fields[column] ?? ''));
    else columns = names.map((name) => fields.indexOf(name));
  }
}

/** Records of RFC 4180. */
function* csvRecords(text: string): Generator<string[]> {
  let fields: string[] = [];
  let position = 0;
  while (position < text.length) {
    let field = '';
    if (text[position] === '"') {
      for (;;) {
        const quote = text.indexOf('"', position + 1);
        if (quote === -1) throw new Error('a quoted field does not end');
        field += text.slice(position + 1, quote);
        position = quote + 1;
        if (text[position] !== '"') break;
        field += '"';
      }
    } else {
      const end = text.slice(position).search(/[,\r\n]/);
      field = end === -1 ? text.slice(position) : text.slice(position, position + end);
      position += field.length;
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

async function* parquetKeys(bytes: Buffer, names: readonly string[]): AsyncGenerator<string> {
  const [{ parquetReadObjects }, { compressors }] = await Promise.all([
    import('hyparquet'),
    import('hyparquet-compressors'),
  ]);
  const file = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
  const rows = await parquetReadObjects({
    file: file as ArrayBuffer,
    columns: [...names],
    compressors,
  });
  for (const row of rows) yield joinKeys(names.map((name) => String(row[name])));
}
