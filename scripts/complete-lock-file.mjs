/**
 * A registry mirror may lack the binaries of platforms other than its own. `npm install` then
 * leaves them out of the lock file and `npm ci` refuses it, everywhere. This writes an entry for
 * each, from what the package that wants it says, so that every platform finds its own.
 */
import { readFileSync, writeFileSync } from 'node:fs';

const path = 'package-lock.json';
const lock = JSON.parse(readFileSync(path, 'utf8'));
const { packages } = lock;

const os = { darwin: 'darwin', linux: 'linux', win32: 'win32', android: 'android', freebsd: 'freebsd' };
const cpu = { x64: 'x64', arm64: 'arm64', arm: 'arm', ia32: 'ia32' };
const named = (words, table) => words.filter((word) => word in table).map((word) => table[word]);

for (const [parentPath, parent] of Object.entries(packages)) {
  for (const [name, version] of Object.entries(parent.optionalDependencies ?? {})) {
    const nested = `${parentPath}/node_modules/${name}`;
    const hoisted = `node_modules/${name}`;
    if (packages[nested] || packages[hoisted] || !/^\d/.test(version)) continue;
    const words = name.split(/[-/]/);
    packages[hoisted] = {
      version,
      cpu: named(words, cpu),
      ...(parent.dev ? { dev: true } : {}),
      ...(words.includes('musl') ? { libc: ['musl'] } : {}),
      optional: true,
      os: named(words, os),
    };
    process.stdout.write(`added ${name}@${version}\n`);
  }
}
lock.packages = Object.fromEntries(
  Object.entries(packages).sort(([a], [b]) => a.localeCompare(b, 'en')),
);
writeFileSync(path, `${JSON.stringify(lock, null, 2)}\n`);
