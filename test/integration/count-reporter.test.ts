import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, it } from 'vitest';
import { projectRoot, startProcess } from '../support/processes.ts';
import { folderOfTests } from '../support/own-folder.ts';

const folder = folderOfTests();

const outside =
  'it("h", () => { setTimeout(() => { throw new Error("h"); }); return new Promise((done) => setTimeout(done, 20)); });';

/** Runs test files with the reporter and gives the exit code and the last line of the output. */
async function runTests(
  name: string,
  files: Readonly<Record<string, string>>,
  countsFile?: string,
): Promise<{ code: number | null; lastLine: string | undefined }> {
  const root = path.join(folder, name);
  await mkdir(root);
  for (const [file, text] of Object.entries(files)) await writeFile(path.join(root, file), text);
  const run = startProcess(
    process.execPath,
    [
      path.join(projectRoot, 'node_modules/vitest/vitest.mjs'),
      ...['run', '--root', root, '--globals', '--reporter', 'default', '--reporter'],
      path.join(projectRoot, 'test/support/count-reporter.ts'),
    ],
    { env: { COUNTS_FILE: countsFile } },
  );
  const { code } = await run.waitForExit();
  // Vitest writes where it looked for tests to stderr, which can come later.
  const lines = run.output().trimEnd().split('\n');
  return { code, lastLine: lines.findLast((line) => !/^(?:in|ex)clude: /.test(line)) };
}

it('counts what passed, and mentions no skipped tests if there are none', async () => {
  const run = await runTests('good', { 'a.test.js': 'it("a", () => {}); it("b", () => {});' });
  expect(run).toEqual({ code: 0, lastLine: '2 passed, 0 failed' });
});

it('counts a file that does not load, a hook that fails and an error outside of tests as failed', async () => {
  const run = await runTests('bad', {
    'mixed.test.js':
      'it("a", () => {}); it("b", () => { throw new Error("b"); }); it.skip("c", () => {}); it.todo("d");',
    'unloadable.test.js': 'import "./not-there.js"; it("e", () => {});',
    'hook.test.js':
      'describe("f", () => { beforeAll(() => { throw new Error("f"); }); it("g", () => {}); });',
    'outside.test.js': outside,
  });
  expect(run).toEqual({ code: 1, lastLine: '2 passed, 4 failed, 3 skipped' });
});

it('does not call a run without tests a success', async () => {
  expect(await runTests('none', {})).toEqual({ code: 1, lastLine: '0 passed, 1 failed' });
});

it('names the files that failed, and counts what passed only when it ran alone', async () => {
  const [first, second] = [path.join(folder, 'first.json'), path.join(folder, 'second.json')];
  const good = 'it("a", () => {});';
  const bad = 'it("b", () => { throw new Error("b"); }); it("c", () => {});';
  await runTests('busy', { 'good.test.js': good, 'bad.test.js': bad }, first);
  expect(await again('files', first)).toEqual(['bad.test.js']);

  await runTests('alone', { 'bad.test.js': bad.replace('throw new', '') }, second);
  expect(await again('summary', first, second)).toEqual([
    'failed beside other tests, passed alone: bad.test.js',
    '  b',
    '3 passed, 0 failed',
  ]);
  expect(await again('summary', first, first)).toEqual(['2 passed, 1 failed']);
});

it('runs nothing again if an error came from outside of the tests', async () => {
  const file = path.join(folder, 'outside.json');
  await runTests('from-outside', { 'a.test.js': outside }, file);
  expect(await again('files', file)).toEqual([]);
});

async function again(...parameters: string[]): Promise<string[]> {
  const script = path.join(projectRoot, '.ci/again.mjs');
  const run = startProcess(process.execPath, [script, ...parameters]);
  expect(await run.waitForExit()).toMatchObject({ code: 0 });
  const lines = run.output().trimEnd();
  return lines === '' ? [] : lines.split('\n');
}
