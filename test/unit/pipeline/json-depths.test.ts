import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { SluiceError } from '../../../src/foundation/domain/errors.ts';
import { exactJson } from '../../../src/foundation/domain/exact-json.ts';
import { maxJsonLevels } from '../../../src/foundation/domain/json-depth.ts';
import type { Column } from '../../../src/foundation/domain/row-block.ts';
import { encoders, jsonOfField, openEncoder } from '../../../src/rows/encoders/index.ts';
import { JsonDepths } from '../../../src/rows/pipeline/value-rules.ts';
import { firstByDay } from '../../support/nightly.ts';
import { encodeAll } from '../../support/parquet-readers.ts';
import { columnsOf, rowBlock } from '../../support/row-blocks.ts';
import { folderOfTest } from '../../support/own-folder.ts';

const columns = columnsOf({ id: 'text', b: 'jsonb', j: 'json', list: 'as_json', text: 'text' });

const objects = (levels: number) => `${'{"a": '.repeat(levels)}1${'}'.repeat(levels)}`;
const lists = (levels: number) => '['.repeat(levels) + ']'.repeat(levels);

/** A row with this value in one column. */
const rowWith = (name: string, value: string) =>
  columns.map((column) => (column.name === 'id' ? 'row 1' : column.name === name ? value : null));

async function check(name: string, value: string): Promise<string | null> {
  const toJson = ({ type }: Column) => jsonOfField(type);
  const depths = new JsonDepths(columns, [0], toJson);
  const block = rowBlock(columns, [columns.map(() => null), rowWith(name, value)]);
  try {
    await depths.check(block);
    return null;
  } catch (error) {
    if (!(error instanceof SluiceError)) throw error;
    return error.message;
  }
}

it.each(['b', 'j', 'list'])(
  'a value of column %s is refused from 1,001 levels on, with its row and column',
  async (name) => {
    const refused = `source.json_too_deep: column ${name} of the row with the key {"id":"row 1"} has more than 1,000 levels`;
    for (const nest of [objects, lists]) {
      expect(await check(name, nest(maxJsonLevels))).toBeNull();
      expect(await check(name, nest(maxJsonLevels + 1))).toBe(refused);
      expect(await check(name, nest(100_000))).toBe(refused);
    }
  },
);

it('brackets in texts, and many values beside each other, are no depth', async () => {
  const value = `[${JSON.stringify('"[{\\'.repeat(5_000))}, ${'[{}],'.repeat(5_000)} []]`;
  expect(JSON.parse(value)).toHaveLength(5_002);
  expect(await check('j', value)).toBeNull();
  expect(await check('text', lists(5_000))).toBeNull();
});

it('the levels of a long value count across the pieces in which it is looked at', async () => {
  const filler = `"${'x'.repeat(3 * 1024 ** 2)}[\\""`;
  const within = (levels: number) =>
    `${`[${filler},`.repeat(3)}${lists(levels - 3)}${']'.repeat(3)}`;
  expect(await check('j', within(maxJsonLevels))).toBeNull();
  expect(await check('j', within(maxJsonLevels + 1))).toContain('source.json_too_deep');
});

it.each(firstByDay(1, encoders))(
  'a file of $format is read whatever its depth, and with texts of many MiB',
  async (definition) => {
    const folder = folderOfTest();
    const path = join(folder, 'file');
    const long = `{"a": "${'\\n"'.replace('"', '\\"').repeat(2 * 1024 ** 2)}"}`;
    const rows = [rowWith('b', objects(100_000)), rowWith('j', long)];
    const block = rowBlock(columns, rows);
    await writeFile(path, await encodeAll(openEncoder(definition, null, columns), [block]));
    const read: unknown[] = [];
    for await (const row of definition.read(path, columns, null)) read.push(row);
    expect(JSON.stringify(read) === JSON.stringify(rows)).toBe(true);
  },
);

it('JSON that is shown keeps numbers that a double would round, in texts of any length', () => {
  expect(exactJson(`[9007199254740993, 1.5, "9007199254740993 \\" 1"]`)).toBe(
    `["9007199254740993", 1.5, "9007199254740993 \\" 1"]`,
  );
  const long = JSON.stringify(['x'.repeat(20 * 1024 ** 2)]);
  expect(exactJson(long) === long).toBe(true);
});
