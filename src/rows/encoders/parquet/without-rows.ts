import type { ColumnChunk, FileMetaData, SchemaElement } from 'hyparquet';
import type { ColumnMetrics } from '../../../foundation/domain/column-metrics.ts';
import { ByteWriter } from '../../../foundation/domain/byte-writer.ts';
import type { RowBlock } from '../../../foundation/domain/row-block.ts';
import type {
  Compression,
  FileEncoder,
  FormatOptions,
  IsDropped,
  RemainingFile,
} from '../encoder.ts';
import { type ColumnCursor, loadPageReader, openCursor, rangeOfChunk } from './column-cursor.ts';
import { openParquet } from './encode.ts';
import { takeLeaves } from './read-values.ts';
import { type StoredColumn, storedColumn } from './stored-fields.ts';

/** A block ends with the row at which it has so many bytes or fields. */
const blockBytes = 1 << 20;
const blockFields = 1 << 16;

/**
 * Makes a file again without some of its rows: with the same columns, types and notes, and the bytes that an export
 * of the remaining rows would have. Holds the compressed pages of a row group, and of each column one page unpacked.
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
      refuseRejected(encoder);
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

/** A value that was in a file has a place in it. */
function refuseRejected({ rejected = [] }: FileEncoder): void {
  const [first] = rejected;
  if (first) throw new Error(`a row cannot be written again: ${first.reason}`);
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

/** Rows that are put together again. */
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

/** PostgreSQL's types, as the file names them. */
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
