import { createReadStream } from 'node:fs';
import { pipeline, type Transform } from 'node:stream';
import { createBrotliDecompress, createGunzip, constants, createBrotliCompress } from 'node:zlib';
import type { Compression, CompressionFacts } from '../encoder.ts';
import { openPlain, type StreamCodec } from './codec.ts';
import { openGzip } from './gzip.ts';
import { openZstd, readZstd } from './zstd.ts';
import { once } from 'node:events';
import { setImmediate } from 'node:timers/promises';

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
  const byName: Readonly<Record<string, StreamCompression>> = streamCompressions;
  const codec = compression === null ? none : byName[compression];
  if (!codec) throw new TypeError(`${compression} does not compress a whole file`);
  return codec;
}

function decompressed(path: string, codec: Transform): AsyncIterable<Buffer> {
  // The reader of the codec gets an error of either stream, so no second listener is needed.
  return pipeline(createReadStream(path, readOptions), codec, () => {});
}

/** Brotli's default, 11, takes about a second per megabyte. */
const QUALITY = 4;

/** Brotli has no joinable blocks: one stream, compressed on one thread of the pool. */
function openBrotli(): StreamCodec {
  const stream = createBrotliCompress({
    params: {
      [constants.BROTLI_PARAM_QUALITY]: QUALITY,
      [constants.BROTLI_PARAM_MODE]: constants.BROTLI_MODE_TEXT,
    },
    chunkSize: 1 << 18,
  });
  let ready: Buffer[] = [];
  stream.on('data', (chunk: Buffer) => ready.push(chunk));
  const takeReady = () => {
    const taken = ready;
    ready = [];
    return taken;
  };
  return {
    get heldBytes() {
      return stream.writableLength;
    },
    async write(bytes) {
      if (!stream.write(bytes)) await once(stream, 'drain');
      return takeReady();
    },
    async flush() {
      await new Promise<void>((resolve) => stream.flush(resolve));
      while (stream.readableLength > 0) await setImmediate();
      return takeReady();
    },
    async finish() {
      stream.end();
      await once(stream, 'end');
      return takeReady();
    },
  };
}
