import { promisify } from 'node:util';
import zlib from 'node:zlib';
import type { StreamCodec } from './codec.ts';
import { type CompressBlock, ParallelBlocks } from './parallel-blocks.ts';

type NodeZstd = (block: Buffer, done: (error: Error | null, result: Buffer) => void) => void;

/** zstd, each block a frame of its own (RFC 8878, 3.1: frames one after the other are one stream). */
export function openZstd(): StreamCodec {
  const compress = loadZstd();
  compress.catch(() => {});
  const blocks = new ParallelBlocks(async (block) => (await compress)(block));
  let isEmpty = true;
  return {
    get heldBytes() {
      return blocks.heldBytes;
    },
    write(bytes) {
      isEmpty &&= bytes.length === 0;
      return blocks.write(bytes);
    },
    async finish() {
      // A file of no bytes is an error to most readers: it needs one frame.
      return isEmpty ? [await (await compress)(Buffer.alloc(0))] : blocks.finish();
    },
  };
}

/**
 * Level 3, off this thread. Node has zstd itself from 22.15 on; before, a package with native code,
 * which is loaded only where it is used.
 */
async function loadZstd(): Promise<CompressBlock> {
  const { zstdCompress } = zlib as { readonly zstdCompress?: NodeZstd };
  if (zstdCompress !== undefined) return promisify(zstdCompress);
  const { compress } = await import('@mongodb-js/zstd');
  return (block) => compress(block);
}
