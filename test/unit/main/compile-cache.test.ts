import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { provideCacheFolder } from '../../../src/main/compile-cache.ts';

/** A home of this user, in the sticky temporary folder. */
function openHome(): string {
  const home = realpathSync(mkdtempSync(path.join(tmpdir(), 'sluice-home-')));
  onTestFinished(() => rmSync(home, { recursive: true }));
  return home;
}

const rightsOf = (folder: string) => statSync(folder).mode & 0o777;

test('the folder is made in the home, for its user alone, whatever the umask', () => {
  const home = openHome();
  const before = process.umask(0);
  onTestFinished(() => void process.umask(before));
  const folder = provideCacheFolder(home);
  expect(folder).toBe(path.join(home, '.cache/sluice/compiled'));
  for (const name of ['.cache', '.cache/sluice', '.cache/sluice/compiled']) {
    expect(rightsOf(path.join(home, name))).toBe(0o700);
  }
  expect(provideCacheFolder(home)).toBe(folder);
});

test.each(['', '.cache', '.cache/sluice', '.cache/sluice/compiled'])(
  'it is not used if others can write to %j of the home',
  (name) => {
    const home = openHome();
    expect(provideCacheFolder(home)).not.toBeNull();
    chmodSync(path.join(home, name), 0o770);
    expect(provideCacheFolder(home)).toBeNull();
  },
);

test('it is not used if it is a link, or if a file is in its place', () => {
  const linked = openHome();
  mkdirSync(path.join(linked, 'elsewhere'), { mode: 0o700 });
  symlinkSync('elsewhere', path.join(linked, '.cache'));
  expect(provideCacheFolder(linked)).toBeNull();
  const taken = openHome();
  writeFileSync(path.join(taken, '.cache'), '');
  expect(provideCacheFolder(taken)).toBeNull();
});

test.each([null, '', '.', '/dev/null', '/proc/self', '/no such folder'])(
  'a home of %j has none, and that is no error',
  (home) => {
    expect(provideCacheFolder(home)).toBeNull();
  },
);

test.runIf(process.getuid?.() === 0)('nothing is made in the home of another user', () => {
  const home = openHome();
  chownSync(home, 54_321, 54_321);
  expect(provideCacheFolder(home)).toBeNull();
  expect(existsSync(path.join(home, '.cache'))).toBe(false);
});
