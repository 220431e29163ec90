/**
 * The service, all in one, restarted on save: the compiler watches the sources, and Node the files that it writes. Both end with
 * this process. `npm run dev` builds first. The page is served as built; `npm run dev:console` serves it from its sources.
 */
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

process.chdir(fileURLToPath(new URL('..', import.meta.url)));
// The compiler is a program that its launcher starts. Only a signal to both ends it, so they get a group of their own.
const compiler = spawn(
  'node_modules/.bin/tsc',
  ['--watch', '--preserveWatchOutput', '-p', 'tsconfig.build.json'],
  { stdio: ['ignore', 'inherit', 'inherit'], detached: true },
);
const service = spawn(
  process.execPath,
  ['--watch', '--watch-preserve-output', '--enable-source-maps', 'dist/main/all-in-one.js'],
  { stdio: 'inherit' },
);
const end = () => {
  if (compiler.exitCode === null && compiler.signalCode === null) process.kill(-compiler.pid);
  service.kill();
};
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, end);
for (const program of [compiler, service]) program.on('exit', end);
