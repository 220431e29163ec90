import { describe, expect, it } from 'vitest';
import type { ColumnType } from '../../src/foundation/domain/row-block.ts';
import { parquet } from '../../src/rows/encoders/parquet/definition.ts';
import { openParquet, type ParquetSizes } from '../../src/rows/encoders/parquet/encode.ts';
import {
  encodeAll,
  encodeParquet,
  openDuckDb,
  readMetadata,
  readWithArrow,
  readWithHyparquet,
} from '../support/parquet-readers.ts';
import { parquetCases as cases } from '../support/parquet-schema-cases.ts';
import {
  columnsOf,
  rowBlock,
  rowBlocks,
  type TestRow,
  type TestValue,
} from '../support/row-blocks.ts';
import { useStage } from '../support/use-stage.ts';

const column = (sourceType: string) => [{ name: 'v', type: 'as_json' as const, sourceType }];

const duckDb = useStage(openDuckDb);

const encodeAs = (source: string, rows: readonly TestRow[], sizes?: ParquetSizes) =>
  encodeParquet(column(source), 'snappy', rowBlocks(column(source), rows, 100), sizes);

/** Bytes of any class as Buffers, also within lists. */
function comparable(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(comparable);
  return value instanceof Uint8Array ? Buffer.from(value) : value;
}

describe('a file', () => {
  describe.each(cases)('of $source', (each) => {
    const { source, json, values, inHyparquet = values, inArrow = values } = each;
    const rows = json.map((value): TestRow => [value]);

    it('has its type and its values in every reader', async () => {
      const file = await encodeAs(source, rows);
      expect(await duckDb.types(file)).toEqual([`v ${each.duckDb}`]);
      expect((await duckDb.query(file)).map(([value]) => comparable(value))).toEqual(values);
      const found = readWithArrow(file).v;
      expect(found?.type).toBe(each.arrow);
      expect(found?.values.map(comparable)).toEqual(inArrow);
      const read = await readWithHyparquet(file, column(source));
      expect(read.map(([value]) => comparable(value))).toEqual(inHyparquet);
    });

    it('has them over many pages and row groups, whatever the blocks', async () => {
      const many = Array.from({ length: 500 }, (_, index) => rows[index % rows.length] ?? []);
      const sizes = {
        page: { bytes: 200, rows: 30 },
        groupRawBytes: 700,
        groupHeldBytes: 1e9,
        checkpointBytes: 100,
      };
      const file = await encodeAs(source, many, sizes);
      expect(readMetadata(file).row_groups.length).toBeGreaterThan(1);
      const expected = many.map((_, index) => values[index % rows.length]);
      expect((await duckDb.query(file)).map(([value]) => comparable(value))).toEqual(expected);
      const blocks = rowBlocks(column(source), many, 7);
      const again = await encodeParquet(column(source), 'snappy', blocks, sizes);
      expect(again.equals(file)).toBe(true);
    });
  });

  it('names the types of PostgreSQL in its metadata', async () => {
    const file = await encodeAs('numeric(9,2)', [['1.10']]);
    const metadata = readMetadata(file).key_value_metadata;
    expect(metadata?.filter(({ key }) => key !== 'sluice.writer')).toEqual([
      { key: 'sluice.postgres_types', value: '[{"name":"v","type":"numeric(9,2)"}]' },
    ]);
  });
});

