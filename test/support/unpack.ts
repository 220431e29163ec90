import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { decompress } from '@mongodb-js/zstd';
import type { Compression } from '../../src/rows/encoders/encoder.ts';

/** The bytes that a text file's compression holds. */
export async function unpack(compression: Compression, packed: Buffer): Promise<Buffer> {
  switch (compression) {
    case null:
      return packed;
    case 'gzip':
      return gunzipSync(packed);
    case 'brotli':
      return brotliDecompressSync(packed);
    case 'zstd':
      return unpackFrames(packed);
    default:
      throw new Error(`${compression} compresses no whole file`);
  }
}

const frameMagic = Buffer.from([0x28, 0xb5, 0x2f, 0xfd]);

/** The package's own decompress stops after the first frame. */
async function unpackFrames(packed: Buffer): Promise<Buffer> {
  const starts: number[] = [];
  for (let at = packed.indexOf(frameMagic); at >= 0; at = packed.indexOf(frameMagic, at + 1)) {
    starts.push(at);
  }
  const frames = starts.map((start, index) => packed.subarray(start, starts[index + 1]));
  return Buffer.concat(await Promise.all(frames.map((frame) => decompress(frame))));
}
