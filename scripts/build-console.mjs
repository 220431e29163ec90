/** Builds the operators' page into dist/console, only if one of its sources is newer. */
import { readdirSync, statSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const sources = ['src/console', 'vite.config.ts', 'package-lock.json'];
const built = 'dist/console/index.html';

function changedAt(path) {
  const stats = statSync(path, { throwIfNoEntry: false });
  if (!stats) return 0;
  const below = stats.isDirectory() ? readdirSync(path).map((name) => `${path}/${name}`) : [];
  // A folder's own time changes when a file is removed.
  return Math.max(stats.mtimeMs, ...below.map(changedAt));
}

process.chdir(root);
if (Math.max(...sources.map(changedAt)) >= changedAt(built)) {
  // Under a test runner it would be React's slow development build.
  process.env.NODE_ENV = 'production';
  const { build } = await import('vite');
  await build({ configFile: 'vite.config.ts', logLevel: 'warn' });
}
