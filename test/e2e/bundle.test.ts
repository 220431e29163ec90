import { readFileSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { bundleFolder, projectRoot } from '../support/processes.ts';

interface ModuleList {
  /** By the bundle's file: the modules of the build that it has. */
  readonly modules: Readonly<Record<string, readonly string[]>>;
  /** What the bundle's files import that is not in it. */
  readonly imports: readonly string[];
}

describe('the bundle of the programs', () => {
  const { modules, imports }: ModuleList = JSON.parse(
    readFileSync(path.join(bundleFolder, 'modules.json'), 'utf8'),
  );
  const all = Object.values(modules).flat();

  test('has each module of ours once', () => {
    expect(all.filter((name, index) => all.indexOf(name) !== index)).toEqual([]);
    expect(all).toEqual(
      expect.arrayContaining([
        'foundation/domain/errors.js',
        'foundation/failpoints/failpoint.js',
        'main/run-worker.js',
        'main/run-child.js',
        'main/api-process.js',
      ]),
    );
  });

  test('imports nothing from the build, so that no module is loaded twice', () => {
    const { dependencies, devDependencies } = JSON.parse(
      readFileSync(path.join(projectRoot, 'package.json'), 'utf8'),
    );
    const packages = Object.keys({ ...dependencies, ...devDependencies });
    const isPackage = (name: string) =>
      packages.some((known) => name === known || name.startsWith(`${known}/`));
    expect(imports.filter((name) => !isBuiltin(name) && !isPackage(name))).toEqual([]);
  });
});
