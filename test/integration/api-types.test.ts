import { spawnSync } from 'node:child_process';
import { appendFileSync, cpSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { projectRoot } from '../support/processes.ts';

const script = path.join(projectRoot, 'scripts/generate-api-types.mjs');
const generated = 'src/console/api-schema.d.ts';

function generate(cwd: string, ...options: string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [script, ...options], {
    cwd,
    encoding: 'utf8',
  });
  return { status, output: stdout + stderr };
}

test('the types of the API are those of its OpenAPI document', () => {
  expect(generate(projectRoot, '--check')).toEqual({ status: 0, output: '' });
});

test('stale types are named, and written anew', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'sluice-types-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  mkdirSync(path.join(folder, path.dirname(generated)), { recursive: true });
  cpSync(path.join(projectRoot, generated), path.join(folder, generated));
  appendFileSync(path.join(folder, generated), 'export type Stale = true;\n');
  expect(generate(folder, '--check')).toMatchObject({
    status: 1,
    output: expect.stringContaining(`${generated} is stale`),
  });
  expect(generate(folder).status).toBe(0);
  expect(generate(folder, '--check')).toEqual({ status: 0, output: '' });
});
