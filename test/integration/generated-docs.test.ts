import { spawnSync } from 'node:child_process';
import { appendFileSync, cpSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { folderOfTest } from '../support/own-folder.ts';

const root = path.resolve(import.meta.dirname, '../..');
const script = path.join(root, 'scripts/generate-docs.mjs');

function check(cwd: string): { status: number | null; stdout: string } {
  return spawnSync(process.execPath, [script, '--check'], { cwd, encoding: 'utf8' });
}

test('the generated documentation is up to date, and a file that is not is named', () => {
  expect(check(root)).toMatchObject({ status: 0, stdout: '' });
  const folder = folderOfTest();
  for (const name of ['.env.example', 'docs']) {
    cpSync(path.join(root, name), path.join(folder, name), { recursive: true });
  }
  appendFileSync(path.join(folder, '.env.example'), 'LOG_LEVEL=debug\n');
  const { status, stdout } = check(folder);
  expect([status, stdout.match(/^\S+/gm)]).toEqual([1, ['.env.example']]);
});
