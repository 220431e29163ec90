import { streamCodecOf, streamCompressions } from '../codecs/stream-compressions.ts';
import type { EncoderDefinition } from '../encoder.ts';
import { TextFile, textMemoryBytes } from '../text/text-file.ts';
import { formatCsv } from './encode.ts';
import { readCsv } from './read.ts';

/** Comma-separated text with a header line; see README.md for how each type is written. */
export const csv: EncoderDefinition = {
  format: 'CSV',
  extension: 'csv',
  contentType: 'text/csv',
  compressions: streamCompressions,
  memoryBytes: textMemoryBytes,
  open: (columns, compression, options) =>
    new TextFile(
      formatCsv(columns, options?.csvFormulaGuard === true),
      streamCodecOf(compression).open(),
    ),
  read: (path, columns, compression, options) =>
    readCsv(streamCodecOf(compression).read(path), columns, options?.csvFormulaGuard === true),
};
