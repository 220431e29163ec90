import { createHash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Column } from '../../src/foundation/domain/row-block.ts';
import { openParquet, type ParquetSizes } from '../../src/rows/encoders/parquet/encode.ts';
import {
  type DuckDb,
  encodeAll,
  openDuckDb,
  readMetadata,
  readWithArrow,
  readWithHyparquet,
} from '../support/parquet-readers.ts';
import { columnsOf, rowBlocks, type TestRow } from '../support/row-blocks.ts';

const sizes: ParquetSizes = {
  page: { bytes: 1e6, rows: 300 },
  groupRawBytes: 1e9,
  groupHeldBytes: 1e9,
  groupRows: 1000,
  checkpointBytes: 1000,
};
const interval = { start: 1_709_251_200_000, end: 1_709_254_800_000 };

let duckDb: DuckDb;
beforeAll(async () => {
  duckDb = await openDuckDb();
});
afterAll(() => duckDb.close());

const encode = (columns: readonly Column[], rows: readonly TestRow[]) => {
  const origin = { exportId: 'an-export', interval };
  const encoder = openParquet(columns, 'zstd', sizes, { origin });
  return encodeAll(encoder, rowBlocks(columns, rows, 333));
};

describe('a data page of version 2', () => {
  it('stays as it is if compression saves nothing, and is read back', async () => {
    const columns = columnsOf({ noise: 'bytea', zeros: 'bytea', none: 'text' });
    const rows = Array.from({ length: 500 }, (_, n): TestRow => {
      const noise = createHash('sha512').update(String(n)).digest();
      return [n % 7 === 0 ? null : noise, Buffer.alloc(64), null];
    });
    const file = await encode(columns, rows);
    const [noise, zeros] = readMetadata(file).row_groups[0]?.columns ?? [];
    const sizeOf = (chunk: typeof noise) => Number(chunk?.meta_data?.total_compressed_size);
    expect(sizeOf(noise)).toBeLessThanOrEqual(
      Number(noise?.meta_data?.total_uncompressed_size ?? 0n),
    );
    expect(sizeOf(zeros)).toBeLessThan(1000);
    expect(await readWithHyparquet(file, columns)).toEqual(rows);
    expect(await duckDb.query(file)).toEqual(rows);
    const nulls = readWithArrow(file).none?.values;
    expect(nulls).toEqual(rows.map(() => null));
  });

  it('names in its metadata whose rows it has, and nothing of the run', async () => {
    const columns = columnsOf({ id: 'int8' });
    const file = await encode(columns, [[1n]]);
    expect(readMetadata(file).key_value_metadata).toEqual([
      { key: 'sluice.writer', value: 'sluice version 1.0.0' },
      { key: 'sluice.postgres_types', value: '[{"name":"id","type":"int8"}]' },
      { key: 'sluice.export', value: 'an-export' },
      { key: 'sluice.interval_start', value: '2024-03-01T00:00:00.000000Z' },
      { key: 'sluice.interval_end', value: '2024-03-01T01:00:00.000000Z' },
    ]);
  });
});
