import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { ColumnType } from '../../src/foundation/domain/row-block.ts';
import type { ReadRow } from '../../src/rows/encoders/encoder.ts';
import { encoders, openEncoder } from '../../src/rows/encoders/index.ts';
import { readRowsBy, registry } from '../../src/main/connectors.ts';
import { columnsOf, rowBlock, type TestRow } from '../support/row-blocks.ts';
import { folderOfTests } from '../support/own-folder.ts';

const found = encoders.find(({ format }) => format === 'CSV');
if (!found) throw new Error('no CSV');
const csv = found;
const readRows = readRowsBy(registry);

const folder = folderOfTests();

async function write(
  types: Readonly<Record<string, ColumnType>>,
  rows: readonly TestRow[],
  csvFormulaGuard: boolean,
): Promise<Buffer> {
  const columns = columnsOf(types);
  const encoder = openEncoder(csv, null, columns, { csvFormulaGuard });
  const chunks = [...(await encoder.write(rowBlock(columns, rows))), ...(await encoder.finish())];
  return Buffer.concat(chunks);
}

/** What `sluice verify` reads back. */
async function readBack(
  types: Readonly<Record<string, ColumnType>>,
  bytes: Buffer,
  csvFormulaGuard: boolean,
): Promise<readonly ReadRow[]> {
  const path = join(folder, 'file.csv');
  await writeFile(path, bytes);
  const rows: ReadRow[] = [];
  const made = { format: 'CSV', compression: null, csvFormulaGuard };
  for await (const row of readRows(path, made, columnsOf(types))) rows.push(row);
  return rows;
}

/** Cells as a spreadsheet reads them, by a reader that knows nothing of our guard. */
const cellsOf = async (types: Readonly<Record<string, ColumnType>>, bytes: Buffer) =>
  (await readBack(types, bytes, false)).flat();

const hostile = ['=1+1', '+1', '-1', '@SUM(A1)', '\t=1', '\r=1', '=a,"b"\n', "'=1", "''@x"];

test.each(hostile)('leaves no formula of the text %j', async (text) => {
  const types = { a: 'text' } as const;
  const [cell] = await cellsOf(types, await write(types, [[text]], true));
  expect(cell).toBe(`'${text}`);
});

test('guards strings that arrive as JSON, and no number, no null and no JSON', async () => {
  const types = {
    a: 'as_json',
    b: 'as_json',
    c: 'int4',
    d: 'jsonb',
    e: 'text',
    f: 'text',
  } as const;
  const bytes = await write(types, [['"=1+1"', '-1.10', -5, '-5', null, '']], true);
  expect(await cellsOf(types, bytes)).toEqual(["'=1+1", '-1.10', '-5', '-5', null, '']);
});

test('is undone when the file is verified, whatever the text is', async () => {
  const odd = fc.constantFrom("'", '=', '+', '-', '@', '\t', '\r', '\n', '"', ',', 'a', 'é');
  const text = fc.oneof(
    fc.string({ unit: odd, maxLength: 8 }),
    fc.string({ unit: 'grapheme', maxLength: 8 }).map((value) => value.replaceAll('\0', '')),
  );
  const types = { a: 'text', b: 'as_json' } as const;
  await fc.assert(
    fc.asyncProperty(fc.array(fc.tuple(text, text), { minLength: 1 }), async (pairs) => {
      const rows = pairs.map(([a, b]) => [a, JSON.stringify(b)]);
      const bytes = await write(types, rows, true);
      expect(await readBack(types, bytes, true)).toEqual(pairs);
      for (const cell of await cellsOf(types, bytes)) expect(cell).not.toMatch(/^[=+\-@\t\r]/);
    }),
  );
});

test('is off unless the export asks for it', async () => {
  const types = { a: 'text' } as const;
  expect(await cellsOf(types, await write(types, [['=1']], false))).toEqual(['=1']);
});
