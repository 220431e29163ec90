import { once } from 'node:events';
import { setImmediate } from 'node:timers/promises';
import { constants, createBrotliCompress } from 'node:zlib';
import type { StreamCodec } from './codec.ts';

/** Brotli's default, 11, takes about a second per megabyte. */
const QUALITY = 4;

/** Brotli has no joinable blocks: one stream, compressed on one thread of the pool. */
export function openBrotli(): StreamCodec {
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
