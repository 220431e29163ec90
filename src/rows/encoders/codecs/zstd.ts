import { type FileHandle, open } from 'node:fs/promises';
import { promisify } from 'node:util';
import zlib from 'node:zlib';
import type { StreamCodec } from './codec.ts';
import { ParallelBlocks } from './parallel-blocks.ts';

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

/** One frame per block (RFC 8878, 3.1: consecutive frames are one stream). */
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

export async function* readZstd(path: string): AsyncGenerator<Buffer> {
  const { decompress } = await loadZstd();
  const file = await open(path);
  try {
    for await (const frame of readZstdFrames(file)) yield await decompress(frame);
  } finally {
    await file.close();
  }
}

const frameMagic = 0xfd2fb528;
const skippableMagic = 0x184d2a5;
/** Maximum size of magic, descriptor, window, dictionary id and content size. */
const maxHeaderBytes = 18;
const blockHeaderBytes = 3;
const rleBlock = 1;

/**
 * Still compressed. RFC 8878, 3.1.1 (frames, blocks) and 3.1.2 (skippable frames, which are skipped).
 * @throws Error if the file ends early or is not zstd
 */
async function* readZstdFrames(file: FileHandle): AsyncGenerator<Buffer> {
  const { size } = await file.stat();
  for (let start = 0; start < size; ) {
    const header = await readAt(file, start, Math.min(maxHeaderBytes, size - start));
    const magic = header.readUInt32LE(0);
    if (magic >>> 4 === skippableMagic) {
      start += 8 + header.readUInt32LE(4);
      continue;
    }
    if (magic !== frameMagic) throw new Error(`no zstd frame begins at byte ${start}`);
    const end = await findEnd(file, start, header[4] as number);
    yield readAt(file, start, end - start);
    start = end;
  }
}

async function findEnd(file: FileHandle, start: number, descriptor: number): Promise<number> {
  const isSingle = (descriptor & 0x20) !== 0;
  const contentSizeBytes = [isSingle ? 1 : 0, 2, 4, 8][descriptor >> 6] as number;
  const dictionaryBytes = [0, 1, 2, 4][descriptor & 3] as number;
  const checksumBytes = (descriptor & 4) === 0 ? 0 : 4;
  let at = start + 5 + (isSingle ? 0 : 1) + dictionaryBytes + contentSizeBytes;
  for (;;) {
    const header = (await readAt(file, at, blockHeaderBytes)).readUIntLE(0, blockHeaderBytes);
    at += blockHeaderBytes + (((header >> 1) & 3) === rleBlock ? 1 : header >> 3);
    if ((header & 1) === 1) return at + checksumBytes;
  }
}

async function readAt(file: FileHandle, position: number, length: number): Promise<Buffer> {
  const bytes = Buffer.allocUnsafe(length);
  const { bytesRead } = await file.read(bytes, 0, length, position);
  if (bytesRead < length) throw new Error('the file ends in the middle of a zstd frame');
  return bytes;
}
