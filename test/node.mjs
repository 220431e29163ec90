import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { run } from './run-program.mjs';

/**
 * `npm run test:node -- 24 [what vitest takes]`: the tests on another version of Node, which npm brings.
 * Every process that the tests start runs on it too.
 */
const [version = '', ...rest] = process.argv.slice(2);
if (!/^\d+(\.\d+){0,2}$/.test(version)) {
  process.stderr.write('Give a version of Node: npm run test:node -- 24\n');
  process.exit(2);
}

const folder = mkdtempSync(path.join(tmpdir(), 'sluice-node-'));
try {
  const name = `node-${process.platform}-${process.arch}`;
  run('npm', ['install', '--no-audit', '--no-fund', '--prefix', folder, `${name}@${version}`]);
  const bin = path.join(folder, 'node_modules', name, 'bin');
  const env = { ...process.env, PATH: `${bin}${path.delimiter}${process.env.PATH}` };
  const node = path.join(bin, 'node');
  run(node, ['--version'], env);
  process.exitCode = run(node, ['node_modules/vitest/vitest.mjs', 'run', ...rest], env, true);
} finally {
  rmSync(folder, { recursive: true });
}
