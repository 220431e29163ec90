import type { EncoderDefinition } from '../encoder.ts';
import { openParquet } from './encode.ts';

/** Parquet, for warehouses and query engines; see README.md for types and limits. */
export const parquet: EncoderDefinition = {
  format: 'Parquet',
  extension: 'parquet',
  contentType: 'application/vnd.apache.parquet',
  compressions: [null, 'snappy', 'gzip', 'zstd', 'lz4', 'brotli'],
  open: (columns, compression) => openParquet(columns, compression),
};
