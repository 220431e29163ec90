import { promisify } from 'node:util';
import zlib from 'node:zlib';
import type { Compression } from '../encoder.ts';

/** One way to compress a page, off this thread. */
export interface Codec {
  /** parquet.thrift's CompressionCodec. */
  readonly id: number;
  /** Does not keep `page`; it must not change until this resolves. */
  readonly compress: (page: Buffer) => Promise<Uint8Array>;
}

const gzip = promisify(zlib.gzip);
const brotli = promisify(zlib.brotliCompress);

/** Below zlib's usual 6: 1.4 times as fast on events for 5% more bytes. */
const gzipLevel = 4;

/** Brotli's usual 11 takes seconds a page. */
const brotliQuality = 4;

/** The codec of a compression. Packages with native code are loaded only where they are used. */
export async function loadCodec(compression: Compression): Promise<Codec> {
  switch (compression) {
    case null:
      // A copy, since the page's memory is used again.
      return { id: 0, compress: async (page) => Buffer.from(page) };
    case 'snappy': {
      const { compress } = await import('snappy');
      return { id: 1, compress: (page) => compress(page) };
    }
    case 'gzip':
      return { id: 2, compress: (page) => gzip(page, { level: gzipLevel }) };
    case 'brotli': {
      const params = { [zlib.constants.BROTLI_PARAM_QUALITY]: brotliQuality };
      return { id: 4, compress: (page) => brotli(page, { params }) };
    }
    case 'zstd':
      return { id: 6, compress: await loadZstd() };
    case 'lz4': {
      const { compress } = await import('lz4-napi');
      // The package puts the length in front, four bytes; LZ4_RAW is the bare block.
      return { id: 7, compress: async (page) => (await compress(page)).subarray(4) };
    }
  }
}

type Zstd = (page: Buffer, done: (error: Error | null, result: Buffer) => void) => void;

/** Level 3 both ways. Node has zstd itself from 22.15 on. */
async function loadZstd(): Promise<Codec['compress']> {
  const { zstdCompress } = zlib as { zstdCompress?: Zstd };
  if (zstdCompress !== undefined) return promisify(zstdCompress);
  const { compress } = await import('@mongodb-js/zstd');
  return (page) => compress(page);
}
