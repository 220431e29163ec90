import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { beforeAll, expect, test } from 'vitest';

const script = path.resolve('scripts/lint-words.mjs');

function lint(files: Readonly<Record<string, string>>) {
  const folder = mkdtempSync(path.join(tmpdir(), 'sluice-words-'));
  execFileSync('git', ['init', '-q', folder]);
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(path.join(folder, path.dirname(name)), { recursive: true });
    writeFileSync(path.join(folder, name), text);
  }
  const ended = spawnSync(process.execPath, [script], { cwd: folder, encoding: 'utf8' });
  rmSync(folder, { recursive: true });
  return { status: ended.status, lines: ended.stdout.trimEnd().split('\n') };
}

const withOffender = [
  ['a comment', 'a.ts', '// The queue is told.\n', 'told'],
  ['a phrase on two lines', 'a.ts', '/**\n * Null where\n * there is none.\n */\n', 'where there'],
  ['a string', 'a.ts', "throw new Error('the database is away');\n", 'is away'],
  ['a template', 'a.ts', 'const a = `the file lies at \x24{place}`;\n', 'lies'],
  ['an identifier', 'a.ts', 'const isLeasedToNobody = true;\n', 'isLeasedToNobody'],
  ['the text of the page', 'a.tsx', 'const a = <p>For whoever reads it</p>;\n', 'whoever'],
  ['Markdown', 'a.md', 'Fails where `x` is set.\n', 'where …'],
  ['a comment of SQL', 'a.sql', '-- The manifest in force.\nselect 1;\n', 'in force'],
  ['YAML', 'a.yml', 'description: One a page.\n', 'One a page'],
  ['a rate without its unit', 'a.md', 'It exports 167 runs a second.\n', '167 runs a second'],
  [
    'a number that is not said',
    'a.ts',
    "const about = 'The newest so many rows.';\n",
    'newest so many',
  ],
  ['no more as no longer', 'a.md', 'Delete it if it is needed\nno more.\n', 'needed no more'],
  ['in progress in other words', 'a.ts', '// Waits for uploads under way.\n', 'under way'],
  ['a condition before its clause', 'a.ts', '// Where a worker runs, it takes it.\n', 'Where a'],
] as const;

const without = [
  [
    'SQL',
    'a.ts',
    "await query('select id from runs where not settled');\nconst b = `where \x24{a}`;\n",
  ],
  ['a place', 'a.ts', '// It knows where the file is. Continues from where it stopped.\n'],
  ['a place at the start of a sentence', 'a.ts', '/** Where the API serves. */\n'],
  [
    'words that hold a forbidden one',
    'a.ts',
    '// Recommended on a standby; a stand-in understands at least one.\n',
  ],
  ['numbers', 'a.ts', '// At most 4 parts, at least one; one of them, each of which is whole.\n'],
  ['code in Markdown', 'a.md', 'See `told`.\n\n```sh\necho nobody\n```\n'],
  [
    'generated Markdown',
    'a.md',
    '<!-- settings: npm run docs writes it -->\ntold\n<!-- /settings -->\n',
  ],
  ['a name of the system', 'a.ts', "run('postgres://nobody@127.0.0.1', 'nobody');\n"],
] as const;

/** What it prints of all cases, each in a folder of its own: one process finds them all. */
let printed: ReturnType<typeof lint>;
beforeAll(() => {
  const cases = [...withOffender, ...without];
  const files = cases.map(([, name, text], at) => [`${at}/${name}`, text]);
  printed = lint(Object.fromEntries(files));
});
const linesOf = (at: number) => printed.lines.filter((line) => line.startsWith(`${at}/`));

test('counts offenders and files, and then fails', () => {
  expect(printed.status).toBe(1);
  const files = withOffender.length + without.length;
  const last = `${withOffender.length} offenders in ${files} files`;
  expect(printed.lines.at(-1)).toBe(last);
});

test.each(withOffender.map(([what, name, , word], at) => [what, at, name, word] as const))(
  'finds a word in %s',
  (_, at, name, word) => {
    expect(linesOf(at)).toEqual([expect.stringContaining(`: ${word} → `)]);
    expect(linesOf(at)[0]).toContain(`${name}:`);
  },
);

test.each(without.map(([what], at) => [what, withOffender.length + at] as const))(
  'accepts %s',
  (_, at) => expect(linesOf(at)).toEqual([]),
);

test('accepts a folder without an offender', () => {
  expect(lint({ 'a.ts': '// fine\n' })).toEqual({ status: 0, lines: ['0 offenders in 1 file'] });
});

test('accepts a test that asserts a message of src until src has another message', () => {
  const files = { 'test/a.test.ts': "expect(said).toBe('the queue is away');\n" };
  const message = (text: string) => ({ ...files, 'src/a.ts': `export const m = '${text}';\n` });
  expect(lint(message('the queue is away')).lines).toEqual([
    'src/a.ts:1: is away → is unreachable; was removed',
    '1 offender in 2 files',
  ]);
  expect(lint(message('the queue is unreachable')).lines[0]).toContain('test/a.test.ts:1: is away');
});
