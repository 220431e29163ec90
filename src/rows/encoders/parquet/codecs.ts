import { promisify } from 'node:util';
import zlib from 'node:zlib';
import { loadZstd } from '../codecs/zstd.ts';
import type { Compression } from '../encoder.ts';
import { compressLz4 } from './lz4.ts';

/** Compresses a page, on the thread pool if that pays. */
export interface Codec {
  /** parquet.thrift's CompressionCodec. */
  readonly id: number;
  /**
   * The page must not change until this resolves. The result may be part of a larger memory, or the page
   * itself.
   */
  readonly compress: (page: Buffer) => Promise<Uint8Array>;
}

const gzip = promisify(zlib.gzip);
const brotli = promisify(zlib.brotliCompress);

/** Below zlib's usual 6: 1.4 times as fast on events for 5% more bytes. */
const gzipLevel = 4;

/** Brotli's usual 11 takes seconds per page. */
const brotliQuality = 4;

/** zlib switches threads for each chunk of output, so most pages should fit into one chunk. */
const chunkSizeFor = (page: Buffer): number => Math.max(1024, page.length >>> 1);

/** The codec of a compression. Packages with native code are loaded only if they are used. */
export async function loadCodec(compression: Compression): Promise<Codec> {
  switch (compression) {
    case null:
      return { id: 0, compress: async (page) => page };
    case 'snappy': {
      const { compressSync } = await import('snappy');
      // Not on the pool, and with the copy: otherwise the package's allocator keeps hundreds of megabytes.
      // It is as fast as filling the page.
      return { id: 1, compress: async (page) => compressSync(page, { copyOutputData: true }) };
    }
    case 'gzip':
      return {
        id: 2,
        compress: (page) => gzip(page, { level: gzipLevel, chunkSize: chunkSizeFor(page) }),
      };
    case 'brotli': {
      const params = { [zlib.constants.BROTLI_PARAM_QUALITY]: brotliQuality };
      return { id: 4, compress: (page) => brotli(page, { params, chunkSize: chunkSizeFor(page) }) };
    }
    case 'zstd': {
      const { compress } = await loadZstd();
      return { id: 6, compress: (page) => compress(page, chunkSizeFor(page)) };
    }
    case 'lz4':
      return { id: 7, compress: async (page) => compressLz4(page) };
    default:
      throw new TypeError(`Parquet's pages take no compression ${compression}`);
  }
}
