import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { expect, it } from 'vitest';
import type { ReadColumn, ReadRow } from '../../../src/rows/encoders/encoder.ts';
import { findMembers } from '../../../src/rows/encoders/jsonlines/read.ts';
import { textOfDays } from '../../../src/rows/encoders/parquet/read-values.ts';
import { readRowsBy, registry } from '../../../src/main/connectors.ts';
import { joinKeys, keyOfRow } from '../../../src/rows/pipeline/row-keys.ts';
import { folderOfTests } from '../../support/own-folder.ts';

const readRows = readRowsBy(registry);

const columns: readonly ReadColumn[] = [
  { name: 'id', type: 'int8' },
  { name: 'Code', type: 'text' },
];

async function collect(rows: AsyncIterable<ReadRow>): Promise<string[]> {
  const found: string[] = [];
  for await (const row of rows) found.push(keyOfRow(row, columns));
  return found;
}

const folder = folderOfTests();

async function put(bytes: Buffer): Promise<string> {
  const path = join(folder, 'file');
  await writeFile(path, bytes);
  return path;
}

async function jsonLines(text: string): Promise<string[]> {
  const path = await put(gzipSync(text));
  return collect(readRows(path, { format: 'JSONLines', compression: 'gzip' }, columns));
}

async function csv(text: string): Promise<string[]> {
  const path = await put(Buffer.from(text));
  return collect(readRows(path, { format: 'CSV', compression: null }, columns));
}

it('keeps neighbours past 2^53 apart in JSON, wherever they are in the line', async () => {
  const found = await jsonLines(
    `{"id":9007199254740993,"Code":"a","rest":{"id":[1,"}"]}}\n` +
      `{"rest":[{"id":"\\"]"}],"nothing":null, "Code":"b" , "id" : -9223372036854775808}\n`,
  );
  expect(found).toEqual([
    joinKeys(['9007199254740993', 'a']),
    joinKeys(['-9223372036854775808', 'b']),
  ]);
});

it('keeps odd characters of text in JSON and CSV alike', async () => {
  const odd = 'a "b", \\ \n\r\n🙂\u2028';
  const lines = await jsonLines(`${JSON.stringify({ id: 1, Code: odd })}\n`);
  const cells = await csv(`other,Code,id\nx,"${odd.replaceAll('"', '""')}",1\n`);
  expect(lines).toEqual([joinKeys(['1', odd])]);
  expect(cells).toEqual(lines);
});

it('distinguishes null, empty text and the word null', async () => {
  const expected = [joinKeys(['1', null]), joinKeys(['1', '']), joinKeys(['1', 'null'])];
  expect(new Set(expected).size).toBe(3);
  expect(await csv('id,Code\n1,\n1,""\n1,null\n')).toEqual(expected);
  const lines = [null, '', 'null'].map((Code) => JSON.stringify({ id: 1, Code })).join('\n');
  expect(await jsonLines(`${lines}\n`)).toEqual(expected);
});

it('finds the keys of a rejected row in its line', async () => {
  const line = '{"column":"id","reason":"x","row":{"id":9007199254740993,"Code":"c"}}\n';
  const found = await collect(readRows(await put(Buffer.from(line)), 'rejected', columns));
  expect(found).toEqual([joinKeys(['9007199254740993', 'c'])]);
});

it('a numeric has one spelling, whatever zeros end its fraction', () => {
  const keyOf = (text: string, sourceType: string) =>
    keyOfRow([text], [{ name: 'n', type: 'as_json', sourceType }]);
  const spelled = ['1.10', '1.1000', '-0.00', '-0', '100', '100.0', '0.010', 'NaN'];
  const found = spelled.map((text) => keyOf(text, 'numeric'));
  expect(found).toEqual(['1.1', '1.1', '-0', '-0', '100', '100', '0.01', 'NaN']);
  expect(keyOf('1.10', 'shop.version')).toBe('1.10');
});

it.each([
  ['{"a":1.10}', 'a', '1.10'],
  ['{ "a" : "x\\"}" , "b" : [ {"b":1}, "]" ] }', 'b', '[ {"b":1}, "]" ]'],
  ['{"a\\"b":true,"c":-0}', 'a"b', 'true'],
  ['{"b":{"a":1},"a":null}', 'a', 'null'],
  ['{"b":1}', 'a', null],
  ['{}', 'a', null],
])('the raw value in %s of %s is %s', (json, name, expected) => {
  const bytes = Buffer.from(json);
  const bounds = findMembers(bytes, new Set([name])).get(name);
  expect(bounds ? bytes.toString('utf8', bounds.start, bounds.end) : null).toBe(expected);
});

it.each([
  [0, '1970-01-01'],
  [-719_163, '0001-12-31 BC'],
  [2_932_897, '10000-01-01'],
])('day %i of a Parquet file is spelled %s, as PostgreSQL does', (days, expected) => {
  expect(textOfDays(days)).toBe(expected);
});
