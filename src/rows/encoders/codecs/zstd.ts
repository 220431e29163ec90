import { open } from 'node:fs/promises';
import { promisify } from 'node:util';
import zlib from 'node:zlib';
import type { StreamCodec } from './codec.ts';
import { ParallelBlocks } from './parallel-blocks.ts';
import { readZstdFrames } from './zstd-frames.ts';

type NodeZstd = (
  block: Buffer,
  options: { readonly chunkSize?: number },
  done: (error: Error | null, result: Buffer) => void,
) => void;

export interface Zstd {
  /** Level 3, on another thread, into one frame. `chunkSize` is the room for its output. */
  compress(block: Buffer, chunkSize?: number): Promise<Buffer>;
  decompress(frame: Buffer): Promise<Buffer>;
}

/** Node has zstd from 22.15 on. Before, a package with native code is loaded when it is used. */
export async function loadZstd(): Promise<Zstd> {
  const { zstdCompress, zstdDecompress } = zlib as {
    readonly zstdCompress?: NodeZstd;
    readonly zstdDecompress?: NodeZstd;
  };
  if (zstdCompress === undefined || zstdDecompress === undefined) {
    const { compress, decompress } = await import('@mongodb-js/zstd');
    return { compress: (block) => compress(block), decompress };
  }
  const compress = promisify(zstdCompress);
  const decompress = promisify(zstdDecompress);
  return {
    compress: (block, chunkSize) => compress(block, chunkSize === undefined ? {} : { chunkSize }),
    decompress: (frame) => decompress(frame, {}),
  };
}

/** zstd, one frame per block (RFC 8878, 3.1: consecutive frames are one stream). */
export function openZstd(): StreamCodec {
  const zstd = loadZstd();
  zstd.catch(() => {});
  const blocks = new ParallelBlocks(async (block) => (await zstd).compress(block));
  let isEmpty = true;
  return {
    get heldBytes() {
      return blocks.heldBytes;
    },
    write(bytes) {
      isEmpty &&= bytes.length === 0;
      return blocks.write(bytes);
    },
    flush: () => blocks.drain(),
    async finish() {
      // Most readers refuse an empty file, so it gets one frame.
      return isEmpty ? [await (await zstd).compress(Buffer.alloc(0))] : blocks.drain();
    },
  };
}

/** The bytes of a zstd file on local disk, a frame at a time. */
export async function* readZstd(path: string): AsyncGenerator<Buffer> {
  const { decompress } = await loadZstd();
  const file = await open(path);
  try {
    for await (const frame of readZstdFrames(file)) yield await decompress(frame);
  } finally {
    await file.close();
  }
}
