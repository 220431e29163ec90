import { constants, crc32, deflateRaw, deflateRawSync, type ZlibOptions } from 'node:zlib';
import type { StreamCodec } from './codec.ts';
import { BLOCK_BYTES, ParallelBlocks } from './parallel-blocks.ts';

/** zlib's usual is 6: a sixth more time for 0.4% fewer bytes of events. */
const LEVEL = 5;
/** RFC 1952: magic, deflate, no flags, mtime 0 (the same bytes every time), no hint, OS unknown. */
const HEADER = Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255]);
/** An empty last block of deflate. */
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

/**
 * gzip as one member. Blocks are deflated separately on the thread pool and end at a byte boundary (sync
 * flush), so that they join into one valid stream, as in pigz.
 */
export function openGzip(): StreamCodec {
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

/**
 * The windows of a file's blocks. Each depends on the bytes alone: the first block has the wide one, and whole blocks
 * after it decide for those that follow. A file of one block is not worth a try.
 */
class WindowChoice {
  #wholeBlocks = 0;
  #chosen = Promise.resolve(WIDE_BITS);

  /** Call it for each block, in their order. */
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

/** On another thread. */
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