describe('the bounds of row groups', () => {
  const rows = Array.from({ length: 900 }, (_, index) => index - 450);
  const sizes: ParquetSizes = {
    page: { bytes: 300, rows: 20 },
    groupRawBytes: 800,
    groupHeldBytes: 1e9,
    checkpointBytes: 100,
  };
  const decimal = (n: number) => `${n}.25`;
  const clock = (n: number) => `"${new Date((n + 450) * 60_000).toISOString().slice(11, 19)}"`;
  const text = (n: number) => `${'ä'.repeat(40)}${String(n + 450).padStart(4, '0')}`;
  const double = (n: number) => (n === 77 ? Number.NaN : n / 2);
  it.each<[string, (n: number) => TestValue, string]>([
    ['numeric(9,2)', decimal, 'v = -450.25'],
    ['numeric(9,2)', decimal, 'v between -3 and 3'],
    ['numeric(18,2)', decimal, 'v > 440'],
    ['numeric(38,2)', decimal, 'v between -3 and 3'],
    ['numeric(38,2)', decimal, 'v < -440'],
    ['time without time zone', clock, "v between time '07:00:00' and time '07:10:00'"],
    ['int8', BigInt, 'v = -450'],
    ['int8', BigInt, 'v between 31 and 33'],
    ['timestamptz', (n) => BigInt(n) * 1_000_000n, "v >= timestamptz '1970-01-01 00:07:18+00'"],
    ['text', text, `v = '${text(449)}'`],
    ['text', text, `v > '${text(440)}'`],
    ['float8', double, 'v = 0'],
    ['float8', double, "v > 220 or v = 'NaN'"],
  ])(
    'of %s never hide a row from a reader that skips by them: %s %s',
    async (source, valueAt, condition) => {
      const of = /[( ]/.test(source) ? column(source) : columnsOf({ v: source as ColumnType });
      const blocks = rowBlocks(
        of,
        rows.map((n) => [valueAt(n)]),
        100,
      );
      const file = await encodeParquet(of, 'snappy', blocks, sizes);
      const groups = readMetadata(file).row_groups;
      expect(groups.length).toBeGreaterThan(2);
      expect(groups[0]?.columns[0]?.meta_data?.statistics?.min_value).toBeDefined();
      // As a column and not as a filter, the condition lets DuckDB skip nothing.
      const found = await duckDb.query(file, 'v', `where ${condition}`);
      const all = await duckDb.query(file, `v, (${condition}) as fits`);
      expect(found).toEqual(all.filter(([, fits]) => fits).map(([value]) => [value]));
      expect(found.length).toBeGreaterThan(0);
      expect(found.length).toBeLessThan(all.length);
    },
  );
});

it.each([
  ['numeric(10,2)', '"NaN"', /^NaN has no DECIMAL\(10,2\)$/],
  ['numeric(10,2)', '"Infinity"', /^Infinity has no DECIMAL/],
  ['numeric(10,2)', '123456789.00', /^too large for DECIMAL\(10,2\)$/],
  ['numeric(10,2)', '0.123', /^more digits after the point/],
  ['numeric(10,2)', '1e2', /^not written as DECIMAL/],
  ['time without time zone', '"24:00:00"', /^24:00:00 has no Parquet time$/],
  ['integer[]', '[[1],[2]]', /^an array of arrays/],
  ['integer[]', '[1,2147483648]', /^element 2: not a whole number of 32 bits$/],
  ['text[]', '["a",{"b":"c"}]', /^an array of arrays/],
  ['date[]', '["2024-01-01","infinity"]', /^element 2: infinity has no Parquet date$/],
  ['timestamp with time zone[]', '["-infinity"]', /^element 1: -infinity has no Parquet/],
  [
    'timestamp with time zone[]',
    '["294276-12-31T23:59:59.999999+00:00"]',
    /^element 1: later than 294247/,
  ],
  ['numeric(4,2)[]', '[null,"NaN"]', /^element 2: NaN has no DECIMAL\(4,2\)$/],
  ['boolean[]', '[1]', /^element 1: not a boolean$/],
])(
  'a value that its type does not have %s %s leaves its row out and says why',
  async (source, json, reason) => {
    const block = rowBlock(column(source), [[null], [json], [null]]);
    const encoder = openParquet(column(source), null);
    const parts = [...(await encoder.write(block))];

    expect(encoder.rejected).toEqual([
      { row: 1, column: 0, reason: expect.stringMatching(reason) },
    ]);
    parts.push(...(await encoder.finish()));
    expect(await duckDb.query(Buffer.concat(parts))).toEqual([[null], [null]]);
  },
);

describe('a numeric without limits that is DECIMAL by choice', () => {
  const columns = ['chosen', 'narrow', 'other'].map((name) => ({
    name,
    type: 'as_json' as const,
    sourceType: name === 'narrow' ? 'numeric(4,2)' : 'numeric',
  }));
  const decimalColumns = [
    { name: 'chosen', precision: 20, scale: 4 },
    { name: 'narrow', precision: 9, scale: 3 },
  ];
  const rows: readonly TestRow[] = [
    ['1.10', '99.99', '1.10'],
    ['-9999999999999999.9999', null, '"NaN"'],
    [null, '-0.01', '12345678901234567890.1'],
    ['7.00000', '0.00', null],
  ];

  it('has its type and its values in every reader, and the others keep theirs', async () => {
    const encoder = parquet.open(columns, 'zstd', { decimalColumns });
    const file = await encodeAll(encoder, rowBlocks(columns, rows, 3));
    expect(await duckDb.types(file)).toEqual([
      'chosen DECIMAL(20,4)',
      'narrow DECIMAL(9,3)',
      'other VARCHAR',
    ]);
    expect(await duckDb.query(file)).toEqual([
      ['1.1000', '99.990', '1.10'],
      ['-9999999999999999.9999', null, 'NaN'],
      [null, '-0.010', '12345678901234567890.1'],
      ['7.0000', '0.000', null],
    ]);
    const arrow = readWithArrow(file);
    expect([arrow.chosen?.type, arrow.narrow?.type]).toEqual(['Decimal[20e+4]', 'Decimal[9e+3]']);
    expect(arrow.chosen?.values).toEqual(['1.1000', '-9999999999999999.9999', null, '7.0000']);
    const types = readMetadata(file).key_value_metadata?.find(({ key }) => /types/.test(key));
    expect(types?.value).toContain('{"name":"chosen","type":"numeric"}');
    expect(parquet.tableFields?.(columns, { decimalColumns }).map(({ type }) => type)).toEqual([
      'decimal(20, 4)',
      'decimal(9, 3)',
      'string',
    ]);
  });

  it.each([
    ['0.00001', /^more digits after the point than DECIMAL\(20,4\) has$/],
    ['10000000000000000', /^too large for DECIMAL\(20,4\)$/],
    ['"NaN"', /^NaN has no DECIMAL\(20,4\)$/],
    ['"-Infinity"', /^-Infinity has no DECIMAL\(20,4\)$/],
  ])('leaves the row of %s out and says why', async (json, reason) => {
    const encoder = parquet.open(columns, null, { decimalColumns });
    await encoder.write(rowBlock(columns, [rows[0] ?? [], [json, null, null]]));
    expect(encoder.rejected).toEqual([
      { row: 1, column: 0, reason: expect.stringMatching(reason) },
    ]);
  });
});
