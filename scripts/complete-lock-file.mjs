/**
 * A registry mirror may lack the binaries of platforms other than its own. `npm install` then
 * leaves them out of the lock file and `npm ci` refuses it, everywhere. This writes an entry for
 * each, from what the package that wants it says, so that every platform finds its own.
 *
 *   node scripts/complete-lock-file.mjs           completes ./package-lock.json
 *   node scripts/complete-lock-file.mjs --check   writes nothing; exits 1 and names what is missing
 */
import { readFileSync, writeFileSync } from 'node:fs';

const lockPath = 'package-lock.json';
const systems = ['darwin', 'linux', 'win32', 'android', 'freebsd', 'openharmony'];
const processors = ['x64', 'arm64', 'arm', 'ia32', 'ppc64', 'riscv64', 's390x', 'loong64'];

/** Where Node finds `name` from inside the package at `parent`: there, or in a folder above it. */
function placesOf(parent, name) {
  const folders = parent.split(/(?:^|\/)node_modules\//).slice(1);
  const inside = folders.map((_, depth) => folders.slice(0, folders.length - depth));
  return [...inside, []].map((above) =>
    [...above, name].map((folder) => `node_modules/${folder}`).join('/'),
  );
}

/** Optional packages that another package wants and that Node would not find for it. */
function findMissing(packages) {
  const missing = [];
  for (const [parent, entry] of Object.entries(packages)) {
    for (const [name, version] of Object.entries(entry.optionalDependencies ?? {})) {
      const found = placesOf(parent, name).find((place) => packages[place]);
      // npm judges a range. An exact version must be that version.
      const isExact = /^\d/.test(version);
      if (found && (!isExact || packages[found].version === version)) continue;
      const top = `node_modules/${name}`;
      const place = packages[top] ? `${parent}/node_modules/${name}` : top;
      missing.push({ name, version, place, isExact, dev: entry.dev === true });
    }
  }
  return missing;
}

function makeEntry({ name, version, dev }) {
  const words = name.split(/[-/]/);
  return {
    version,
    cpu: processors.filter((word) => words.includes(word)),
    ...(dev ? { dev: true } : {}),
    ...(words.includes('musl') ? { libc: ['musl'] } : {}),
    optional: true,
    os: systems.filter((word) => words.includes(word)),
  };
}

const lock = JSON.parse(readFileSync(lockPath, 'utf8'));
const check = process.argv.includes('--check');
const missing = findMissing(lock.packages);
for (const wanted of missing) {
  const { name, version, place, isExact } = wanted;
  if (check || !isExact) {
    process.stdout.write(`missing ${name}@${version}\n`);
    process.exitCode = 1;
  } else {
    lock.packages[place] = makeEntry(wanted);
    process.stdout.write(`added ${name}@${version}\n`);
  }
}
if (!check && missing.length > 0) {
  lock.packages = Object.fromEntries(
    Object.entries(lock.packages).sort(([a], [b]) => a.localeCompare(b, 'en')),
  );
  writeFileSync(lockPath, `${JSON.stringify(lock, null, 2)}\n`);
}
