import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { expect, test } from 'vitest';

const root = path.resolve(import.meta.dirname, '../..');
const script = path.join(root, 'scripts/generate-docs.mjs');

test('the generated documentation is up to date', () => {
  const checked = spawnSync(process.execPath, [script, '--check'], { cwd: root, encoding: 'utf8' });
  expect(checked).toMatchObject({ status: 0, stdout: '' });
});
