import type { ColumnChunk, FileMetaData, SchemaElement } from 'hyparquet';
import { ByteWriter } from '../../../foundation/domain/byte-writer.ts';
import type { ColumnMetrics } from '../../../foundation/domain/column-metrics.ts';
import {
  type Column,
  type ColumnType,
  epochDays,
  type RowBlock,
} from '../../../foundation/domain/row-block.ts';
import type { Compression, FormatOptions, IsDropped, RemainingFile } from '../encoder.ts';
import { type ColumnCursor, loadPageReader, openCursor, rangeOfChunk } from './column-cursor.ts';
import { openParquet } from './encode.ts';
import { type ReadLeaf, takeLeaves, textOfJsonColumn } from './read-values.ts';

/** A block ends with the row at which it has so many bytes or fields. */
const blockBytes = 1 << 20;
const blockFields = 1 << 16;

/**
 * With the bytes that an export of the remaining rows would have. Holds the compressed pages of a row group, and of each
 * column one page unpacked.
 */
export function parquetWithoutRows(
  path: string,
  isDropped: IsDropped,
  compression: Compression,
  { tableFormat = null, ...options }: FormatOptions = {},
): RemainingFile {
  let columnMetrics: readonly ColumnMetrics[] = [];
  async function* bytes(): AsyncGenerator<Uint8Array> {
    const { asyncBufferFromFile, parquetMetadataAsync } = await import('hyparquet');
    const file = await asyncBufferFromFile(path);
    const metadata = await parquetMetadataAsync(file);
    const columns = columnsOf(metadata);
    const encoder = openParquet(
      columns.map(({ column }) => column),
      compression,
      undefined,
      {
        ...options,
        maxBytes: null,
        isOfTable: tableFormat !== null,
        notesBefore: (metadata.key_value_metadata ?? []).map(({ key, value = '' }) => [key, value]),
      },
    );
    for await (const block of remainingBlocks(file, metadata, columns, isDropped)) {
      yield* await encoder.write(block);
      encoder.release?.();
      // A value that was in a file has a place in it.
      const [rejected] = encoder.rejected ?? [];
      if (rejected) throw new Error(`a row cannot be written again: ${rejected.reason}`);
    }
    yield* await encoder.finish();
    columnMetrics = encoder.columnMetrics ?? [];
  }
  return {
    bytes: bytes(),
    get columnMetrics() {
      return columnMetrics;
    },
  };
}

type LocalFile = { slice(start: number, end?: number): ArrayBuffer | Promise<ArrayBuffer> };

async function* remainingBlocks(
  file: LocalFile,
  metadata: FileMetaData,
  columns: readonly StoredColumn[],
  isDropped: IsDropped,
): AsyncGenerator<RowBlock> {
  const reader = await loadPageReader();
  const schema = readSchema(metadata);
  const block = new OpenBlock(columns);
  let row = 0;
  for (const { columns: chunks, num_rows: rows } of metadata.row_groups) {
    const cursors: ColumnCursor[] = [];
    for (const { meta_data: chunk } of chunks) {
      if (!chunk) throw new Error('a column has no metadata');
      const { start, end } = rangeOfChunk(chunk);
      cursors.push(openCursor(reader, await file.slice(start, end), chunk, schema));
    }
    for (const end = row + Number(rows); row < end; row += 1) {
      const isKept = !isDropped(row);
      for (const [at, cursor] of cursors.entries()) {
        const value = cursor.next();
        if (isKept) block.add(at, value);
      }
      if (block.isFull) yield block.take();
    }
  }
  if (block.rows > 0) yield block.take();
}

class OpenBlock {
  readonly #columns: readonly StoredColumn[];
  #out = new ByteWriter(blockBytes);
  #offsets: number[] = [];
  #lengths: number[] = [];

  constructor(columns: readonly StoredColumn[]) {
    this.#columns = columns;
  }

