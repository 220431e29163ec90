import { randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { lstat, open, readFile, rename, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { SluiceError } from '../../domain/errors.ts';
import type { ManifestTag } from '../destination.ts';
import { hiddenPrefix, ignore, syncFolder } from './folders.ts';

/** A lock is held for a few milliseconds; one this old was left behind by a crash. */
const staleLockMs = 60_000;
const lockTries = 40;
const lockWaitMs = 50;

/** Changes with each replacement: a rename brings another inode and time. */
export async function fileTag(path: string): Promise<ManifestTag> {
  const found = await lstat(path, { bigint: true }).catch(ignore('ENOENT'));
  return found === undefined ? null : `${found.ino}-${found.size}-${found.mtimeNs}`;
}

/**
 * Compare and rename under a lock file, since file systems have no conditional rename. Breaking a
 * stale lock is the one gap: a process stopped for a minute between the two would not see it. The
 * fence of the run stands before that.
 */
export async function commitManifest(
  folder: string,
  name: string,
  body: Uint8Array,
  expected: ManifestTag,
): Promise<{ readonly etag: ManifestTag }> {
  const target = join(folder, name);
  const draft = join(folder, `${hiddenPrefix}${randomUUID()}.draft`);
  const flags = constants.O_CREAT | constants.O_EXCL | constants.O_WRONLY | constants.O_NOFOLLOW;
  try {
    const handle = await open(draft, flags, 0o644);
    try {
      await handle.writeFile(body);
      await handle.sync();
    } finally {
      await handle.close();
    }
    return await withLock(join(folder, `${hiddenPrefix}${name}.lock`), draft, async () => {
      const inForce = await fileTag(target);
      if (inForce !== expected) {
        const same = inForce !== null && Buffer.compare(await readFile(target), body) === 0;
        if (same) return { etag: inForce };
        throw new SluiceError('destination.conflict');
      }
      await rename(draft, target);
      await syncFolder(folder);
      return { etag: await fileTag(target) };
    });
  } finally {
    await unlink(draft).catch(ignore('ENOENT'));
  }
}

/** @param draft a file that was just written: its time is the file system's now */
async function withLock<T>(path: string, draft: string, run: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    const lock = await open(path, 'wx').catch(ignore('EEXIST'));
    if (lock !== undefined) {
      await lock.close();
      break;
    }
    if (attempt === lockTries)
      throw new SluiceError('destination.conflict', 'the manifest is locked');
    const [held, now] = await Promise.all([lstat(path).catch(ignore('ENOENT')), lstat(draft)]);
    const stale = held !== undefined && now.mtimeMs - held.mtimeMs > staleLockMs;
    if (stale) await unlink(path).catch(ignore('ENOENT'));
    else await wait(lockWaitMs);
  }
  try {
    return await run();
  } finally {
    await unlink(path).catch(ignore('ENOENT'));
  }
}
