import { folderOfTest } from '../support/own-folder.ts';
import { execFileSync, spawnSync } from 'node:child_process';
import { appendFileSync, cpSync, rmSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';

const root = path.resolve(import.meta.dirname, '../..');
const script = path.join(root, 'scripts/generate-docs.mjs');
const generated = ['.env.example', 'docs/destinations.md', 'docs/errors.md', 'docs/models.md'];

function check(cwd: string): { status: number | null; stdout: string } {
  return spawnSync(process.execPath, [script, '--check'], { cwd, encoding: 'utf8' });
}

test('the generated documentation is up to date', () => {
  expect(check(root)).toMatchObject({ status: 0, stdout: '' });
});

test('outdated files are named, and written anew', () => {
  const folder = folderOfTest();
  for (const name of generated) cpSync(path.join(root, name), path.join(folder, name));
  rmSync(path.join(folder, 'docs/errors.md'));
  appendFileSync(path.join(folder, '.env.example'), 'LOG_LEVEL=debug\n');
  const { status, stdout } = check(folder);
  expect(status).toBe(1);
  expect(stdout.match(/^\S+/gm)?.toSorted()).toEqual(['.env.example', 'docs/errors.md']);
  execFileSync(process.execPath, [script], { cwd: folder });
  expect(check(folder)).toMatchObject({ status: 0, stdout: '' });
});
