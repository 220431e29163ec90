import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';

const root = path.resolve(import.meta.dirname, '../..');
const read = (file: string): string => readFileSync(path.join(root, file), 'utf8');
const list = (folder: string): string[] =>
  readdirSync(path.join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => !name.split(path.sep).includes('node_modules'))
    .map((name) => `${folder}/${name.split(path.sep).join('/')}`);

const folders = [
  'src',
  'test',
  'docs',
  'deploy',
  'bench',
  'scripts',
  'migrations',
  'client',
  '.ci',
];
const files = [...folders.flatMap(list), ...readdirSync(root)];
const pages = files.filter(
  (file) =>
    /^(README|CONTRIBUTING)\.md$|^docs\/(internals\/)?[^/]+\.md$/.test(file) ||
    /\/README\.md$/.test(file),
);
// This file names what does not exist.
const code = files.filter((file) => /(?<!named-in-pages\.test)\.(ts|tsx|mjs|sql)$/.test(file));
const source = code.filter((file) => file.startsWith('src/'));
const texts = new Map(code.map((file) => [file, read(file)]));
const holds = (within: readonly string[], text: string): boolean =>
  within.some((file) => texts.get(file)?.replaceAll("\\'", "'").includes(text));

/** A room's README names the files of its own folder, and others by a path from their room. */
function findFiles(page: string, name: string): readonly string[] {
  const named = code.filter((file) => file === name || file.endsWith(`/${name}`));
  const isRoom = page.startsWith('src/') && page !== 'src/README.md';
  const folder = `${path.posix.dirname(page)}/`;
  return isRoom && !name.includes('/') ? named.filter((file) => file.startsWith(folder)) : named;
}

/** Files, symbols, tests, commands, metrics and panels that a page names and that do not exist. */
function findMissing(page: string, text: string): readonly string[] {
  const prose = text.replace(/^ *```[\s\S]*?^ *```/gm, '');
  const missing: string[] = [];
  for (const [, name = '', symbol] of prose.matchAll(
    /`([\w./-]+\.(?:ts|tsx|mjs|sql))(?:: (\w+))?`/g,
  )) {
    // The build makes these.
    if (name.startsWith('dist/')) continue;
    const found = findFiles(page, name);
    if (found.length === 0) missing.push(name);
    else if (symbol && !holds(found, symbol)) missing.push(`${name}: ${symbol}`);
  }
  for (const [, script = ''] of prose.matchAll(/npm run (?:-s )?([\w:-]+)/g)) {
    if (!Object.hasOwn(scripts, script)) missing.push(`npm run ${script}`);
  }
  for (const [, metric = ''] of prose.matchAll(/`(sluice_\w+)\b(?!\.py)/g)) {
    if (!holds(source, metric)) missing.push(metric);
  }
  for (const [named] of prose.matchAll(/panels? \*[^*]+\*(?: and \*[^*]+\*)*/g)) {
    for (const [, panel = ''] of named.matchAll(/\*([^*]+)\*/g)) {
      if (!dashboard.includes(`"title": "${panel}"`)) missing.push(`panel ${panel}`);
    }
  }
  return [...missing, ...findMissingTests(prose)];
}

const dashboard = read('deploy/grafana/sluice.json');
const { scripts } = JSON.parse(read('package.json')) as {
  readonly scripts: Record<string, string>;
};

/** `file.test.ts` › *name*, or › `mutant`, within a paragraph or a row of a table. A name may end in …. */
function findMissingTests(prose: string): readonly string[] {
  const missing: string[] = [];
  for (const part of prose.split(/\n\s*\n|\n(?=\|)/)) {
    let within: readonly string[] = [];
    const named = /`([\w./-]+\.test\.ts)`|›\s+(?:\*([^*]+)\*|`(\w+)`)/g;
    for (const [, file, name, mutant] of part.matchAll(named)) {
      if (file) within = code.filter((one) => one === file || one.endsWith(`/${file}`));
      else if (mutant) {
        if (
          !holds(
            code.filter((one) => one.startsWith('test/model/')),
            mutant,
          )
        )
          missing.push(mutant);
      } else {
        const words = name?.replace(/\s+/g, ' ').replace(/…$/, '') ?? '';
        if (!holds(within, words)) missing.push(`${within.join(', ')} › ${words}`);
      }
    }
  }
  return missing;
}

test.each(pages)('%s names files, symbols and tests that exist', (page) => {
  expect(findMissing(page, read(page))).toEqual([]);
});

test('a name that does not exist is found', () => {
  const room = 'src/service/scheduling/README.md';
  expect(findMissing(room, 'Begin with `plan.ts`, then `plan.ts: planTicks`.')).toEqual([]);
  // It is in another room.
  expect(findMissing(room, '`crowd.ts`')).toEqual(['crowd.ts']);
  expect(findMissing(room, '`plan.ts: noSuchName`')).toEqual(['plan.ts: noSuchName']);
  expect(findMissing('docs/x.md', 'Run `npm run nothing`, see `sluice_nothing_total`.')).toEqual([
    ...['npm run nothing', 'sluice_nothing_total'],
  ]);
  expect(findMissing('docs/x.md', 'Look at the panels *Runs* and *Nothing*.')).toEqual([
    'panel Nothing',
  ]);
  expect(findMissing('docs/x.md', '`test/model/commit.test.ts` › `no_such_mutant`')).toEqual([
    'no_such_mutant',
  ]);
  expect(findMissing('docs/x.md', '`docs-blocks.test.ts` › *no test has\nthis name*')).toEqual([
    'test/unit/docs-blocks.test.ts › no test has this name',
  ]);
});
