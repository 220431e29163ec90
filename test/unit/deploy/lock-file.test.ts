import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { folderOfTest } from '../../support/own-folder.ts';

const root = path.resolve(import.meta.dirname, '../../..');
const script = path.join(root, 'scripts/complete-lock-file.mjs');

type Packages = Record<string, { version?: string; optionalDependencies?: Record<string, string> }>;

function run(cwd: string, ...args: string[]): { status: number | null; stdout: string } {
  return spawnSync(process.execPath, [script, ...args], { cwd, encoding: 'utf8' });
}

function folderWith(packages: Packages): string {
  const folder = folderOfTest();
  writeFileSync(path.join(folder, 'package-lock.json'), JSON.stringify({ packages }));
  return folder;
}

function packagesIn(folder: string): Packages {
  const text = readFileSync(path.join(folder, 'package-lock.json'), 'utf8');
  return (JSON.parse(text) as { packages: Packages }).packages;
}

test('our lock file has the binaries of every platform', () => {
  expect(run(root, '--check')).toMatchObject({ status: 0, stdout: '' });
});

test('a binary that is missing is named, and added with its platform, beside one of another version', () => {
  const folder = folderWith({
    '': {},
    'node_modules/a': {
      version: '2.0.0',
      optionalDependencies: { '@a/linux-x64-musl': '2.0.0', '@a/darwin-arm64': '2.0.0' },
    },
    'node_modules/@a/darwin-arm64': { version: '2.0.0' },
    'node_modules/b/node_modules/c': { optionalDependencies: { 'c-linux-arm64': '3.0.0' } },
    'node_modules/c-linux-arm64': { version: '2.0.0' },
  });
  expect(run(folder, '--check')).toMatchObject({
    status: 1,
    stdout: 'missing @a/linux-x64-musl@2.0.0\nmissing c-linux-arm64@3.0.0\n',
  });
  run(folder);
  const platform = { cpu: ['x64'], libc: ['musl'], optional: true, os: ['linux'] };
  expect(packagesIn(folder)).toMatchObject({
    'node_modules/@a/linux-x64-musl': { version: '2.0.0', ...platform },
    'node_modules/c-linux-arm64': { version: '2.0.0' },
    'node_modules/b/node_modules/c/node_modules/c-linux-arm64': { version: '3.0.0' },
  });
  expect(run(folder, '--check').status).toBe(0);
});

test('each package accepts this Node, so npm ci prints no warning', () => {
  const args = ['ci', '--dry-run', '--offline', '--ignore-scripts', '--engine-strict'];
  const { status, stderr } = spawnSync('npm', args, { cwd: root, encoding: 'utf8' });
  expect(stderr).not.toMatch(/Not compatible/);
  expect(status).toBe(0);
});
