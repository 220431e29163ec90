import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Column } from '../../src/foundation/domain/row-block.ts';
import { openParquet } from '../../src/rows/encoders/parquet/encode.ts';
import type { ParquetSizes } from '../../src/rows/encoders/parquet/sizes.ts';
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

const encode = (
  columns: readonly Column[],
  rows: readonly TestRow[],
  keyIndices: readonly number[],
  blockRows = 333,
) => {
  const origin = { exportId: 'an-export', interval, keyIndices };
  const encoder = openParquet(columns, 'zstd', sizes, { origin });
  return encodeAll(encoder, rowBlocks(columns, rows, blockRows));
};

/** For each row group, whether DuckDB knows from the filter that it lacks the value. */
async function excluded(file: Buffer, column: string, value: string): Promise<boolean[]> {
  const sql = `select bloom_filter_excludes from parquet_bloom_probe('FILE', '${column}', ${value}) order by row_group_id`;
  return (await duckDb.ask(file, sql)).map(([each]) => each === true);
}

const uuidOf = (n: number) => {
  const hex = createHash('md5').update(String(n)).digest('hex');
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
};
const mixed = (n: number) => (n * 7919) % 100_003;

describe('the Bloom filter of a key', () => {
  const cases: Record<string, { column: Column; value: (n: number) => unknown; sql: string }> = {
    bigint: {
      column: { name: 'v', type: 'int8', sourceType: 'bigint' },
      value: (n) => BigInt(mixed(n)) * 90_071_992_547n,
      sql: '(N::bigint * 90071992547)',
    },
    integer: {
      column: { name: 'v', type: 'int4', sourceType: 'integer' },
      value: (n) => -mixed(n),
      sql: '(-N)::integer',
    },
    smallint: {
      column: { name: 'v', type: 'int2', sourceType: 'smallint' },
      value: (n) => mixed(n) % 30_000,
      sql: '(N % 30000)::smallint',
    },
    'text of any length': {
      column: { name: 'v', type: 'text', sourceType: 'text' },
      value: (n) => 'ä'.repeat(mixed(n) % 90) + mixed(n),
      sql: `repeat('ä', N % 90) || N`,
    },
    'text in a dictionary': {
      column: { name: 'v', type: 'text', sourceType: 'text' },
      value: (n) => `account ${mixed(n) % 40}`,
      sql: `'account ' || N % 40`,
    },
    'enum as text': {
      column: { name: 'v', type: 'as_json', sourceType: 'shop.mood' },
      value: (n) => `"mood ${mixed(n)}"`,
      sql: `'mood ' || N`,
    },
    bytea: {
      column: { name: 'v', type: 'bytea', sourceType: 'bytea' },
      value: (n) => Buffer.from(`${mixed(n)}`),
      sql: `'N'::blob`,
    },
  };

  it.each(Object.entries(cases))('%s never hides a row', async (_name, each) => {
    const rows = Array.from({ length: 3000 }, (_, n): TestRow => {
      const value = n % 11 === 5 ? null : each.value(n);
      return [value as TestRow[number]];
    });
    const file = await encode([each.column], rows, [0]);
    for (const { columns } of readMetadata(file).row_groups) {
      expect(columns[0]?.meta_data?.bloom_filter_length).toBeGreaterThan(32);
    }
    for (const n of [0, 1, 999, 1000, 1777, 2999]) {
      const sql = each.sql.replaceAll('N', String(mixed(n)));
      const found = await duckDb.query(file, 'count(*)', `where v = ${sql}`);
      const all = await duckDb.query(file, `count(*) filter (v = ${sql})`);
      expect(found, `row ${n}`).toEqual(all);
      expect(all[0]?.[0]).toBeGreaterThan(0);
      expect((await excluded(file, 'v', sql))[Math.floor(n / 1000)]).toBe(false);
    }
  });

  it('excludes row groups without the value, which bounds cannot', async () => {
    const columns = columnsOf({ id: 'uuid', n: 'int8', other: 'int8' });
    const rows = Array.from(
      { length: 3000 },
      (_, n): TestRow => [uuidOf(n), BigInt(mixed(n)), BigInt(n)],
    );
    const file = await encode(columns, rows, [1]);
    const chunks = readMetadata(file).row_groups.flatMap((group) => group.columns);
    expect(chunks.map(({ meta_data: meta }) => meta?.bloom_filter_offset !== undefined)).toEqual(
      [0, 1, 2].flatMap(() => [true, true, false]),
    );
    expect(await excluded(file, 'id', `'${uuidOf(1500)}'`)).toEqual([true, false, true]);
    expect(await excluded(file, 'n', `${mixed(2500)}::bigint`)).toEqual([true, true, false]);
    let passed = 0;
    for (let n = 5000; n < 5200; n++) {
      passed += (await excluded(file, 'id', `'${uuidOf(n)}'`)).filter((each) => !each).length;
    }
    // 3 of 100 are expected.
    expect(passed / 600).toBeLessThan(0.06);
    expect(await readWithHyparquet(file, columns)).toEqual(rows);
    expect(readWithArrow(file).id?.values).toEqual(rows.map(([id]) => id));
  });

  it('has a bit or two for each bit that it needs, and its bytes depend on the values alone', async () => {
    const columns = columnsOf({ id: 'int8' });
    const rows = Array.from({ length: 900 }, (_, n): TestRow => [BigInt(mixed(n))]);
    const file = await encode(columns, rows, [0]);
    const lengthOf = (of: Buffer) =>
      readMetadata(of).row_groups[0]?.columns[0]?.meta_data?.bloom_filter_length ?? 0;
    expect(lengthOf(file)).toBeGreaterThan(1024);
    expect(lengthOf(file)).toBeLessThan(1024 + 32);
    for (const blockRows of [1, 77]) {
      expect((await encode(columns, rows, [0], blockRows)).equals(file)).toBe(true);
    }
    const two = await encode(
      columns,
      Array(450)
        .fill([7n])
        .concat(Array(450).fill([900n])),
      [0],
    );
    expect(lengthOf(two)).toBeGreaterThan(32);
    expect(lengthOf(two)).toBeLessThan(64);
  });

  it.each([
    ['bool', 'boolean', true],
    ['float8', 'double precision', 0],
    ['jsonb', 'jsonb', '{}'],
    ['date', 'date', 7],
    ['timestamptz', 'timestamp with time zone', 7n],
    ['as_json', 'numeric(9,2)', '1.25'],
    ['as_json', 'integer[]', '[1]'],
  ] as const)('is left out for a key of %s %s', async (type, sourceType, value) => {
    const file = await encode([{ name: 'v', type, sourceType }], [[value]], [0]);
    const [chunk] = readMetadata(file).row_groups[0]?.columns ?? [];
    expect(chunk?.meta_data?.bloom_filter_offset).toBeUndefined();
  });

  it('is left out if the bounds say nearly as much', async () => {
    const columns = columnsOf({ dense: 'int8', half: 'int4', few: 'int8' });
    const rows = Array.from({ length: 1000 }, (_, n): TestRow => [BigInt(n), n * 2, BigInt(n * 3)]);
    const file = await encode(columns, rows, [0, 1, 2]);
    const { columns: chunks = [] } = readMetadata(file).row_groups[0] ?? {};
    const hasFilter = chunks.map(({ meta_data: meta }) => meta?.bloom_filter_offset !== undefined);
    expect(hasFilter).toEqual([false, false, true]);
  });

  it('finds every value of any text', async () => {
    const columns = columnsOf({ v: 'text' });
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.string({ unit: 'grapheme', maxLength: 70 }), { minLength: 1, maxLength: 20 }),
        async (texts) => {
          const clean = texts.map((text) => text.replaceAll('\u0000', ''));
          const file = await encode(
            columns,
            clean.map((text) => [text]),
            [0],
          );
          for (const text of clean) {
            const literal = `'${text.replaceAll("'", "''")}'`;
            expect(await excluded(file, 'v', literal), text).toEqual([false]);
          }
        },
      ),
      { numRuns: 25 },
    );
  });
});

describe('a data page of version 2', () => {
  it('stays as it is if compression saves nothing, and is read back', async () => {
    const columns = columnsOf({ noise: 'bytea', zeros: 'bytea', none: 'text' });
    const rows = Array.from({ length: 500 }, (_, n): TestRow => {
      const noise = createHash('sha512').update(String(n)).digest();
      return [n % 7 === 0 ? null : noise, Buffer.alloc(64), null];
    });
    const file = await encode(columns, rows, []);
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
    const file = await encode(columns, [[1n]], [0]);
    expect(readMetadata(file).key_value_metadata).toEqual([
      { key: 'sluice.writer', value: 'sluice version 1.0.0' },
      { key: 'sluice.postgres_types', value: '[{"name":"id","type":"int8"}]' },
      { key: 'sluice.export', value: 'an-export' },
      { key: 'sluice.interval_start', value: '2024-03-01T00:00:00.000000Z' },
      { key: 'sluice.interval_end', value: '2024-03-01T01:00:00.000000Z' },
    ]);
  });
});
