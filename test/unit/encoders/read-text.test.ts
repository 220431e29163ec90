import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import { compress } from '@mongodb-js/zstd';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { streamCodecOf } from '../../../src/rows/encoders/codecs/stream-compressions.ts';
import { splitRecords } from '../../../src/rows/encoders/text/split-records.ts';
import { folderOfTests } from '../../support/own-folder.ts';

const folder = folderOfTests();

async function readBack(bytes: Buffer, compression: string | null): Promise<Buffer> {
  const path = join(folder, 'file');
  await writeFile(path, bytes);
  const chunks: Buffer[] = [];
  for await (const chunk of streamCodecOf(compression).read(path)) chunks.push(chunk);
  return Buffer.concat(chunks);
}

/** More than a piece, and more than a zstd block. */
const large = Buffer.from(Array.from({ length: 400_000 }, (_, n) => `${n * 7_919}\n`).join(''));
const small = Buffer.from('one\ntwo\n');
const whole = Buffer.concat([large, small]);
const skippable = Buffer.from([0x5a, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3]);

describe('the text of a file', () => {
  it.each([
    ['not compressed', null, async () => whole],
    [
      'gzip, in two members',
      'gzip',
      async () => Buffer.concat([large, small].map((part) => gzipSync(part))),
    ],
    ['brotli', 'brotli', async () => brotliCompressSync(whole, { params: { 1: 1 } })],
    [
      'zstd, in two frames',
      'zstd',
      async () => Buffer.concat([await compress(large), await compress(small)]),
    ],
    [
      'zstd, with a skippable frame',
      'zstd',
      async () => Buffer.concat([skippable, await compress(whole)]),
    ],
    [
      'zstd, with a frame of no bytes',
      'zstd',
      async () => Buffer.concat([await compress(Buffer.alloc(0)), await compress(whole)]),
    ],
  ] as const)('%s', async (_, compression, make) => {
    expect((await readBack(await make(), compression)).equals(whole)).toBe(true);
  });

  it('takes a long run of one byte, which zstd keeps as such', async () => {
    const zeros = Buffer.alloc(1_000_000);
    expect((await readBack(await compress(zeros), 'zstd')).equals(zeros)).toBe(true);
  });

  it.each(['gzip', 'brotli', 'zstd'])('fails if %s breaks off', async (compression) => {
    const all = {
      gzip: gzipSync(small),
      brotli: brotliCompressSync(small),
      zstd: await compress(small),
    };
    const bytes = all[compression as keyof typeof all];
    await expect(readBack(bytes.subarray(0, -2), compression)).rejects.toThrow();
  });

  it('fails if it is not zstd', async () => {
    await expect(readBack(whole, 'zstd')).rejects.toThrow('no zstd frame begins at byte 0');
  });
});

describe('records', () => {
  async function split(chunks: readonly Buffer[], quoted: boolean): Promise<string[]> {
    async function* pieces() {
      yield* chunks;
    }
    const found: string[] = [];
    for await (const record of splitRecords(pieces(), quoted)) found.push(record.toString());
    return found;
  }

  it('are the same however the text comes in pieces', async () => {
    const plain = fc.stringMatching(/^[a-z,]{0,5}$/);
    const quotes = fc
      .stringMatching(/^[a\n,"]{0,6}$/)
      .map((text) => `"${text.replaceAll('"', '""')}"`);
    const records = fc.array(
      fc.oneof(plain, quotes).map((text) => `${text}\n`),
      { maxLength: 8 },
    );
    await fc.assert(
      fc.asyncProperty(records, fc.array(fc.nat(60), { maxLength: 6 }), async (expected, ends) => {
        const bytes = Buffer.from(expected.join(''));
        const places = [
          0,
          ...ends.filter((at) => at < bytes.length).sort((a, b) => a - b),
          bytes.length,
        ];
        const chunks = places.slice(1).map((end, index) => bytes.subarray(places[index], end));
        expect(await split(chunks, true)).toEqual(expected);
      }),
    );
  });

  it('end at every line break outside quotes, and the last may have none', async () => {
    expect(await split([Buffer.from('a"\n"b')], false)).toEqual(['a"\n', '"b']);
  });
});
