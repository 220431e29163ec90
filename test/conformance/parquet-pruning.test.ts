import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Column } from '../../src/foundation/domain/row-block.ts';
import { defaultSizes, type ParquetSizes } from '../../src/rows/encoders/parquet/encode.ts';
import {
  type DuckDb,
  encodeParquet,
  openDuckDb,
  readMetadata,
  readWithArrow,
  readWithHyparquet,
} from '../support/parquet-readers.ts';
import { columnsOf, rowBlocks, type TestRow, type TestValue } from '../support/row-blocks.ts';

const sizes: ParquetSizes = {
  page: { bytes: 1e6, rows: 100 },
  groupRawBytes: 1e9,
  groupHeldBytes: 1e9,
  groupRows: 1000,
  checkpointBytes: 1000,
};

let duckDb: DuckDb;
beforeAll(async () => {
  duckDb = await openDuckDb();
});
afterAll(() => duckDb.close());

const encode = (
  columns: readonly Column[],
  rows: readonly TestRow[],
  codec: string | null = null,
) => encodeParquet(columns, codec, rowBlocks(columns, rows, 333), sizes);

const encodingsOf = (file: Buffer, column = 0) =>
  readMetadata(file).row_groups.map((group) => group.columns[column]?.meta_data?.encodings);

const isNull = (value: TestValue | undefined) => value === null || value === undefined;

describe('values that are smaller in another encoding', () => {
  const sequence = (n: number, more = 0) => 10_000_000 + n * 3 + (n % 7) + more;
  const cases: Record<string, [Column['type'], (n: number) => TestValue, string]> = {
    'whole numbers of 16 bits': ['int2', (n) => n, 'DELTA_BINARY_PACKED'],
    'whole numbers of 32 bits': ['int4', (n) => -sequence(n), 'DELTA_BINARY_PACKED'],
    'whole numbers of 64 bits': [
      'int8',
      (n) => BigInt(sequence(n, 2 ** 45)),
      'DELTA_BINARY_PACKED',
    ],
    days: ['date', (n) => n, 'DELTA_BINARY_PACKED'],
    times: ['timestamptz', (n) => BigInt(sequence(n, 1.7e15)), 'DELTA_BINARY_PACKED'],
    'texts of many values': ['text', (n) => `größe ${n}`, 'DELTA_LENGTH_BYTE_ARRAY'],
    JSON: ['jsonb', (n) => `{"n":${n}}`, 'DELTA_LENGTH_BYTE_ARRAY'],
    bytes: ['bytea', (n) => Buffer.alloc(n % 5, n), 'DELTA_LENGTH_BYTE_ARRAY'],
  };

  it.each(Object.entries(cases))('are read back: %s', async (_name, [type, value, expected]) => {
    const columns = columnsOf({ v: type });
    const rows = Array.from({ length: 2500 }, (_, n): TestRow => [n % 9 === 4 ? null : value(n)]);
    const file = await encode(columns, rows);
    for (const encodings of encodingsOf(file)) expect(encodings).toContain(expected);
    expect(await duckDb.query(file)).toEqual(rows);
    expect(await readWithHyparquet(file, columns)).toEqual(rows);
    expect(readWithArrow(file).v?.values.map(isNull as never)).toEqual(
      rows.map(([v]) => isNull(v)),
    );
  });

  it.each([
    ['float4', Math.fround],
    ['float8', Number],
  ] as const)('are read back: %s, whose bytes are split', async (type, rounded) => {
    const columns = columnsOf({ v: type });
    const rows = Array.from({ length: 2500 }, (_, n): TestRow => [rounded(1000 + n / 7)]);
    const file = await encode(columns, rows, 'zstd');
    for (const encodings of encodingsOf(file)) expect(encodings).toContain('BYTE_STREAM_SPLIT');
    expect(await duckDb.query(file)).toEqual(rows);
    expect(await readWithHyparquet(file, columns)).toEqual(rows);
    expect(readWithArrow(file).v?.values).toEqual(rows.flat());
  });

  it.each([
    ['some ten thousand texts keep their dictionary', 10_000, true],
    ['texts that are nearly always new have none', 1_000_000, false],
  ])('%s', async (_name, distinct, isKept) => {
    const columns = columnsOf({ v: 'text' });
    const rows = Array.from({ length: 60_000 }, (_, n): TestRow => {
      const text = createHash('md5').update(`${n}`).digest();
      return [`value number ${text.readUInt32LE() % distinct} of many`];
    });
    const blocks = rowBlocks(columns, rows, 1000);
    const file = await encodeParquet(columns, 'zstd', blocks, defaultSizes(1));
    const kept = encodingsOf(file).map((encodings) => encodings?.includes('RLE_DICTIONARY'));
    expect(kept).toEqual([isKept]);
    expect(await duckDb.query(file)).toEqual(rows);
  });

  it('stay PLAIN on a page whose differences do not fit', async () => {
    const columns = columnsOf({ small: 'int4', large: 'int8' });
    const rows = Array.from({ length: 900 }, (_, n): TestRow => {
      if (n === 450) return [2_147_483_647, 2n ** 63n - 1n];
      return n === 451 ? [-2_147_483_648, -(2n ** 63n)] : [n, BigInt(n)];
    });
    const file = await encode(columns, rows);
    for (const column of [0, 1]) {
      expect(encodingsOf(file, column)[0]).toEqual(['PLAIN', 'RLE', 'DELTA_BINARY_PACKED']);
    }
    expect(await duckDb.query(file)).toEqual(rows);
    expect(await readWithHyparquet(file, columns)).toEqual(rows);
  });

  it('are read back whatever the differences', async () => {
    const columns = columnsOf({ v: 'int8' });
    const steps = fc.tuple(
      fc.integer({ min: 0, max: 50 }).chain((bits) => fc.constant(2 ** bits)),
      fc.array(fc.double({ min: -1, max: 1, noNaN: true }), { minLength: 1, maxLength: 300 }),
    );
    await fc.assert(
      fc.asyncProperty(steps, async ([scale, parts]) => {
        const rows = parts.map((part): TestRow => [BigInt(Math.trunc(part * scale))]);
        const file = await encode(columns, rows);
        expect(await readWithHyparquet(file, columns)).toEqual(rows);
        expect(readWithArrow(file).v?.values).toEqual(rows.flat());
      }),
      { numRuns: 150 },
    );
  });
});

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
