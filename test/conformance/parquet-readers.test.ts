import { describe, expect, it } from 'vitest';
import { defaultSizes, type ParquetSizes } from '../../src/rows/encoders/parquet/encode.ts';
import {
  encodeParquet,
  openDuckDb,
  readMetadata,
  readWithHyparquet,
} from '../support/parquet-readers.ts';
import { columns, extremes, plainTexts } from '../support/parquet-rows.ts';
import { columnsOf, rowBlock, rowBlocks, type TestRow } from '../support/row-blocks.ts';
import { useStage } from '../support/use-stage.ts';

const small: ParquetSizes = {
  page: { bytes: 4096, rows: 64 },
  groupRawBytes: 60_000,
  groupHeldBytes: 1e9,
  checkpointBytes: 4000,
};

const duckDb = useStage(openDuckDb);

async function expectReadBack(file: Buffer, written: readonly TestRow[], of = columns) {
  const expected = plainTexts(of, written);
  expect(await readWithHyparquet(file, of)).toEqual(expected);
  expect(await duckDb.query(file)).toEqual(expected);
}

describe('a Parquet file', () => {
  it('has times of day as text if the export says so', async () => {
    const times = [
      { name: 'at', type: 'as_json', sourceType: 'time without time zone' },
      { name: 'several', type: 'as_json', sourceType: 'time(3) without time zone[]' },
    ] as const;
    const block = rowBlock(times, [
      ['"12:34:56.789"', '["01:02:03", null]'],
      [null, null],
    ]);
    const file = await encodeParquet(times, null, [block], undefined, { timeAs: 'text' });
    expect(await duckDb.types(file)).toEqual(['at VARCHAR', 'several VARCHAR[]']);
    expect(await duckDb.query(file)).toEqual([
      ['12:34:56.789', ['01:02:03', null]],
      [null, null],
    ]);
    const micros = await encodeParquet(times, null, [block]);
    expect(await duckDb.types(micros)).toEqual(['at TIME', 'several TIME[]']);
  });

  it('holds the extremes of every type', async () => {
    const file = await encodeParquet(columns, 'snappy', [rowBlock(columns, extremes)]);
    await expectReadBack(file, extremes);
  });
});

describe('the dictionary of a text column', () => {
  const of = columnsOf({ text: 'text' });
  const cases: Record<string, { texts: TestRow[]; encodings: string[] }> = {
    'is used for few values': {
      texts: Array.from({ length: 9000 }, (_, index) => [`value ${index % 40}`]),
      encodings: ['PLAIN', 'RLE', 'RLE_DICTIONARY'],
    },
    'is used for one value': {
      texts: Array.from({ length: 9000 }, () => ['the same']),
      encodings: ['PLAIN', 'RLE', 'RLE_DICTIONARY'],
    },
    'is given up at once for many values': {
      texts: Array.from({ length: 9000 }, (_, index) => [`value ${index}`]),
      encodings: ['PLAIN', 'RLE'],
    },
    'is dropped at the first page if it saves too little': {
      texts: Array.from({ length: 9000 }, (_, index) => [`value ${index < 1100 ? 0 : index}`]),
      encodings: ['PLAIN', 'RLE'],
    },
    'is dropped in the middle of a chunk if it grows too large': {
      texts: Array.from({ length: 90_000 }, (_, index) => [`value ${index < 45_000 ? 1 : index}`]),
      encodings: ['PLAIN', 'RLE', 'RLE_DICTIONARY'],
    },
    'waits for the first page with values': {
      texts: Array.from({ length: 60_000 }, (_, index) => [
        index < 41_000 || index % 2 === 0 ? null : `v${index % 9}`,
      ]),
      encodings: ['PLAIN', 'RLE', 'RLE_DICTIONARY'],
    },
  };
  it.each(Object.entries(cases))('%s', async (_, { texts, encodings }) => {
    const file = await encodeParquet(of, 'zstd', rowBlocks(of, texts, 4000));
    expect(readMetadata(file).row_groups[0]?.columns[0]?.meta_data?.encodings).toEqual(encodings);
    await expectReadBack(file, texts, of);
  });

  it('begins anew in each row group', async () => {
    const texts: TestRow[] = Array.from({ length: 8000 }, (_, index) => [
      index < 4000 ? `${index}` : `v${index % 3}`,
    ]);
    const file = await encodeParquet(of, null, [rowBlock(of, texts)], {
      ...defaultSizes(1),
      groupRawBytes: 20_000,
      checkpointBytes: 20_000,
    });
    const dictionaries = readMetadata(file).row_groups.map(
      (group) => group.columns[0]?.meta_data?.dictionary_page_offset,
    );
    expect(dictionaries[0]).toBeUndefined();
    expect(dictionaries.at(-1)).toBeDefined();
    await expectReadBack(file, texts, of);
  });
});

describe('the bounds of row groups', () => {
  const of = columnsOf({ number: 'int8', time: 'timestamptz', text: 'text', double: 'float8' });
  const table: TestRow[] = Array.from({ length: 2000 }, (_, index) => [
    BigInt(index) - 1000n,
    BigInt(index) * 1_000_000n,
    `${'ä'.repeat(40)}${String(index).padStart(4, '0')}`,
    index === 777 ? Number.NaN : index / 2,
  ]);

  it.each([
    ['number = -1000'],
    ['number between 31 and 33'],
    ["time >= timestamptz '1970-01-01 00:33:18+00'"],
    [`text = '${'ä'.repeat(40)}1999'`],
    [`text > '${'ä'.repeat(40)}1990'`],
    ['double = 0'],
    ["double > 990 or double = 'NaN'"],
  ])('never hide a row from a reader that skips by them: %s', async (condition) => {
    const file = await encodeParquet(of, 'snappy', [rowBlock(of, table)], small);
    expect(readMetadata(file).row_groups.length).toBeGreaterThan(2);
    // As a column and not as a filter, the condition lets DuckDB skip nothing.
    const found = await duckDb.query(file, 'number', `where ${condition}`);
    const all = await duckDb.query(file, `number, (${condition}) as fits`);
    expect(found).toEqual(all.filter(([, fits]) => fits).map(([number]) => [number]));
    expect(found.length).toBeGreaterThan(0);
  });
});
