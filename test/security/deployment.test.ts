import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { folderOfTest } from '../support/own-folder.ts';

const root = path.resolve(import.meta.dirname, '../..');
const read = (name: string) => readFileSync(path.join(root, name), 'utf8');

interface Locked {
  readonly integrity?: string;
  readonly resolved?: string;
  readonly dev?: boolean;
}

describe('the lock file', () => {
  const { packages } = JSON.parse(read('package-lock.json')) as {
    readonly packages: Readonly<Record<string, Locked>>;
  };
  const locked = Object.entries(packages).filter(([name]) => name !== '');

  test('has the checksum of every package, also of binaries for other systems', () => {
    const without = locked.filter(([, { integrity }]) => !integrity?.startsWith('sha512-'));
    expect(without.map(([name]) => name)).toEqual([]);
  });

  test('names no registry', () => {
    expect(locked.filter(([, { resolved }]) => resolved !== undefined)).toEqual([]);
  });

  test('needs no S3 server in production', () => {
    expect(packages['node_modules/fauxqs']?.dev).toBe(true);
  });
});

/** Node's answer for a package that is not installed, given for fauxqs. */
const withoutFauxqs = `data:text/javascript,${encodeURIComponent(`
  import { register } from 'node:module';
  const hook = 'export async function resolve(name, context, next) {' +
    'if (name === "fauxqs") throw Object.assign(new Error(name), { code: "ERR_MODULE_NOT_FOUND" });' +
    'return next(name, context); }';
  register('data:text/javascript,' + encodeURIComponent(hook));
`)}`;

test('without its S3 server the quickstart says what to install', () => {
  const folder = folderOfTest();
  const built = JSON.stringify(path.join(root, 'dist/clients/quickstart/local-s3.js'));
  const at = JSON.stringify(folder);
  const program = `import { openQuickstartS3, placeQuickstartS3 } from ${built};
    const config = { SLUICE_DATA_DIR: ${at} };
    await placeQuickstartS3(config);
    await openQuickstartS3(config).catch((error) => console.log(error.name, error.message));`;
  const { stdout } = spawnSync(
    process.execPath,
    ['--import', withoutFauxqs, '--input-type=module', '--eval', program],
    { encoding: 'utf8' },
  );
  expect(stdout).toMatch(/^StartError .*npm ci without --omit=dev/);
});
