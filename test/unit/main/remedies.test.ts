import { existsSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { join } from 'node:path';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { SluiceError } from '../../../src/foundation/domain/errors.ts';
import { eventsModel } from '../../../src/foundation/domain/events-model.ts';
import { checkQueryOf } from '../../../src/main/api-process.ts';
import { findFileRootFault, findTemporaryFault } from '../../../src/main/check-folders.ts';
import { destinationOf, registry } from '../../../src/main/connectors.ts';
import { refusalOf, toApiError } from '../../../src/service/api/errors.ts';
import { makeFolder } from '../../../src/state/embedded-postgres/make-folder.ts';
import { contextWith } from '../../conformance/destination-suite.ts';
import { folderOfTest } from '../../support/own-folder.ts';

test('an interval with its unit outside the quotes is refused with what to write', () => {
  const check = checkQueryOf([eventsModel]);
  const query = (interval: string) =>
    check(`SELECT uuid FROM events WHERE timestamp > created_at - ${interval}`, 'events', false);
  expect(query(`interval '1 day'`).ok).toBe(true);
  for (const interval of [`interval '1' day`, `interval '1.5' second(3)`]) {
    const refused = query(interval);
    expect(refused.ok ? '' : refused.problems[0]?.detail).toContain(`interval '1 day'`);
  }
});

test('the prefix of a File destination is refused if a folder has too long a name', () => {
  const { validate } = destinationOf(registry, 'File');
  const context = contextWith({ fileDestinationRoot: '/tmp' });
  const attributes = (prefix: string) =>
    validate({ directory: 'a', prefix }, context).map(({ attr }) => attr);
  expect(attributes(`${'x'.repeat(255)}/${'y'.repeat(255)}`)).toEqual([]);
  expect(attributes('x'.repeat(256))).toEqual(['prefix']);
  expect(attributes(`a/${'x'.repeat(220)}{batch_export_id}/b`)).toEqual(['prefix']);
  expect(attributes(`${'x'.repeat(200)}/{batch_export_id}${'ö'.repeat(109)}/{year}`)).toEqual([]);
  expect(attributes(`{batch_export_id}${'ö'.repeat(110)}`)).toEqual(['prefix']);
});

test('a source that can never be exported is no server error', () => {
  const error = new SluiceError('source.unsupported', 'its encoding is SQL_ASCII');
  const answer = toApiError(refusalOf(error, {} as Parameters<typeof refusalOf>[1]));
  expect(answer.status).toBe(400);
  expect(answer.problems[0]?.detail).toContain('SQL_ASCII');
});

test('the folder of File destinations that is missing is named with its remedy', async () => {
  const folder = folderOfTest();
  const fault = (root: string | null) => findFileRootFault({ FILE_DESTINATION_ROOT: root });
  expect(await fault(null)).toBeNull();
  expect(await fault(folder)).toBeNull();
  await writeFile(join(folder, 'file'), '');
  expect(await fault(join(folder, 'file'))).toMatch(/^FILE_DESTINATION_ROOT: .*is not a folder/);
  expect(await fault(join(folder, 'gone'))).toMatch(/does not exist. Create the folder/);
});

describe('the temporary folder', () => {
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
});
