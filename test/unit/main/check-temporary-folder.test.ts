import { existsSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, expect, test, vi } from 'vitest';
import { makeFolder } from '../../../src/state/embedded-postgres/make-folder.ts';
import { findTemporaryFault } from '../../../src/main/check-folders.ts';

const folder = mkdtempSync(path.join(tmpdir(), 'sluice-tmpdir-'));
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true, force: true });
});

test('a folder that works is left as it was; one that does not is named with the remedy', async () => {
  vi.stubEnv('TMPDIR', folder);
  expect([await findTemporaryFault(), readdirSync(folder)]).toEqual([null, []]);
  const missing = path.join(folder, 'missing');
  vi.stubEnv('TMPDIR', missing);
  expect(await findTemporaryFault()).toEqual({
    text: `TMPDIR: ${missing} does not exist (ENOENT). Make it a folder that this user can write, or set TMPDIR to another folder.`,
    shown: 'the temporary folder (TMPDIR) does not exist (ENOENT); runs that spool rows fail',
    isFull: false,
  });
  const file = path.join(folder, 'file');
  writeFileSync(file, '');
  vi.stubEnv('TMPDIR', file);
  expect((await findTemporaryFault())?.text).toContain('is not in a folder (ENOTDIR)');
});

test.skipIf(!existsSync('/proc/self'))(
  'a file system in which no folder can be made ends the start instead of holding it up',
  async () => {
    await expect(makeFolder('/proc/sluice/data')).rejects.toThrow(/ENOENT|EACCES|EPERM/);
    const deep = path.join(mkdtempSync(path.join(tmpdir(), 'sluice-deep-')), 'a/b/c');
    await makeFolder(deep);
    await makeFolder(deep);
    expect(statSync(deep).isDirectory()).toBe(true);
    writeFileSync(path.join(deep, 'file'), '');
    await expect(makeFolder(path.join(deep, 'file/d'))).rejects.toThrow('ENOTDIR');
  },
);
