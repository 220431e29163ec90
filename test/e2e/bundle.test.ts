import { readFileSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import path from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import {
  backfill,
  createS3Export,
  hour,
  insertEvents,
  untilEnded,
} from '../support/exported-events.ts';
import { type Installation, startInstallation } from '../support/installation.ts';
import { atNight } from '../support/nightly.ts';
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

describe('a bundled process', () => {
  let installation: Installation;
  afterEach(() => installation?.close());

  atNight('acts at its failpoints, with its own classes of errors', async () => {
    installation = await startInstallation({ workers: 0 });
    const { pool, tenant } = installation;
    await insertEvents(pool, { team: tenant.projectIds[0], rows: 60, ...hour });
    const exportId = await createS3Export(installation);
    await backfill(installation, exportId);
    const doomed = await installation.startWorker({ FAILPOINTS: 'before_manifest=kill' });
    expect(await doomed.waitForExit()).toEqual({ code: null, signal: 'SIGKILL' });

    await installation.startWorker({ FAILPOINTS: 'before_open=error(source.unsupported)@1' });
    // An error of another copy of its class would be an unexpected one, and the run tried again.
    const [run] = await untilEnded(installation, exportId);
    expect(run).toMatchObject({ status: 'Failed', errorCode: 'source.unsupported', attempt: 2 });
  });
});
