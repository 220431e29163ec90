import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Column, ColumnType } from '../../src/domain/row-block.ts';
import { parquet } from '../../src/encoders/parquet/definition.ts';
import { compressionsOf } from '../support/compressions.ts';
import {
  type DuckDb,
  encodeParquet,
  openDuckDb,
  readWithHyparquet,
} from '../support/parquet-readers.ts';
import { rowBlocks, type TestRow, type TestValue } from '../support/row-blocks.ts';

const text = fc.oneof(
  fc.constantFrom('', 'a', '$pageview', 'long '.repeat(40)),
  // PostgreSQL's text holds no NUL; lone surrogates have no UTF-8.
  fc.string({ unit: 'grapheme', maxLength: 90 }).map((each) => each.replaceAll('\u0000', '')),
);
const json = fc.jsonValue({ maxDepth: 2 }).map((value) => JSON.stringify(value));
const micros = fc.bigInt({ min: -210_866_803_200_000_000n, max: 2n ** 63n - 1n });
const int32 = fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 });

const values: Record<ColumnType, fc.Arbitrary<TestValue>> = {
  bool: fc.boolean(),
  int2: fc.integer({ min: -32_768, max: 32_767 }),
  int4: int32,
  int8: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
  float4: fc.float(),
  float8: fc.double(),
  text,
  uuid: fc.uuid(),
  json,
  jsonb: json,
  as_json: json,
  date: fc.integer({ min: -2_440_588, max: 2_145_042_905 }),
  timestamp: micros,
  timestamptz: micros,
  bytea: fc.uint8Array({ maxLength: 40 }).map((bytes) => Buffer.from(bytes)),
};
const types = Object.keys(values) as ColumnType[];

const table = fc.array(fc.constantFrom(...types), { minLength: 1, maxLength: 6 }).chain((list) =>
  fc.record({
    columns: fc.constant(
      list.map((type, index): Column => ({ name: `${type}_${index}`, type, sourceType: type })),
    ),
    // A few rows repeated in any order: short runs, long runs and few values all come up.
    pool: fc.array(fc.tuple(...list.map((type) => fc.option(values[type], { freq: 4 }))), {
      minLength: 1,
      maxLength: 30,
    }),
    picks: fc.array(fc.nat(), { maxLength: 400 }),
    compression: fc.constantFrom(...compressionsOf(parquet)),
    pageRows: fc.integer({ min: 1, max: 150 }),
    pageBytes: fc.integer({ min: 1, max: 4000 }),
    groupRawBytes: fc.integer({ min: 300, max: 20_000 }),
    blockRows: fc.integer({ min: 1, max: 100 }),
  }),
);

let duckDb: DuckDb;
beforeAll(async () => {
  duckDb = await openDuckDb();
});
afterAll(() => duckDb.close());

describe('any table', () => {
  it('is read back by DuckDB and hyparquet as it was written', async () => {
    await fc.assert(
      fc.asyncProperty(table, async (made) => {
        const rows: TestRow[] = made.picks.map((pick) => made.pool[pick % made.pool.length] ?? []);
        const blocks = rowBlocks(made.columns, rows, made.blockRows);
        const file = await encodeParquet(made.columns, made.compression, blocks, {
          page: { bytes: made.pageBytes, rows: made.pageRows },
          groupRawBytes: made.groupRawBytes,
          groupHeldBytes: 10_000,
          checkpointBytes: 300,
        });
        expect(await duckDb.query(file)).toEqual(rows);
        expect(await readWithHyparquet(file, made.columns)).toEqual(rows);
      }),
      { numRuns: 60, interruptAfterTimeLimit: 40_000 },
    );
  });
});
