import { Readable } from 'node:stream';
import { expect, test } from 'vitest';
import { type BodyErrors, collectBody } from '../../../src/rows/destinations/s3/collect-body.ts';

const errors: BodyErrors = {
  tooLong: () => new Error('too long'),
  cutOff: (cause, bytes) => new Error(`${bytes} bytes, then ${(cause as Error).message}`),
};
const streamOf = (...chunks: readonly string[]) => Readable.from(chunks.map((c) => Buffer.from(c)));

test.each([
  ['', []],
  ['abc', ['a', 'b', 'c']],
  ['x'.repeat(9_001), ['x'.repeat(5_000), 'x', 'x'.repeat(4_000)]],
])('a body is the sum of its pieces', async (whole, chunks) => {
  expect((await collectBody(streamOf(...chunks), 10_000, errors)).toString()).toBe(whole);
});

test('a body that comes byte by byte is joined in few buffers', async () => {
  const body = Readable.from(Array.from({ length: 50_000 }, () => Buffer.from('x')));
  const joined = await collectBody(body, 50_000, errors);
  expect(joined.toString()).toBe('x'.repeat(50_000));
  expect(joined.buffer.byteLength).toBeLessThanOrEqual(2 * 50_000);
});

test('a body may have exactly the limit, and its stream ends if it has more', async () => {
  expect(await collectBody(streamOf('ab', 'c'), 3, errors)).toHaveLength(3);
  const body = streamOf('ab', 'cd');
  await expect(collectBody(body, 3, errors)).rejects.toThrow('too long');
  expect(body.destroyed).toBe(true);
});

test('a body that breaks off says after how many bytes', async () => {
  const body = Readable.from(
    (async function* () {
      yield Buffer.from('abc');
      throw new Error('a reset');
    })(),
  );
  await expect(collectBody(body, 10, errors)).rejects.toThrow('3 bytes, then a reset');
});
