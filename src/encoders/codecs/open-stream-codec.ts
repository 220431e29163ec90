import type { Compression } from '../encoder.ts';
import { openBrotli } from './brotli.ts';
import { openPlain, type StreamCodec } from './codec.ts';
import { openGzip } from './gzip.ts';
import { openZstd } from './zstd.ts';

/** What compresses a whole text file, in the order in which the API names them. */
export const streamCompressions: readonly Compression[] = [null, 'gzip', 'brotli', 'zstd'];

/** The codec of a text file. Throws TypeError for a compression that only Parquet's pages take. */
export function openStreamCodec(compression: Compression): StreamCodec {
  switch (compression) {
    case null:
      return openPlain();
    case 'gzip':
      return openGzip();
    case 'brotli':
      return openBrotli();
    case 'zstd':
      return openZstd();
    default:
      throw new TypeError(`${compression} does not compress a whole file`);
  }
}
