import { existsSync, mkdirSync, realpathSync, statSync } from 'node:fs';
import module from 'node:module';
import { homedir } from 'node:os';
import path from 'node:path';

/** Node 22 and later have it. */
const { enableCompileCache } = module as { enableCompileCache?: (folder: string) => unknown };

/**
 * Keeps compiled code for the next start (Node 22 and later; elsewhere it does nothing). Call it before
 * anything else is loaded. Never fails: without a safe folder, and on a read-only file system, Node compiles
 * as always. Node itself follows NODE_COMPILE_CACHE, a folder that is used instead, and NODE_DISABLE_COMPILE_CACHE.
 */
export function useCompileCache(): void {
  if (!enableCompileCache) return;
  const folder = provideCacheFolder(homeOrNull());
  if (folder !== null) enableCompileCache(folder);
}

/**
 * The cache's folder in `home`, made if it is missing. Null if it cannot be made, or if another user could
 * put code into it: it or a folder above it is another user's (root's are safe) or writable by others.
 */
export function provideCacheFolder(home: string | null): string | null {
  if (home === null || !path.isAbsolute(home)) return null;
  try {
    const place = realpathSync(home);
    // Before anything is made: with `sudo`, the home can be that of another user.
    if (!isSafe(place)) return null;
    const folder = ['.cache', 'sluice', 'compiled'].reduce(makeFolderIn, place);
    // Any of the three can be a link, or older than we are.
    return realpathSync(folder) === folder && isSafe(folder) ? folder : null;
  } catch {
    return null;
  }
}

/** One by one: `recursive` never ends in a file system that answers ENOENT to each mkdir, as /proc does. */
function makeFolderIn(parent: string, name: string): string {
  const folder = path.join(parent, name);
  if (!existsSync(folder)) mkdirSync(folder, { mode: 0o700 });
  return folder;
}

/** A user without an entry in the list of users and without HOME has none. */
function homeOrNull(): string | null {
  try {
    return homedir();
  } catch {
    return null;
  }
}

/** Whether only this user and root can change what is at `folder`, a path without links. */
function isSafe(folder: string): boolean {
  const user = process.geteuid?.();
  // Windows has neither these users nor these rights. A home there is its user's alone.
  if (user === undefined) return true;
  const { uid, mode } = statSync(folder);
  const isOurs = uid === user || uid === 0;
  const othersWrite = (mode & 0o022) !== 0;
  // In a sticky folder (/tmp) others cannot rename or remove what is ours.
  const isSticky = (mode & 0o1000) !== 0;
  const parent = path.dirname(folder);
  return isOurs && (!othersWrite || isSticky) && (parent === folder || isSafe(parent));
}
