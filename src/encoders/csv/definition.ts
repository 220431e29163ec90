import { openStreamCodec, streamCompressions } from '../codecs/open-stream-codec.ts';
import type { EncoderDefinition } from '../encoder.ts';
import { TextFile } from '../text/text-file.ts';
import { formatCsv } from './encode.ts';

/** Comma-separated text with a header line; see README.md for how each type is written. */
export const csv: EncoderDefinition = {
  format: 'CSV',
  extension: 'csv',
  contentType: 'text/csv',
  compressions: streamCompressions,
  open: (columns, compression) => new TextFile(formatCsv(columns), openStreamCodec(compression)),
};
