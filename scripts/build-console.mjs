/** Builds the operators' page into dist/console, only if one of its sources is newer. */
import { fileURLToPath } from 'node:url';
import { changedAt } from './changed-at.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const sources = ['src/clients/console', 'vite.config.ts', 'package-lock.json'];
const built = 'dist/console/index.html';

process.chdir(root);
if (Math.max(...sources.map(changedAt)) >= changedAt(built)) {
  // Under a test runner it would be React's slow development build.
  process.env.NODE_ENV = 'production';
  const { build } = await import('vite');
  await build({ configFile: 'vite.config.ts', logLevel: 'warn' });
}
