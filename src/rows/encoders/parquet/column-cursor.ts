import type { ColumnMetaData, Compressors, FileMetaData, SchemaTree } from 'hyparquet';
import { textOfDays, textOfMicroseconds } from './read-values.ts';

export interface ColumnCursor {
  /** The next value as it is stored; of a list its elements, as `readParquet` has them. Null is null. */
  next(): unknown;
}

/** The library's reader of single pages, which is loaded when a file is read. */
export async function loadPageReader() {
  const [{ parquetHeader, readPage }, { getSchemaPath }, { DEFAULT_PARSERS }, { compressors }] =
    await Promise.all([
      import('hyparquet/src/column.js'),
      import('hyparquet/src/schema.js'),
      import('hyparquet/src/convert.js'),
      import('hyparquet-compressors'),
    ]);
  const parsers = { ...DEFAULT_PARSERS, ...valueParsers };
  return { parquetHeader, readPage, getSchemaPath, parsers, compressors };
}

export type PageReader = Awaited<ReturnType<typeof loadPageReader>>;

/** The library would make milliseconds of times, and drop a mark at the start of a text. */
export const valueParsers = {
  timestampFromMicroseconds: textOfMicroseconds,
  dateFromDays: textOfDays,
  stringFromBytes: (bytes?: Uint8Array) => bytes && Buffer.from(bytes).toString('utf8'),
};

export function rangeOfChunk(chunk: ColumnMetaData): {
  readonly start: number;
  readonly end: number;
} {
  const start = Number(chunk.dictionary_page_offset ?? chunk.data_page_offset);
  return { start, end: start + Number(chunk.total_compressed_size) };
}

/** @param schema whose annotations say what becomes of a value */
export function openCursor(
  reader: PageReader,
  bytes: ArrayBuffer,
  chunk: ColumnMetaData,
  schema: FileMetaData['schema'],
): ColumnCursor {
  const { parquetHeader, readPage, getSchemaPath, parsers } = reader;
  const { path_in_schema: pathInSchema, type, codec } = chunk;
  const schemaPath: SchemaTree[] = getSchemaPath(schema, pathInSchema);
  const { element } = schemaPath.at(-1) as SchemaTree;
  const compressors: Compressors = reader.compressors;
  const decoder = {
    pathInSchema,
    type,
    codec,
    schemaPath,
    element,
    parsers,
    compressors,
    utf8: false,
  };
  const isList = pathInSchema.length > 1;
  const data = { view: new DataView(bytes), offset: 0 };
  let dictionary: ReturnType<typeof readPage>['data'];
  let page: ArrayLike<unknown> = [];
  let at = 0;
  return {
    next() {
      while (at >= page.length) {
        const header = parquetHeader(data);
        const { data: values = [] } = readPage(data, header, decoder, dictionary, undefined, 0);
        if (header.type === 'DICTIONARY_PAGE') dictionary = values;
        else {
          page = values;
          at = 0;
        }
      }
      const value = page[at];
      at += 1;
      // A list is within a level of its own, which is empty if the list is null.
      return (isList ? (value as readonly unknown[])[0] : value) ?? null;
    },
  };
}
