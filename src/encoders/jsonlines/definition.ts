import { openStreamCodec, streamCompressions } from '../codecs/open-stream-codec.ts';
import type { EncoderDefinition } from '../encoder.ts';
import { TextFile } from '../text/text-file.ts';
import { formatJsonLines } from './encode.ts';

/** One JSON object a line; see README.md for how each type is written. */
export const jsonLines: EncoderDefinition = {
  format: 'JSONLines',
  extension: 'jsonl',
  contentType: 'application/x-ndjson',
  compressions: streamCompressions,
  open: (columns, compression) =>
    new TextFile(formatJsonLines(columns), openStreamCodec(compression)),
};
