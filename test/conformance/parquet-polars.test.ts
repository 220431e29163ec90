import { describe, expect, it, onTestFinished } from 'vitest';
import { parquet } from '../../src/rows/encoders/parquet/definition.ts';
import type { ParquetSizes } from '../../src/rows/encoders/parquet/encode.ts';
import { compressionsOf } from '../support/compressions.ts';
import { encodeParquet, openDuckDb, readMetadata } from '../support/parquet-readers.ts';
import { columns, extremes, plainTexts, rows } from '../support/parquet-rows.ts';
import { parquetCases } from '../support/parquet-schema-cases.ts';
import { polars, readWithPolars } from '../support/polars.ts';
import { rowBlocks, type TestRow } from '../support/row-blocks.ts';

/** Many pages and row groups. */
const small: ParquetSizes = {
  page: { bytes: 4096, rows: 64 },
  groupRawBytes: 60_000,
  groupHeldBytes: 1e9,
  checkpointBytes: 4000,
};

/** Arrow's name of a type that polars reads: its texts, bytes and lists may be large, its times are finer. */
function polarsType(arrow: string): string {
  return arrow
    .replace('Utf8', 'LargeUtf8')
    .replace('Binary', 'LargeBinary')
    .replace('List<', 'LargeList<')
    .replace('Time64<MICROSECOND>', 'Time64<NANOSECOND>');
}

/** Skipped on platforms that polars has no binary for. */
describe.skipIf(polars === null)('polars', () => {
  const read = (file: Buffer) => (polars ? readWithPolars(polars, file) : {});

  function expectRows(file: Buffer, expected: readonly TestRow[]): void {
    const found = read(file);
    for (const [at, { name }] of columns.entries()) {
      expect(found[name]?.values, name).toEqual(expected.map((row) => row[at]));
    }
  }

  describe('of a file', () => {
    it.each(compressionsOf(parquet))('reads each value with compression %s', async (codec) => {
      const blocks = rowBlocks(columns, rows.slice(0, 1200), 97);
      const file = await encodeParquet(columns, codec, blocks, small);
      expect(readMetadata(file).row_groups.length).toBeGreaterThan(2);
      expectRows(file, plainTexts(columns, rows.slice(0, 1200)));
    });

    it('reads the extremes of every type', async () => {
      const file = await encodeParquet(columns, 'snappy', rowBlocks(columns, extremes, 3));
      expectRows(file, plainTexts(columns, extremes));
    });
  });

  describe('of a file', () => {
    it.each(parquetCases)('reads $source as its type', async ({ source, arrow, json, values }) => {
      const of = [{ name: 'v', type: 'as_json' as const, sourceType: source }];
      const blocks = rowBlocks(
        of,
        json.map((value) => [value]),
        100,
      );
      const file = await encodeParquet(of, 'zstd', blocks);
      const { v } = read(file);
      expect(v?.values).toEqual(values);
      expect(v?.type).toBe(polarsType(arrow));
    });
  });
});

/** Why Sluice writes text: what polars makes of the types UUID and JSON of another writer. */
describe.skipIf(polars === null)('polars', () => {
  it('reads both as bare bytes', async () => {
    const id = '0190c1d2-0000-7000-8000-000000000001';
    const duckDb = await openDuckDb();
    onTestFinished(() => duckDb.close());
    const json = '{"n": 9007199254740993}';
    const file = await duckDb.write(`select '${id}'::uuid as u, '${json}'::json as j`);
    const { u, j } = polars ? readWithPolars(polars, file) : {};
    expect(u?.values).toEqual([Buffer.from(id.replaceAll('-', ''), 'hex')]);
    expect(j?.values).toEqual([Buffer.from(json)]);
  });
});
