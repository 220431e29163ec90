import { constants, crc32, deflateRaw } from 'node:zlib';
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

/**
 * gzip as one member. Blocks are deflated separately on the thread pool and end at a byte boundary (sync
 * flush), so that they join into one valid stream, as in pigz.
 */
export function openGzip(): StreamCodec {
  const blocks = new ParallelBlocks(deflateBlock);
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

function deflateBlock(block: Buffer): Promise<Uint8Array> {
  const options = {
    level: LEVEL,
    // A larger hash table than the default 8: 7% faster and no larger.
    memLevel: 9,
    finishFlush: constants.Z_SYNC_FLUSH,
    chunkSize: OUTPUT_BYTES,
  };
  return new Promise((resolve, reject) => {
    deflateRaw(block, options, (error, compressed) =>
      error ? reject(error) : resolve(compressed),
    );
  });
}
