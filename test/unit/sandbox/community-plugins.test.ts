import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { inspectPlugin } from '../../../src/extensions/own-plugins/own-plugins.ts';
import { withDefaults } from '../../../src/foundation/domain/plugin.ts';
import { readFields } from '../../../src/service/api/transformations/input.ts';
import { applyPlugin } from '../../support/sandbox/apply-plugin.ts';

interface Example {
  readonly shows: string;
  readonly config: Readonly<Record<string, string>>;
  readonly before: object;
  readonly after?: object | null;
  /** Of the row. */
  readonly error?: string;
  /** Of the setup. */
  readonly setup?: string;
}

const root = path.resolve(import.meta.dirname, '../../support/sandbox/plugins');
const folders = readdirSync(root).filter((name) => name !== 'README.md');

function read(folder: string) {
  const fileOf = (name: string) => path.join(root, folder, name);
  const sourceFile = ['index.js', 'index.ts.txt'].map(fileOf).find((file) => existsSync(file));
  const parse = (name: string) => JSON.parse(readFileSync(fileOf(name), 'utf8'));
  const fields = readFields(parse('plugin.json').config ?? []).flatMap((field) => field ?? []);
  const examples: Example[] = parse('examples.json');
  return { source: readFileSync(sourceFile ?? '', 'utf8'), fields, examples };
}

test('there are eight', () => {
  expect(folders).toHaveLength(8);
});

describe.each(folders)('%s', (folder) => {
  const { source, fields, examples } = read(folder);

  test('can be installed as it is', async () => {
    expect(await inspectPlugin(source)).toEqual([]);
  });

  test.each(examples)('$shows', async ({ config, before, after, error, setup }) => {
    const run = applyPlugin({ source, config: withDefaults(fields, config) }, before);
    if (setup !== undefined) {
      await expect(run).rejects.toMatchObject({
        fault: 'setup',
        message: expect.stringContaining(setup),
      });
    } else {
      expect(await run).toEqual([error === undefined ? after : `error: ${error}`]);
    }
  });
});
