import type { EncoderDefinition } from '../encoder.ts';
import { openParquet } from './encode.ts';
import { readParquet } from './read.ts';
import { planColumns, tableFieldsOf } from './schema.ts';
import { parquetWithoutRows } from './without-rows.ts';

/** Pages are compressed inside the file, as they are filled. */
const inside = { suffix: '', memoryBytes: 0 };

export const parquet: EncoderDefinition = {
  format: 'Parquet',
  extension: 'parquet',
  contentType: 'application/vnd.apache.parquet',
  compressions: { snappy: inside, gzip: inside, zstd: inside, lz4: inside, brotli: inside },
  // A row group held until it is whole, the pages of all columns and their dictionaries.
  memoryBytes: 56 * 1024 ** 2,
  open: (columns, compression, { tableFormat = null, ...options } = {}) =>
    openParquet(columns, compression, undefined, { ...options, isOfTable: tableFormat !== null }),
  tableFields: (columns, { decimalColumns = null, timeAs }) =>
    tableFieldsOf(planColumns(columns, decimalColumns, timeAs)),
  read: readParquet,
  without: parquetWithoutRows,
};
