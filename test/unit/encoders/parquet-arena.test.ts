import { randomBytes } from 'node:crypto';
import { expect, it } from 'vitest';
import { openParquet, type ParquetSizes } from '../../../src/rows/encoders/parquet/encode.ts';
import { columnsOf, rowBlocks } from '../../support/row-blocks.ts';

const columns = columnsOf({ id: 'int8', body: 'bytea' });
const rowsPerGroup = 64;
const groups = 4;
const pageBytes = 64 * 1024;
const sizes: ParquetSizes = {
  page: { bytes: pageBytes, rows: 1_000 },
  groupRawBytes: 2 ** 30,
  groupHeldBytes: 2 ** 30,
  groupRows: rowsPerGroup,
  checkpointBytes: 2 ** 30,
};
/** A group has about 4 MiB, of 64 KiB a row. */
const blocks = rowBlocks(
  columns,
  Array.from({ length: rowsPerGroup * groups }, (_, n) => [BigInt(n), randomBytes(pageBytes)]),
  16,
);

/** The file, and the memory that its pages were in. */
async function encode(releases: boolean) {
  const encoder = openParquet(columns, null, sizes);
  const copies: Buffer[] = [];
  const memory = new Set<ArrayBufferLike>();
  const take = (chunks: readonly Uint8Array[]) => {
    for (const chunk of chunks) {
      copies.push(Buffer.from(chunk));
      const isPage = chunk.length >= pageBytes;
      if (isPage) memory.add(chunk.buffer);
      // What was taken may be written over at any time.
      if (isPage && releases) chunk.fill(0xff);
    }
    if (releases) encoder.release?.();
  };
  for (const block of blocks) take(await encoder.write(block));
  take(await encoder.finish());
  return { file: Buffer.concat(copies), memory };
}

it('row groups have the memory of those that were taken, and their own bytes', async () => {
  const taken = await encode(true);
  const kept = await encode(false);
  expect(taken.file.equals(kept.file)).toBe(true);
  // That of one group, and the first slabs, which are small.
  expect(taken.memory.size * 2).toBeLessThan(kept.memory.size);
});
