import { randomBytes } from 'node:crypto';
import { promisify } from 'node:util';
import { constants, crc32, deflateRaw } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { ParallelBlocks } from '../../../src/rows/encoders/codecs/parallel-blocks.ts';
import { streamCodecOf } from '../../../src/rows/encoders/codecs/stream-compressions.ts';
import type { Compression } from '../../../src/rows/encoders/encoder.ts';
import { unpack } from '../../support/unpack.ts';

async function compress(compression: Compression, chunks: readonly Buffer[]): Promise<Buffer> {
  const codec = streamCodecOf(compression).open();
  const parts: Uint8Array[] = [];
  for (const chunk of chunks) parts.push(...(await codec.write(Buffer.from(chunk))));
  parts.push(...(await codec.finish()));
  expect(codec.heldBytes).toBe(0);
  return Buffer.concat(parts);
}

/** Text-like bytes of several blocks: neither all alike nor incompressible. */
const chunks = Array.from({ length: 7 }, (_, index) =>
  Buffer.from(randomBytes(100_000 * index).toString('hex')),
);

describe('the codec of gzip', () => {
  it('writes one member, without a time, that ends with checksum and size', async () => {
    const packed = await compress('gzip', chunks);
    const plain = Buffer.concat(chunks);
    expect(packed.subarray(0, 10)).toEqual(Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255]));
    expect(packed.readUInt32LE(packed.length - 8)).toBe(crc32(plain));
    expect(packed.readUInt32LE(packed.length - 4)).toBe(plain.length);
  });

  it.each([0, 1, 1_000, 65_535, 65_536, 65_537, 200_000])(
    'makes the same bytes of %i on its own thread as on another',
    async (length) => {
      // Half of it cannot be made smaller.
      const plain = Buffer.concat([randomBytes(length / 2), Buffer.alloc(length, 'text ')]);
      const block = plain.subarray(0, length);
      const elsewhere = await promisify(deflateRaw)(block, {
        level: 5,
        memLevel: 9,
        finishFlush: constants.Z_SYNC_FLUSH,
        chunkSize: 1 << 19,
      });
      const packed = await compress('gzip', [block]);
      const body = packed.subarray(10, packed.length - 10);
      expect(body.equals(length === 0 ? Buffer.alloc(0) : elsewhere)).toBe(true);
    },
  );
});

describe('the window of gzip', () => {
  const blockBytes = 1 << 20;
  const row = (n: number) =>
    `{"id":${n},"account":${(n * 7919) % 50_000},"amount":${(n * 104_729) % 1_000_000}}\n`;
  const rows = Buffer.from(Array.from({ length: 100_000 }, (_, n) => row(n)).join(''));
  const page = randomBytes(10_000).toString('hex');
  const alike = rows.subarray(0, blockBytes);
  // Each repetition is 20 kB back.
  const pages = Buffer.alloc(blockBytes, page);

  it.each([
    ['is narrow if nothing repeats from afar', alike, 13],
    ['is wide if something does', pages, 15],
  ])('%s, as whole blocks after the first decide', async (_is, block, windowBits) => {
    const deflate = (bits: number) => {
      const options = { level: 5, memLevel: 9, finishFlush: constants.Z_SYNC_FLUSH };
      return promisify(deflateRaw)(block, { ...options, windowBits: bits });
    };
    const packed = await compress('gzip', [block, block, block]);
    const expected = [await deflate(15), await deflate(windowBits), await deflate(windowBits)];
    expect(packed.subarray(10, -10).equals(Buffer.concat(expected))).toBe(true);
  });

  it('is chosen again for later blocks', async () => {
    const packed = await compress('gzip', [
      ...Array.from({ length: 33 }, () => alike),
      ...[pages, pages],
    ]);
    const narrowOnly = await compress(
      'gzip',
      Array.from({ length: 33 }, () => alike),
    );
    // With the narrow window a page costs half of what it has, with the wide one next to nothing.
    expect(packed.length - narrowOnly.length).toBeLessThan(2 * page.length);
    expect(await unpack('gzip', packed)).toHaveLength(35 * blockBytes);
  });
});

describe('ParallelBlocks', () => {
  it('keeps the order if later blocks are done first, and holds at most four', async () => {
    const running: (() => void)[] = [];
    let most = 0;
    const blocks = new ParallelBlocks(async (block) => {
      await new Promise<void>((resolve) => {
        running.push(resolve);
        most = Math.max(most, running.length);
        // The newest first, once four are on their way or none is left to come.
        if (running.length === 4 || block[0] === 9)
          for (const done of running.splice(0).reverse()) done();
      });
      return block;
    });
    const given: Uint8Array[] = [];
    for (let index = 0; index < 10; index += 1) {
      given.push(...(await blocks.write(Buffer.from([index]))));
    }
    given.push(...(await blocks.drain()));
    expect(given.map(([first]) => first)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    expect(most).toBe(4);
  });

  it('reports a block that cannot be compressed when its turn comes', async () => {
    const blocks = new ParallelBlocks(async () => {
      throw new Error('out of memory');
    });
    await blocks.write(Buffer.from([1]));
    await expect(blocks.drain()).rejects.toThrow('out of memory');
  });
});
