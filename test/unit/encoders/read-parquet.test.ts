import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { type ColumnType, textOfJson } from '../../../src/foundation/domain/row-block.ts';
import { parquet } from '../../../src/rows/encoders/parquet/definition.ts';
import { encodeParquet } from '../../support/parquet-readers.ts';
import { rowBlock } from '../../support/row-blocks.ts';
import { folderOfTests } from '../../support/own-folder.ts';

const folder = folderOfTests();

/** What `verify` reads back from a file of one column. */
async function readBack(sourceType: string, json: readonly string[], type: ColumnType = 'as_json') {
  const columns = [{ name: 'key', type: 'as_json' as const, sourceType }];
  const blocks = [
    rowBlock(
      columns,
      json.map((value) => [value]),
    ),
  ];
  const path = join(folder, 'file');
  await writeFile(path, await encodeParquet(columns, 'zstd', blocks));
  const found: (string | null)[] = [];
  const asked = [{ name: 'key', type }];
  for await (const [value] of parquet.read(path, asked, 'zstd')) found.push(value ?? null);
  return found;
}

it.each<[string, readonly string[]]>([
  ['numeric(9,2)', ['1.10', '-0.05', '0.00', '-9999999.99']],
  ['numeric(18,0)', ['999999999999999999', '-1', '0']],
  ['numeric(38,2)', [`${'9'.repeat(36)}.99`, `-${'9'.repeat(36)}.99`, '-0.01', '10.00']],
  ['numeric(20,20)', ['0.00000000000000000001']],
  ['numeric', ['1.10', '"NaN"', '12345678901234567890']],
  ['time without time zone', ['"00:00:00"', '"23:59:59.999999"', '"10:00:00.5"', '"12:30:50"']],
  ['shop.mood', ['"so \\"so\\""', '"\\"quoted\\""', '""']],
  ['inet', ['"10.0.0.1/8"']],
  ['integer[]', ['[1,null,-3]', '[]']],
  ['bigint[]', ['[9007199254740993]']],
  ['boolean[]', ['[true,null,false]']],
  ['text[]', ['["a \\"b\\"",null,"größe 🙂"]']],
  ['numeric(20,2)[]', ['[1.10,null,-123456789012345678.05]']],
  ['double precision[]', ['[0.1,1e+15,"NaN","-Infinity",-0]']],
  ['real[]', ['[0.1,1e+06,7.038531e-26,7.0385313e-26,-1.5000001e+10,"NaN"]']],
  ['date[]', ['["2024-02-29","0001-12-31 BC"]']],
  ['timestamp with time zone[]', ['["2024-03-01T00:00:00.5+00:00","2024-03-01T00:00:00+00:00"]']],
  ['timestamp without time zone[]', ['["2024-03-01T10:20:00.000001","0044-03-15T12:00:00 BC"]']],
  ['time without time zone[]', ['["10:00:00"]']],
  ['bytea[]', ['["\\\\x00ff"]']],
  ['jsonb[]', ['[{"a":1.10}]']],
])('a %s is read back as PostgreSQL prints it', async (sourceType, json) => {
  const expected = json.map(textOfJson);
  expect(await readBack(sourceType, json)).toEqual(expected);
});

it('a DECIMAL and a TIME are found by their text if the type of the column is not known', async () => {
  const large = '123456789012345678901';
  expect(await readBack('numeric(21,0)', [large], 'text')).toEqual([large]);
  expect(await readBack('numeric(9,2)', ['1.10'], 'text')).toEqual(['1.10']);
  expect(await readBack('time without time zone', ['"10:00:00.5"'], 'text')).toEqual([
    '10:00:00.5',
  ]);
});

it('a text that looks like JSON stays as it is', async () => {
  expect(await readBack('shop.label', ['"\\"a\\""', '"null"'])).toEqual(['"a"', 'null']);
});
