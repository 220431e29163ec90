import type { Compression } from '../encoder.ts';
import { openPlain, type StreamCodec } from './codec.ts';
import { openGzip } from './gzip.ts';

/** The codec of a whole text file. Throws TypeError for a compression that only Parquet's pages take. */
export function openStreamCodec(compression: Compression): StreamCodec {
  switch (compression) {
    case null:
      return openPlain();
    case 'gzip':
      return openGzip();
    default:
      throw new TypeError(`${compression} does not compress a whole file`);
  }
}
