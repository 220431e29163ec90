import { describe, expect, it } from 'vitest';
import { defaultSizes } from '../../src/rows/encoders/parquet/encode.ts';
import {
  encodeParquet,
  openDuckDb,
  readMetadata,
  readWithHyparquet,
} from '../support/parquet-readers.ts';
import { columnsOf, rowBlock, rowBlocks, type TestRow } from '../support/row-blocks.ts';
import { useStage } from '../support/use-stage.ts';

const duckDb = useStage(openDuckDb);

const of = columnsOf({ text: 'text' });

async function expectReadBack(file: Buffer, texts: readonly TestRow[]) {
  expect(await readWithHyparquet(file, of)).toEqual(texts);
  expect(await duckDb.query(file)).toEqual(texts);
}

it('a Parquet file has times of day as text if the export says so', async () => {
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

describe('the dictionary of a text column', () => {
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
    await expectReadBack(file, texts);
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
    await expectReadBack(file, texts);
  });
});
