import { once } from 'node:events';
import { createReadStream } from 'node:fs';
import { pipeline, type Transform } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import {
  constants,
  crc32,
  createBrotliCompress,
  createBrotliDecompress,
  createGunzip,
  deflateRaw,
  deflateRawSync,
  type ZlibOptions,
} from 'node:zlib';
import type { Compression, CompressionFacts } from '../encoder.ts';
import { openPlain, type StreamCodec } from './codec.ts';
import { BLOCK_BYTES, ParallelBlocks } from './parallel-blocks.ts';
import { openZstd, readZstd } from './zstd.ts';

interface StreamCompression extends CompressionFacts {
  open(): StreamCodec;
  read(path: string): AsyncIterable<Buffer>;
}

const mebibyte = 1024 ** 2;
const readOptions = { highWaterMark: mebibyte };

/** Of a whole file. Memory: four blocks at a time plus the codec's own. */
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

/** Throws TypeError for a compression that only works inside a file. */
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

/** It has no joinable blocks: one stream, compressed on one thread of the pool. */
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

/** zlib's usual is 6: a sixth more time for 0.4% fewer bytes of events. */
const LEVEL = 5;
/** RFC 1952: magic, deflate, no flags, mtime 0 (the same bytes every time), no hint, OS unknown. */
const HEADER = Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255]);
const END = Buffer.from([3, 0]);
/** Large enough for a block's output, so that it takes one trip to the thread pool. */
const OUTPUT_BYTES = BLOCK_BYTES / 2;
/** More than deflate adds to bytes that it cannot make smaller. */
const SPARE_BYTES = 1 << 10;
/** A block of this size takes less time than the way to another thread and back. */
const AT_ONCE_BYTES = 1 << 16;

/** The distance of a repetition, as a power of two: deflate's most, and what a core's first cache has room for. */
const WIDE_BITS = 15;
const NARROW_BITS = 13;
/** The narrow window takes up to a third less time. It is used if the bytes become at most this many times more. */
const MOST_GROWTH = 1.01;
/** The start of a block is deflated with both, and the choice holds for this number of whole blocks. */
const SAMPLE_BYTES = BLOCK_BYTES / 4;
const BLOCKS_PER_CHOICE = 32;

/** One member. Blocks are deflated apart and end at a byte boundary (sync flush), so that they join, as in pigz. */
function openGzip(): StreamCodec {
  const choice = new WindowChoice();
  const blocks = new ParallelBlocks((block) => deflateBlock(block, choice));
  let checksum = 0;
  let size = 0;
  let headerSent = false;
  const withHeader = (ready: Uint8Array[]) => {
    if (!headerSent) ready.unshift(HEADER);
    headerSent = true;
    return ready;
  };
  return {
    get heldBytes() {
      return blocks.heldBytes;
    },
    async write(bytes) {
      checksum = crc32(bytes, checksum);
      size += bytes.length;
      return withHeader(await blocks.write(bytes));
    },
    async flush() {
      return withHeader(await blocks.drain());
    },
    async finish() {
      const trailer = Buffer.alloc(8);
      trailer.writeUInt32LE(checksum, 0);
      // The size is counted modulo 2^32.
      trailer.writeUInt32LE(size % 2 ** 32, 4);
      return [...withHeader(await blocks.drain()), END, trailer];
    },
  };
}

/** By the bytes alone: the first block has the wide window, and whole blocks decide for those that follow. */
class WindowChoice {
  #wholeBlocks = 0;
  #chosen = Promise.resolve(WIDE_BITS);

  of(block: Buffer): Promise<number> {
    if (block.length < BLOCK_BYTES) return this.#chosen;
    if (this.#wholeBlocks % BLOCKS_PER_CHOICE === 1) {
      this.#chosen = chooseWindow(block.subarray(0, SAMPLE_BYTES));
    }
    this.#wholeBlocks += 1;
    return this.#chosen;
  }
}

async function chooseWindow(sample: Buffer): Promise<number> {
  const [wide, narrow] = await Promise.all([
    deflateApart(sample, WIDE_BITS),
    deflateApart(sample, NARROW_BITS),
  ]);
  return narrow.length <= wide.length * MOST_GROWTH ? NARROW_BITS : WIDE_BITS;
}

async function deflateBlock(block: Buffer, choice: WindowChoice): Promise<Uint8Array> {
  if (block.length <= AT_ONCE_BYTES) return deflateRawSync(block, optionsFor(block, WIDE_BITS));
  return deflateApart(block, await choice.of(block));
}

function deflateApart(block: Buffer, windowBits: number): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    deflateRaw(block, optionsFor(block, windowBits), (error, compressed) =>
      error ? reject(error) : resolve(compressed),
    );
  });
}

function optionsFor(block: Buffer, windowBits: number): ZlibOptions {
  return {
    level: LEVEL,
    windowBits,
    // A larger hash table than the default 8: 7% faster and no larger.
    memLevel: 9,
    finishFlush: constants.Z_SYNC_FLUSH,
    chunkSize: Math.min(OUTPUT_BYTES, block.length + SPARE_BYTES),
  };
}
