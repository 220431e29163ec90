import { openStreamCodec } from '../codecs/open-stream-codec.ts';
import type { EncoderDefinition } from '../encoder.ts';
import { TextFile } from '../text/text-file.ts';
import { formatJsonLines } from './encode.ts';

export const jsonLines: EncoderDefinition = {
  format: 'JSONLines',
  extension: 'jsonl',
  contentType: 'application/x-ndjson',
  compressions: [null, 'gzip', 'brotli', 'zstd'],
  open: (columns, compression) =>
    new TextFile(formatJsonLines(columns), openStreamCodec(compression)),
};
