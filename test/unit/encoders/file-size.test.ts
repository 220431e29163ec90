import { createHash } from 'node:crypto';
import { expect, it } from 'vitest';
import type { RowBlock } from '../../../src/foundation/domain/row-block.ts';
import { csv } from '../../../src/rows/encoders/csv/definition.ts';
import type { EncoderDefinition } from '../../../src/rows/encoders/encoder.ts';
import { jsonLines, openEncoder } from '../../../src/rows/encoders/index.ts';
import { parquet } from '../../../src/rows/encoders/parquet/definition.ts';
import { mainCompressionsOf } from '../../support/compressions.ts';
import { columnsOf, rowBlocks, type TestRow } from '../../support/row-blocks.ts';

const mebibyte = 1024 ** 2;
const origin = { exportId: 'an-export', interval: { start: 0, end: 1 } };
const columns = columnsOf({ id: 'int8', day: 'timestamp', who: 'text', data: 'text' });
const digest = (index: number, length: number) =>
  createHash('shake256', { outputLength: length }).update(`${index}`).digest('base64');

/** Rows that compress well, then hardly, then well again; some are large. */
const rows: TestRow[] = Array.from({ length: 24_000 }, (_, index) => [
  BigInt(index),
  BigInt(index) * 1_000_000n,
  index % 9 === 0 ? null : `user ${index % 500}`,
  index % 4000 === 7
    ? digest(index, 40_000)
    : index > 8_000 && index < 12_000
      ? digest(index, 400)
      : `${'the same words again '.repeat(12)}${digest(index, 60)}`,
]);

interface Made {
  readonly files: readonly Buffer[];
  /** Rows of each. */
  readonly rows: readonly number[];
  readonly rejected: readonly number[];
}

/** The files of the blocks, none larger than the maximum. */
async function split(
  definition: EncoderDefinition,
  compression: string | null,
  blocks: readonly RowBlock[],
  maxBytes: number,
): Promise<Made> {
  const columns = blocks[0]?.columns ?? [];
  const made = { files: [] as Buffer[], rows: [] as number[], rejected: [] as number[] };
  const begin = () => openEncoder(definition, compression, columns, { maxBytes, origin });
  let encoder = begin();
  let chunks: Uint8Array[] = [];
  let taken = 0;
  let rejected = 0;
  const end = async () => {
    chunks.push(...(await encoder.finish()));
    made.files.push(Buffer.concat(chunks));
    made.rows.push(taken);
    made.rejected.push(rejected);
    [encoder, chunks, taken, rejected] = [begin(), [], 0, 0];
  };
  for (const block of blocks) {
    let rest = block;
    while (rest.rowCount > 0) {
      chunks.push(...(await encoder.write(rest)));
      const count = encoder.taken ?? rest.rowCount;
      taken += count;
      rejected += encoder.rejected?.length ?? 0;
      if (count === rest.rowCount) break;
      await end();
      const from = count * columns.length;
      rest = {
        ...rest,
        rowCount: rest.rowCount - count,
        offsets: rest.offsets.subarray(from),
        lengths: rest.lengths.subarray(from),
      };
    }
  }
  if (taken > 0) await end();
  return made;
}

const cases = [jsonLines, csv, parquet].flatMap((definition) =>
  mainCompressionsOf(definition).map((compression) => ({
    format: definition.format,
    compression,
    definition,
  })),
);

it.each(cases)('$format $compression: are within a tenth of the limit', async (chosen) => {
  const { definition, compression } = chosen;
  const { files, rows: counts } = await split(
    definition,
    compression,
    rowBlocks(columns, rows, 1000),
    mebibyte,
  );
  expect(files.length).toBeGreaterThan(2);
  for (const file of files.slice(0, -1)) {
    expect(file.length).toBeLessThanOrEqual(mebibyte);
    expect(file.length).toBeGreaterThanOrEqual(0.9 * mebibyte);
  }
  expect(files.at(-1)?.length).toBeLessThanOrEqual(mebibyte);
  expect(counts.reduce((sum, count) => sum + count, 0)).toBe(rows.length);
});

it.each(cases)('$format $compression: are the same however the rows come', async (chosen) => {
  const { definition, compression } = chosen;
  const few = rows.slice(6_000, 12_000);
  const whole = await split(definition, compression, rowBlocks(columns, few, 6_000), mebibyte);
  const cut = await split(definition, compression, rowBlocks(columns, few, 77), mebibyte);
  expect(whole.files.length).toBeGreaterThan(1);
  expect(cut.rows).toEqual(whole.rows);
  expect(cut.files.every((file, at) => file.equals(whole.files[at] as Buffer))).toBe(true);
});

it('count each rejected row in one file, the same however the rows come', async () => {
  const some = rows.slice(7_000, 12_000);
  const mixed = some.map((row, at): TestRow => (at % 3 !== 0 ? [0n, 'infinity', 'x', 'y'] : row));
  const made: Made[] = [];
  for (const size of [5_000, 64, 1]) {
    made.push(await split(parquet, null, rowBlocks(columns, mixed, size), mebibyte / 8));
  }
  expect(made[0]?.rows.length).toBeGreaterThan(1);
  expect(made[0]?.rejected.reduce((sum, count) => sum + count, 0)).toBe(3333);
  for (const other of made) {
    expect([other.rows, other.rejected]).toEqual([made[0]?.rows, made[0]?.rejected]);
  }
});

it.each([jsonLines, csv, parquet])('take a row that is larger: %s', async (definition) => {
  const large = [0, 1, 2, 3].map((id): TestRow => [BigInt(id), 0n, 'x', 'y'.repeat(mebibyte)]);
  const made = await split(definition, null, rowBlocks(columns, large, 2), mebibyte);
  expect(made.rows).toEqual([1, 1, 1, 1]);
});
