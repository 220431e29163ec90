import { describe, expect, it } from 'vitest';
import { openParquet } from '../../../src/rows/encoders/parquet/encode.ts';
import { encodeAll, readWithHyparquet } from '../../support/parquet-readers.ts';
import { columnsOf, rowBlock, type TestRow } from '../../support/row-blocks.ts';

const columns = columnsOf({ id: 'int4', day: 'date', at: 'timestamptz', local: 'timestamp' });
const last = 2n ** 63n - 1n;
const good: TestRow = [1, 0, last, -210_866_803_200_000_000n];

describe('values that no Parquet type holds', () => {
  it.each<[string, TestRow, number, RegExp]>([
    ['an infinite date', [2, 'infinity', 0n, 0n], 1, /^infinity/],
    ['a date before all', [2, '-infinity', 0n, 0n], 1, /^-infinity/],
    ['an infinite time', [2, 0, 'infinity', 0n], 2, /^infinity/],
    ['a time before all', [2, 0, 0n, '-infinity'], 3, /^-infinity/],
    ['a time beyond int64', [2, 0, last + 1n, 0n], 2, /^later than 294247-01-10T04/],
    ['the last time of PostgreSQL', [2, 0, 9_224_318_015_999_999_999n, 0n], 2, /^later/],
  ])('%s is rejected by name, its row left out', async (_, bad, column, reason) => {
    const encoder = openParquet(columns, null);
    const parts = [...(await encoder.write(rowBlock(columns, [good, bad, good, bad])))];
    expect(encoder.rejected).toEqual([
      { row: 1, column, reason: expect.stringMatching(reason) },
      { row: 3, column, reason: expect.stringMatching(reason) },
    ]);
    parts.push(...(await encoder.write(rowBlock(columns, [good]))));
    expect(encoder.rejected).toEqual([]);
    parts.push(...(await encoder.finish()));
    expect(await readWithHyparquet(Buffer.concat(parts), columns)).toEqual([good, good, good]);
  });

  it('are reported once a row, for its first column, by rising row', async () => {
    const encoder = openParquet(columns, null);
    const rows: TestRow[] = [
      [1, 0, 0n, 'infinity'],
      [2, 'infinity', 'infinity', 'infinity'],
      [3, null, null, null],
    ];
    await encoder.write(rowBlock(columns, rows));
    expect(encoder.rejected?.map(({ row, column }) => [row, column])).toEqual([
      [0, 3],
      [1, 1],
    ]);
  });

  it('leave a valid file behind if no row is left', async () => {
    const encoder = openParquet(columns, 'snappy');
    const file = await encodeAll(encoder, [rowBlock(columns, [[1, 'infinity', null, null]])]);
    expect(await readWithHyparquet(file, columns)).toEqual([]);
  });
});
