import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import type { FormatSettings } from '../../../src/foundation/domain/format-settings.ts';
import { csv } from '../../../src/rows/encoders/csv/definition.ts';
import { byteOrderMark, delimiterOf } from '../../../src/rows/encoders/csv/encode.ts';
import { readCsv } from '../../../src/rows/encoders/csv/read.ts';
import { openEncoder } from '../../../src/rows/encoders/index.ts';
import { encodeAll } from '../../support/parquet-readers.ts';
import { columnsOf, rowBlock } from '../../support/row-blocks.ts';
import { folderOfTests } from '../../support/own-folder.ts';

const columns = columnsOf({ n: 'int4', v: 'text', other: 'json' });

const texts = [
  ...['  lead', 'trail  ', '\ttab', 'tab\t', '\\N', '\\.', '\\Nx', 'NULL', '', null, '"quoted"'],
  ...['a,b', 'a;b', 'a|b', 'a\tb', 'line\nbreak', 'cr\rlf', '=1+1', 'é', '\u2028', '0123', '1e5'],
  ...['true', '2024-03-01', ' ', '\ufeff', `${'long '.repeat(80)}`, `${'x'.repeat(400)}`],
];

type Style = Partial<FormatSettings>;

const folder = folderOfTests();

async function encode(style: Style, values: readonly (string | null)[] = texts): Promise<Buffer> {
  const rows = values.map((value, n) => [n, value, '{"a": 1}'] as const);
  return encodeAll(openEncoder(csv, null, columns, style), [rowBlock(columns, rows)]);
}

/** The texts of a file. @param schema null: its columns are not known */
async function readTexts(
  bytes: Buffer,
  style: Style,
  schema: typeof columns | null = columns,
): Promise<(string | null)[]> {
  async function* text() {
    yield bytes;
  }
  const wanted = columns.filter(({ name }) => name === 'v');
  const found: (string | null)[] = [];
  const options = { ...style, ...(schema && { schema }) };
  for await (const [value = null] of readCsv(text(), wanted, options)) found.push(value);
  return found;
}

async function cellOf(value: string | null, style: Style = {}): Promise<string> {
  const text = String(await encode(style, [value]));
  const delimiter = delimiterOf[style.csvDelimiter ?? 'comma'];
  return text.split('\n').slice(1).join('\n').slice(2).split(`${delimiter}"{""a""`)[0] ?? '';
}

it.each([
  ['  lead', '"  lead"'],
  ['trail  ', '"trail  "'],
  ['\ttab', '"\ttab"'],
  [' ', '" "'],
  ['\\N', '"\\N"'],
  ['\\.', '"\\."'],
  ['', '""'],
  // Without quotes, a reader drops it at the begin of a file.
  ['\ufeffmark', '"\ufeffmark"'],
  ['\uf000', '\uf000'],
  ['a b', 'a b'],
  ['NULL', 'NULL'],
])('of the text %j is %s', async (value, cell) => {
  expect(await cellOf(value)).toBe(cell);
});

it.each<[string | null, Style, string]>([
  [null, {}, ''],
  [null, { csvNull: '\\N' }, '\\N'],
  ['\\N', { csvNull: '\\N' }, '"\\N"'],
  [null, { csvNull: 'NULL' }, 'NULL'],
  ['NULL', { csvNull: 'NULL' }, '"NULL"'],
  ['', { csvNull: 'NULL' }, '""'],
  ['a;b', { csvDelimiter: 'semicolon' }, '"a;b"'],
  ['a,b', { csvDelimiter: 'semicolon' }, 'a,b'],
  ['a\tb', { csvDelimiter: 'tab' }, '"a\tb"'],
])('of %j with %j is %s', async (value, style, cell) => {
  expect(await cellOf(value, { ...style })).toBe(cell);
});

const styles: readonly Style[] = [
  {},
  ...(['semicolon', 'tab', 'pipe'] as const).map((csvDelimiter) => ({ csvDelimiter })),
  { csvNull: '\\N', csvDelimiter: 'tab' },
  { csvNull: 'NULL', csvBom: true },
  { csvNull: 'NULL', csvFormulaGuard: true, csvDelimiter: 'semicolon' },
  { csvHeader: false },
  { csvHeader: false, csvBom: true, csvNull: '\\N' },
];

it.each(styles)('is read back in the style %j', async (style) => {
  const bytes = await encode(style);
  expect(bytes.subarray(0, 3).equals(byteOrderMark)).toBe(style.csvBom === true);
  expect(
    bytes.includes('n,v,other'.replaceAll(',', delimiterOf[style.csvDelimiter ?? 'comma'])),
  ).toBe(style.csvHeader !== false);
  expect(await readTexts(bytes, style)).toEqual(texts);
});

it.each(styles)('is the same in a file without some rows, in the style %j', async (style) => {
  const bytes = await encode(style);
  const path = join(folder, 'file.csv');
  await writeFile(path, bytes);
  for (const first of [0, 1]) {
    const isDropped = (row: number) => row >= first && row < 3;
    const chunks: Uint8Array[] = [];
    for await (const chunk of csv.without(path, isDropped, null, style).bytes) chunks.push(chunk);
    const left = Buffer.concat(chunks);
    expect(left.subarray(0, 3).equals(byteOrderMark)).toBe(style.csvBom === true);
    expect(await readTexts(left, style)).toEqual(texts.filter((_, row) => !isDropped(row)));
  }
});

it('of a file without a header is read only if its columns are known', async () => {
  const style = { csvHeader: false };
  await expect(readTexts(await encode(style), style, null)).rejects.toThrow('not known');
});
