import { streamCodecOf, streamCompressions } from '../codecs/stream-compressions.ts';
import type { EncoderDefinition } from '../encoder.ts';
import { TextFile, textMemoryBytes } from '../text/text-file.ts';
import { formatJsonLines } from './encode.ts';
import { readJsonLines } from './read.ts';

/** One JSON object per line; see README.md for how each type is written. */
export const jsonLines: EncoderDefinition = {
  format: 'JSONLines',
  extension: 'jsonl',
  contentType: 'application/x-ndjson',
  compressions: streamCompressions,
  memoryBytes: textMemoryBytes,
  open: (columns, compression) =>
    new TextFile(formatJsonLines(columns), streamCodecOf(compression).open()),
  read: (path, columns, compression) =>
    readJsonLines(streamCodecOf(compression).read(path), columns),
};
