import { spawnSync } from 'node:child_process';
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { atNight } from '../support/nightly.ts';
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

const script = path.join(root, 'scripts/sbom.mjs');

const run = (cwd: string, ...args: string[]) =>
  spawnSync(process.execPath, [script, ...args], { cwd, encoding: 'utf8' });

test('every package of a production install has an allowed licence', () => {
  expect(run(root, '--check')).toMatchObject({ status: 0, stdout: '' });
});

test('a package with another licence, or without one, is named', () => {
  const cwd = folderOfTest();
  const packages = {
    '': {},
    'node_modules/a': { version: '1.0.0', license: 'GPL-3.0-only' },
    'node_modules/b': { version: '2.0.0' },
    'node_modules/c': { version: '3.0.0', license: 'GPL-3.0-only', dev: true },
    'node_modules/d': { version: '4.0.0', license: 'MIT', optionalDependencies: { e: '4.0.0' } },
    'node_modules/e': { version: '4.0.0', optional: true },
  };
  writeFileSync(path.join(cwd, 'package-lock.json'), JSON.stringify({ packages }));
  const { status, stdout } = run(cwd, '--check');
  expect(status).toBe(1);
  expect(stdout.trim().split('\n')).toEqual([
    'a@1.0.0 has the licence GPL-3.0-only, which is not allowed',
    'b@2.0.0 has the licence unknown, which is not allowed',
  ]);
});

atNight(
  'the list has what a production install has, and its checksums, without development packages',
  () => {
    const cwd = folderOfTest();
    for (const file of ['package.json', 'package-lock.json', '.npmrc']) {
      cpSync(path.join(root, file), path.join(cwd, file));
    }
    expect(run(cwd).status).toBe(0);
    const sbom = JSON.parse(readFileSync(path.join(cwd, 'dist/sbom.cdx.json'), 'utf8')) as {
      readonly bomFormat: string;
      readonly components: readonly {
        readonly name: string;
        readonly hashes?: readonly object[];
      }[];
    };
    expect(sbom.bomFormat).toBe('CycloneDX');
    const names = sbom.components.map(({ name }) => name);
    // Development packages use these too.
    expect(names).toEqual(expect.arrayContaining(['fastify', 'ajv', '@aws-sdk/client-s3']));
    expect(names).not.toContain('vitest');
    expect(names).not.toContain('fauxqs');
    expect(sbom.components.find(({ name }) => name === 'fastify')?.hashes).toHaveLength(1);
    expect(readFileSync(path.join(cwd, 'dist/licences.md'), 'utf8')).toContain('| fastify |');
  },
);
