import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, onTestFinished } from 'vitest';

function makeFolder(atEnd: (remove: () => void) => void): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'sluice-test-'));
  atEnd(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** An empty folder until the tests of the file, or of the group, have ended. */
export const folderOfTests = () => makeFolder(afterAll);

/** An empty folder until this test has ended. */
export const folderOfTest = () => makeFolder(onTestFinished);
