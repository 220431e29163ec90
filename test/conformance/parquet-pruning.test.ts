import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { readColumnIndex, readOffsetIndex } from 'hyparquet';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Column } from '../../src/foundation/domain/row-block.ts';
import { defaultSizes, type ParquetSizes } from '../../src/rows/encoders/parquet/sizes.ts';
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

describe('the page index', () => {
  const columns: readonly Column[] = [
    ...columnsOf({
      id: 'int8',
      whole: 'int4',
      double: 'float8',
      few: 'text',
      many: 'text',
      ok: 'bool',
      blob: 'bytea',
      data: 'jsonb',
      at: 'timestamptz',
    }),
    { name: 'price', type: 'as_json', sourceType: 'numeric(20,2)' },
    { name: 'tags', type: 'as_json', sourceType: 'text[]' },
  ];
  const rows = Array.from({ length: 2300 }, (_, n): TestRow => {
    if (n >= 1200 && n < 1300) return columns.map(() => null);
    return [
      BigInt(n) - 700n,
      (n * 7919) % 1000,
      n / 3 - 100,
      n % 5 === 0 ? null : `few ${n % 40}`,
      `${n < 800 ? 'a'.repeat(70) : 'ü'}${(n * 31) % 977}`,
      n > 150,
      Buffer.from([0xff, n % 256, 0]),
      '{}',
      1_709_251_200_000_000n + BigInt(n >> 1),
      `${n - 1000}.25`,
      `["a",${n}]`.replace(/\d+/, '"$&"'),
    ];
  });

  /** Each page's rows and what the index says of it, as hyparquet reads it. */
  function pagesOf(file: Buffer) {
    const { row_groups: groups, schema } = readMetadata(file);
    let groupStart = 0;
    return groups.flatMap((group, groupIndex) => {
      const from = groupStart;
      groupStart += Number(group.num_rows);
      return group.columns.flatMap((chunk, column) => {
        if (chunk.offset_index_offset === undefined) return [];
        const readerAt = (offset: bigint | undefined) => ({
          view: new DataView(file.buffer, file.byteOffset + Number(offset)),
          offset: 0,
        });
        const { page_locations: places } = readOffsetIndex(readerAt(chunk.offset_index_offset));
        const element = schema.find(({ name }) => name === columns[column]?.name);
        const bounds =
          chunk.column_index_offset === undefined || element === undefined
            ? undefined
            : readColumnIndex(readerAt(chunk.column_index_offset), element);
        return places.map((place, at) => ({
          column: columns[column]?.name,
          group: groupIndex,
          chunk,
          place,
          rows: rows
            .slice(
              from + Number(place.first_row_index),
              from + Number(places[at + 1]?.first_row_index ?? group.num_rows),
            )
            .map((row) => row[column] ?? null),
          isNull: bounds?.null_pages[at],
          nulls: bounds?.null_counts?.[at],
          min: bounds?.min_values[at],
          max: bounds?.max_values[at],
          order: bounds?.boundary_order,
        }));
      });
    });
  }

  it.each([null, 'zstd'])('encloses the values of each page, compression %s', async (codec) => {
    const file = await encode(columns, rows, codec);
    const pages = pagesOf(file);
    expect(new Set(pages.map(({ column }) => column)).size).toBe(columns.length);
    for (const page of pages) {
      const hasNoOrder = page.column === 'data' || page.column === 'tags';
      // The second group has a page of nulls alone: its bounds would be empty.
      if (hasNoOrder || page.group === 1) {
        expect(page.nulls).toBeUndefined();
        continue;
      }
      const values = page.rows.filter((value) => value !== null);
      expect(page.nulls).toBe(BigInt(page.rows.length - values.length));
      expect(page.isNull).toBe(false);
      // The reader takes bytes for text.
      for (const value of page.column === 'blob' ? [] : values) {
        const own = comparable(value);
        const encloses =
          compare(comparable(page.min), own) <= 0 && compare(own, comparable(page.max)) <= 0;
        expect(encloses, `${page.column} ${own}`).toBe(true);
      }
    }
    expect(pages.find(({ column }) => column === 'id')?.order).toBe('ASCENDING');
    expect(pages.find(({ column }) => column === 'whole')?.order).toBe('UNORDERED');
  });

  it('says where each page is', async () => {
    const file = await encode(columns, rows, 'zstd');
    const pages = pagesOf(file);
    for (const [at, { chunk, place, column }] of pages.entries()) {
      const meta = chunk.meta_data;
      if (pages[at - 1]?.chunk !== chunk) expect(place.offset).toBe(meta?.data_page_offset);
      const next = pages[at + 1];
      const end = place.offset + BigInt(place.compressed_page_size);
      if (next?.chunk === chunk) expect(end, column).toBe(next.place.offset);
      else {
        const start = meta?.dictionary_page_offset ?? meta?.data_page_offset ?? 0n;
        expect(end).toBe(start + (meta?.total_compressed_size ?? 0n));
      }
    }
    const read = await readWithHyparquet(file, columns);
    expect(read.map(([id]) => id)).toEqual(rows.map(([id]) => id));
    expect(await duckDb.query(file, 'id, many')).toEqual(rows.map((row) => [row[0], row[4]]));
  });

  it('is not there for a chunk of one page', async () => {
    expect(pagesOf(await encode(columns, rows.slice(0, 90)))).toEqual([]);
  });

  it('does not bound a page with a NaN', async () => {
    const of = columnsOf({ double: 'float8' });
    const file = await encode(
      of,
      rows.map((_, n) => [n === 150 ? Number.NaN : n]),
    );
    const [first, second] = readMetadata(file).row_groups.map((group) => group.columns[0]);
    expect(first?.column_index_offset).toBeUndefined();
    expect(first?.offset_index_offset).toBeDefined();
    expect(second?.column_index_offset).toBeDefined();
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

/** A value of a row, or a bound as hyparquet reads it, so that both compare. */
function comparable(value: unknown): bigint | number | Buffer {
  if (value instanceof Date) return BigInt(value.getTime()) * 1000n;
  if (value instanceof Uint8Array) return Buffer.from(value);
  if (typeof value === 'boolean') return Number(value);
  if (typeof value === 'string') {
    return /^-?\d+\.\d+$/.test(value) ? Number(value) : Buffer.from(value);
  }
  return value as bigint | number;
}

function compare(one: bigint | number | Buffer, other: bigint | number | Buffer): number {
  if (Buffer.isBuffer(one) && Buffer.isBuffer(other)) return Buffer.compare(one, other);
  // A time's bound has milliseconds only.
  if (typeof one === 'bigint' && typeof other === 'bigint' && one > 10n ** 15n) {
    return Number(one / 1000n - other / 1000n);
  }
  return one < other ? -1 : one > other ? 1 : 0;
}
