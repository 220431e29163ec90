import { createReadStream } from 'node:fs';
import { pipeline, type Transform } from 'node:stream';
import { createBrotliDecompress, createGunzip } from 'node:zlib';
import type { Compression, CompressionFacts } from '../encoder.ts';
import { openBrotli } from './brotli.ts';
import { openPlain, type StreamCodec } from './codec.ts';
import { openGzip } from './gzip.ts';
import { openZstd, readZstd } from './zstd.ts';

interface StreamCompression extends CompressionFacts {
  open(): StreamCodec;
  /** The bytes of a file on local disk, in pieces as they come. */
  read(path: string): AsyncIterable<Buffer>;
}

const mebibyte = 1024 ** 2;
const readOptions = { highWaterMark: mebibyte };

/** Compressions of a whole file. Memory: four blocks at a time plus the codec's own. */
export const streamCompressions = {
  gzip: {
    suffix: '.gz',
    memoryBytes: 12 * mebibyte,
    open: openGzip,
    read: (path) => decompressed(path, createGunzip({ chunkSize: mebibyte })),
  },
  brotli: {
    suffix: '.br',
    memoryBytes: 32 * mebibyte,
    open: openBrotli,
    read: (path) => decompressed(path, createBrotliDecompress({ chunkSize: mebibyte })),
  },
  zstd: { suffix: '.zst', memoryBytes: 24 * mebibyte, open: openZstd, read: readZstd },
} as const satisfies Record<string, StreamCompression>;

const none = { open: openPlain, read: (path: string) => createReadStream(path, readOptions) };

/** The codec of a whole file. Throws TypeError for a compression that only works inside a file. */
export function streamCodecOf(compression: Compression): Pick<StreamCompression, 'open' | 'read'> {
  const known: Readonly<Record<string, StreamCompression>> = streamCompressions;
  const found = compression === null ? none : known[compression];
  if (!found) throw new TypeError(`${compression} does not compress a whole file`);
  return found;
}

function decompressed(path: string, codec: Transform): AsyncIterable<Buffer> {
  // The reader of the codec gets an error of either stream, so no second listener is needed.
  return pipeline(createReadStream(path, readOptions), codec, () => {});
}
