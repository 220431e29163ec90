import { createHash, randomBytes } from 'node:crypto';
import { expect, it } from 'vitest';
import type { FileWriter } from '../../../src/rows/destinations/destination.ts';
import { HashedFile } from '../../../src/rows/pipeline/file-set.ts';
import { countLoopTurns } from '../../support/loop-turns.ts';

const mebibyte = 1024 ** 2;

function openFile() {
  const written: Uint8Array[] = [];
  const writer: FileWriter = {
    upload: { key: 'a', uploadId: '1' },
    write: async (bytes) => void written.push(bytes),
    flush: async () => {},
    complete: async () => ({ etag: '' }),
    abort: async () => {},
  };
  return { file: new HashedFile('a', 1, writer), written };
}

it('counts and hashes what it passes on, in the same order', async () => {
  const chunks = [3 * mebibyte + 1, 0, 17, mebibyte, 2 * mebibyte].map((size) => randomBytes(size));
  const { file, written } = openFile();
  await file.write(chunks.slice(0, 2), 5);
  await file.write(chunks.slice(2), 7);
  const bytes = Buffer.concat(chunks);
  expect(Buffer.concat(written).equals(bytes)).toBe(true);
  expect(file.entry()).toEqual({
    key: 'a',
    generation: 1,
    rows: 12,
    bytes: bytes.length,
    sha256: createHash('sha256').update(bytes).digest('hex'),
  });
});

it.each([
  ['one chunk', [16 * mebibyte]],
  ['many', Array.from({ length: 64 }, () => mebibyte / 4)],
])('lets others have their turn after each MiB: 16 MiB as %s', async (_, sizes) => {
  const { file } = openFile();
  const chunks = sizes.map((size) => Buffer.alloc(size));
  const loop = countLoopTurns();
  await file.write(chunks, 1);
  loop.stop();
  expect(loop.turns()).toBeGreaterThanOrEqual(15);
});
