import type { FileHandle } from 'node:fs/promises';

const frameMagic = 0xfd2fb528;
const skippableMagic = 0x184d2a5;
/** Maximum size of magic, descriptor, window, dictionary id and content size. */
const maxHeaderBytes = 18;
const blockHeaderBytes = 3;
const rleBlock = 1;

/**
 * The frames of a zstd file, still compressed: the decompressor takes one at a time. RFC 8878, 3.1.1
 * (frames, blocks) and 3.1.2 (skippable frames, which are skipped).
 *
 * @throws Error if the file ends early or is not zstd
 */
export async function* readZstdFrames(file: FileHandle): AsyncGenerator<Buffer> {
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
