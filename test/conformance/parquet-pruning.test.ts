import { describe, expect, it } from 'vitest';
import type { Column } from '../../src/foundation/domain/row-block.ts';
import type { ParquetSizes } from '../../src/rows/encoders/parquet/encode.ts';
import { encodeParquet, readMetadata } from '../support/parquet-readers.ts';
import { columnsOf, rowBlocks, type TestRow } from '../support/row-blocks.ts';

const sizes: ParquetSizes = {
  page: { bytes: 1e6, rows: 100 },
  groupRawBytes: 1e9,
  groupHeldBytes: 1e9,
  groupRows: 1000,
  checkpointBytes: 1000,
};

const encode = (columns: readonly Column[], rows: readonly TestRow[]) =>
  encodeParquet(columns, null, rowBlocks(columns, rows, 333), sizes);

describe('a row group', () => {
  const of = columnsOf({ n: 'int4', made: 'timestamptz', at: 'timestamptz' });
  const sortedBy = (file: Buffer) =>
    readMetadata(file).row_groups.map((group) => group.sorting_columns);

  it('names the column of times whose order its rows have', async () => {
    const rows = Array.from(
      { length: 2000 },
      (_, n): TestRow => [n, BigInt((n * 7919) % 1000), BigInt(n >> 2)],
    );
    const byTime = [{ column_idx: 2, descending: false, nulls_first: false }];
    expect(sortedBy(await encode(of, rows))).toEqual([byTime, byTime]);
  });

  it.each([
    ['goes back within a page', (n: number) => BigInt(n === 150 ? 0 : n)],
    ['goes back between pages', (n: number) => BigInt(n < 100 ? n + 1000 : n)],
    ['has a null', (n: number) => (n === 150 ? null : BigInt(n))],
  ])('names none that %s', async (_name, timeOf) => {
    const rows = Array.from({ length: 900 }, (_, n): TestRow => [n, null, timeOf(n)]);
    expect(sortedBy(await encode(of, rows))).toEqual([undefined]);
  });
});

it('a file names in its metadata whose rows it has, and nothing of the run', async () => {
  const columns = columnsOf({ id: 'int8' });
  const interval = { start: 1_709_251_200_000, end: 1_709_254_800_000 };
  const blocks = rowBlocks(columns, [[1n]], 1);
  const origin = { exportId: 'an-export', interval };
  const file = await encodeParquet(columns, 'zstd', blocks, sizes, { origin });
  expect(readMetadata(file).key_value_metadata).toEqual([
    { key: 'sluice.writer', value: 'sluice version 1.0.0' },
    { key: 'sluice.postgres_types', value: '[{"name":"id","type":"int8"}]' },
    { key: 'sluice.export', value: 'an-export' },
    { key: 'sluice.interval_start', value: '2024-03-01T00:00:00.000000Z' },
    { key: 'sluice.interval_end', value: '2024-03-01T01:00:00.000000Z' },
  ]);
});
