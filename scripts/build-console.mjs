/** Builds the operators' page into dist/console, only if one of its sources is newer. */
import { fileURLToPath } from 'node:url';
import { changedAt } from './changed-at.mjs';
import { compressFiles } from './compress-files.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const sources = [
  'src/clients/console',
  'client/check',
  'vite.config.ts',
  'package-lock.json',
  'scripts',
];
const folder = 'dist/console';
const built = `${folder}/index.html.br`;

process.chdir(root);
if (Math.max(...sources.map(changedAt)) >= changedAt(built)) {
  // Under a test runner it would be React's slow development build.
  process.env.NODE_ENV = 'production';
  const { build } = await import('vite');
  await build({ configFile: 'vite.config.ts', logLevel: 'warn' });
  compressFiles(folder);
}
