import { spawnSync } from 'node:child_process';
import { readFileSync, rmSync, statSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { projectRoot } from '../support/processes.ts';

const written = path.join(projectRoot, 'dist/api-schema.d.ts');

function generate() {
  const script = path.join(projectRoot, 'scripts/generate-api-types.mjs');
  const { status, stderr } = spawnSync(process.execPath, [script], { encoding: 'utf8' });
  return { status, stderr };
}

test('a build without the types of the API writes them, and the next one keeps them', () => {
  rmSync(written, { force: true });
  expect(generate()).toEqual({ status: 0, stderr: '' });
  expect(readFileSync(written, 'utf8')).toContain('readonly latest_runs: readonly components');
  const { mtimeMs } = statSync(written);
  expect(generate()).toEqual({ status: 0, stderr: '' });
  expect(statSync(written).mtimeMs).toBe(mtimeMs);
});