  get rows(): number {
    return Math.floor(this.#lengths.length / Math.max(1, this.#columns.length));
  }

  get isFull(): boolean {
    return this.#out.length >= blockBytes || this.#lengths.length >= blockFields;
  }

  add(at: number, value: unknown): void {
    const start = this.#out.length;
    if (value !== null) this.#columns[at]?.put(this.#out, value);
    this.#offsets.push(start);
    this.#lengths.push(value === null ? -1 : this.#out.length - start);
  }

  take(): RowBlock {
    const columns = this.#columns.map(({ column }) => column);
    const rowCount = this.rows;
    const offsets = Int32Array.from(this.#offsets);
    const lengths = Int32Array.from(this.#lengths);
    this.#offsets = [];
    this.#lengths = [];
    return { columns, rowCount, offsets, lengths, bytes: this.#out.take(blockBytes) };
  }
}

function columnsOf(metadata: FileMetaData): readonly StoredColumn[] {
  const types = new Map(typesOf(metadata).map(({ name, type }) => [name, type]));
  // It takes annotations out of the schema that it gets.
  const leaves = takeLeaves(metadata.schema.map((element) => ({ ...element })));
  return [...leaves].map(([name, leaf], at) =>
    storedColumn(name, leaf, types.get(name) ?? '', isJson(chunksOf(metadata, at))),
  );
}

function typesOf({ key_value_metadata: notes }: FileMetaData) {
  const note = notes?.find(({ key }) => key === 'sluice.postgres_types')?.value;
  return note === undefined
    ? []
    : (JSON.parse(note) as readonly { readonly name: string; readonly type: string }[]);
}

function chunksOf({ row_groups: groups }: FileMetaData, at: number): readonly ColumnChunk[] {
  return groups.flatMap(({ columns }) => columns.slice(at, at + 1));
}

/** Of all texts only JSON never has bounds. */
function isJson(chunks: readonly ColumnChunk[]): boolean {
  return chunks.every(({ meta_data: chunk }) => chunk?.statistics?.min_value === undefined);
}

/** The schema with the annotations that the library may apply: only those within lists. */
function readSchema({ schema }: FileMetaData): SchemaElement[] {
  const annotated = schema.map((element) => ({ ...element }));
  takeLeaves(annotated);
  let isInList = false;
  return annotated.map((element, at) => {
    if (at === 0) return element;
    if (element.num_children !== undefined) {
      isInList = true;
      return element;
    }
    const { converted_type: _, logical_type: __, ...bare } = element;
    const isElement = isInList;
    isInList = false;
    return isElement ? element : bare;
  });
}

interface StoredColumn {
  readonly column: Column;
  put(out: ByteWriter, value: unknown): void;
}

/**
 * Types that are stored alike get one type: an interval is a text. @param leaf of the file, with its annotations @param
 * sourceType PostgreSQL's name of the type; empty if the file does not say it @param isJson whether a text is stored as
 * JSON is: without bounds
 */
function storedColumn(
  name: string,
  leaf: ReadLeaf,
  sourceType: string,
  isJson: boolean,
): StoredColumn {
  if (leaf.isList || leaf.isBare) {
    const column = { name, type: 'as_json' as const, sourceType };
    return { column, put: (out, value) => putJson(out, value, leaf, sourceType) };
  }
  const type = typeOf(leaf.element, sourceType, isJson);
  return { column: { name, type, sourceType }, put: writers[type] };
}

type StoredType = Exclude<ColumnType, 'jsonb' | 'as_json'>;

function typeOf(element: SchemaElement, sourceType: string, isJson: boolean): StoredType {
  const { type, converted_type: converted, logical_type: logical } = element;
  switch (type) {
    case 'BOOLEAN':
      return 'bool';
    case 'INT32':
      return converted === 'DATE' ? 'date' : converted === 'INT_16' ? 'int2' : 'int4';
    case 'INT64':
      if (converted !== 'TIMESTAMP_MICROS') return 'int8';
      return logical?.type === 'TIMESTAMP' && logical.isAdjustedToUTC ? 'timestamptz' : 'timestamp';
    case 'FLOAT':
      return 'float4';
    case 'DOUBLE':
      return 'float8';
    case 'BYTE_ARRAY':
      if (converted !== 'UTF8') return 'bytea';
      return sourceType === 'uuid' ? 'uuid' : isJson ? 'json' : 'text';
    default:
      throw new TypeError(`a column of type ${type} is not one of ours`);
  }
}

const epochMicros = BigInt(epochDays) * 86_400_000_000n;

const fixed =
  <Value>(
    width: number,
    set: (view: DataView, at: number, value: Value) => void,
  ): StoredColumn['put'] =>
  (out, value) => {
    out.ensure(width);
    set(out.view, out.length, value as Value);
    out.length += width;
  };

const putMoment = fixed<bigint>(8, (view, at, value) => view.setBigInt64(at, value - epochMicros));

const writers: Readonly<Record<StoredType, StoredColumn['put']>> = {
  bool: (out, value) => out.put(value === true ? 1 : 0),
  int2: fixed<number>(2, (view, at, value) => view.setInt16(at, value)),
  int4: fixed<number>(4, (view, at, value) => view.setInt32(at, value)),
  int8: fixed<bigint>(8, (view, at, value) => view.setBigInt64(at, value)),
  float4: fixed<number>(4, (view, at, value) => view.setFloat32(at, value)),
  float8: fixed<number>(8, (view, at, value) => view.setFloat64(at, value)),
  text: putBytes,
  json: putBytes,
  bytea: putBytes,
  uuid(out, value) {
    const text = Buffer.from(value as Uint8Array).toString('latin1');
    putBytes(out, Buffer.from(text.replaceAll('-', ''), 'hex'));
  },
  date: fixed<number>(4, (view, at, value) => view.setInt32(at, value - epochDays)),
  timestamp: putMoment,
  timestamptz: putMoment,
};

function putJson(out: ByteWriter, value: unknown, leaf: ReadLeaf, sourceType: string): void {
  const text = textOfJsonColumn(value, leaf, sourceType);
  const isText = !leaf.isList && leaf.element.converted_type === 'TIME_MICROS';
  putBytes(out, Buffer.from(isText ? JSON.stringify(text) : text));
}

function putBytes(out: ByteWriter, value: unknown): void {
  const bytes = value as Uint8Array;
  out.ensure(bytes.length);
  out.bytes.set(bytes, out.length);
  out.length += bytes.length;
}
