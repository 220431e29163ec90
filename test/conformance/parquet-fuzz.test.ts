import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { Column, ColumnType } from '../../src/foundation/domain/row-block.ts';
import { parquet } from '../../src/rows/encoders/parquet/definition.ts';
import { compressionsOf } from '../support/compressions.ts';
import {
  decimalText,
  encodeParquet,
  openDuckDb,
  readWithArrow,
  readWithHyparquet,
} from '../support/parquet-readers.ts';
import { rowBlocks, type TestRow, type TestValue } from '../support/row-blocks.ts';
import { useStage } from '../support/use-stage.ts';

const text = fc.oneof(
  fc.constantFrom('', 'a', '$pageview', 'long '.repeat(40)),
  // PostgreSQL's text holds no NUL; lone surrogates have no UTF-8.
  fc.string({ unit: 'grapheme', maxLength: 90 }).map((each) => each.replaceAll('\u0000', '')),
);
const json = fc.jsonValue({ maxDepth: 2 }).map((value) => JSON.stringify(value));
const micros = fc.bigInt({ min: -210_866_803_200_000_000n, max: 2n ** 63n - 1n });
const int32 = fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 });

/** Numerics have types with limits, so they are below. */
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

const duckDb = useStage(openDuckDb);

const decimal = (precision: number, scale: number): fc.Arbitrary<string> => {
  const most = 10n ** BigInt(precision) - 1n;
  return fc.bigInt({ min: -most, max: most }).map((unscaled) => decimalText(unscaled, scale));
};
const list = (item: fc.Arbitrary<string>) =>
  fc
    .array(fc.option(item, { freq: 4, nil: 'null' }), { maxLength: 12 })
    .map((items) => `[${items.join(',')}]`);
const jsonText = text.map((value) => JSON.stringify(value));
const clock = fc
  .integer({ min: 0, max: 86_399 })
  .map((second) => `"${new Date(second * 1000).toISOString().slice(11, 19)}"`);

/** JSON of a type's values, and the value that DuckDB has for it. */
const jsonTypes: Record<string, [fc.Arbitrary<string>, (json: string) => unknown]> = {
  'numeric(7,3)': [decimal(7, 3), (json) => json],
  'numeric(18,9)': [decimal(18, 9), (json) => json],
  'numeric(38,11)': [decimal(38, 11), (json) => json],
  numeric: [decimal(30, 4), (json) => json],
  'time without time zone': [
    clock,
    (json) => BigInt(Date.parse(`1970-01-01T${JSON.parse(json)}Z`)) * 1000n,
  ],
  'shop.mood': [jsonText, (json) => JSON.parse(json)],
  'integer[]': [list(int32.map(String)), (json) => JSON.parse(json)],
  'text[]': [list(jsonText), (json) => JSON.parse(json)],
  'boolean[]': [list(fc.boolean().map(String)), (json) => JSON.parse(json)],
  'numeric(25,4)[]': [
    list(decimal(25, 4)),
    (json) =>
      json
        .slice(1, -1)
        .split(',')
        .filter(Boolean)
        .map((item) => (item === 'null' ? null : item)),
  ],
};

const jsonTable = fc
  .array(fc.constantFrom(...Object.keys(jsonTypes)), { minLength: 1, maxLength: 4 })
  .chain((list) =>
    fc.record({
      columns: fc.constant(
        list.map(
          (sourceType, index): Column => ({ name: `c${index}`, type: 'as_json', sourceType }),
        ),
      ),
      rows: fc.array(
        fc.tuple(
          ...list.map((name) => fc.option(jsonTypes[name]?.[0] ?? fc.constant(''), { freq: 4 })),
        ),
        { maxLength: 300 },
      ),
      pageRows: fc.integer({ min: 1, max: 150 }),
      pageBytes: fc.integer({ min: 1, max: 4000 }),
      groupRawBytes: fc.integer({ min: 300, max: 20_000 }),
      blockRows: fc.integer({ min: 1, max: 100 }),
    }),
  );

it('of types that come as JSON is read back as it was written', async () => {
  await fc.assert(
    fc.asyncProperty(jsonTable, async ({ columns, rows, ...made }) => {
      const sizes = {
        page: { bytes: made.pageBytes, rows: made.pageRows },
        groupRawBytes: made.groupRawBytes,
        groupHeldBytes: 10_000,
        checkpointBytes: 300,
      };
      const write = (blockRows: number) =>
        encodeParquet(columns, 'snappy', rowBlocks(columns, rows, blockRows), sizes);
      const file = await write(made.blockRows);
      const expected = rows.map((row) =>
        row.map((json, at) =>
          json === null ? null : jsonTypes[columns[at]?.sourceType ?? '']?.[1](json),
        ),
      );
      expect(await duckDb.query(file)).toEqual(expected);
      expect((await write(made.blockRows + 7)).equals(file)).toBe(true);
      const found = readWithArrow(file);
      const strings = (value: unknown) => String(Array.isArray(value) ? value.map(String) : value);
      columns.forEach(({ name }, at) => {
        expect(found[name]?.values.map(strings)).toEqual(expected.map((row) => strings(row[at])));
      });
    }),
    { numRuns: 60, interruptAfterTimeLimit: 40_000 },
  );
});

/** Rows as readers find them: a JSON string of another type than json is plain text. */
const plainTexts = (of: readonly Column[], rows: readonly TestRow[]): TestRow[] =>
  rows.map((row) =>
    row.map((value, at) =>
      of[at]?.type === 'as_json' && typeof value === 'string' && value.startsWith('"')
        ? String(JSON.parse(value))
        : value,
    ),
  );

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
      const expected = plainTexts(made.columns, rows);
      expect(await duckDb.query(file)).toEqual(expected);
      expect(await readWithHyparquet(file, made.columns)).toEqual(expected);
    }),
    { numRuns: 60, interruptAfterTimeLimit: 40_000 },
  );
});
