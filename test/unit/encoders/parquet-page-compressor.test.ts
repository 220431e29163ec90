import { expect, it } from 'vitest';
import { PageCompressor } from '../../../src/encoders/parquet/page-compressor.ts';

const kibibyte = 1024;

/** @returns how many pages were done when the last of them was taken */
async function submitPages(count: number, bytes: number): Promise<number> {
  // zlib answers in a later turn of the event loop, so a page that is taken at once finds all others open.
  const compressor = new PageCompressor('gzip');
  await compressor.codecId;
  let done = 0;
  const pending = [];
  for (let page = 0; page < count; page++) {
    const { done: compressed } = await compressor.submit({
      values: 1,
      rows: 1,
      nulls: 0,
      bounds: undefined,
      encoding: 0,
      body: Buffer.alloc(bytes, page),
      release: () => {
        done++;
      },
    });
    pending.push(compressed);
  }
  const before = done;
  await Promise.all(pending);
  expect(done).toBe(count);
  return before;
}

it.each([
  { count: 4, bytes: 8192 * kibibyte, waits: 0 },
  { count: 6, bytes: 1024 * kibibyte, waits: 0 },
  { count: 60, bytes: 100 * kibibyte, waits: 0 },
])('takes $count pages of $bytes bytes at once', async ({ count, bytes, waits }) => {
  expect(await submitPages(count, bytes)).toBe(waits);
});

it.each([
  { count: 5, bytes: 8192 * kibibyte, waits: 1 },
  { count: 9, bytes: 1024 * kibibyte, waits: 3 },
  { count: 80, bytes: 100 * kibibyte, waits: 19 },
])('of $count pages of $bytes bytes some wait for others', async ({ count, bytes, waits }) => {
  expect(await submitPages(count, bytes)).toBeGreaterThanOrEqual(waits);
});
