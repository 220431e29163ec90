import { randomUUID } from 'node:crypto';
import { type BigIntStats, constants } from 'node:fs';
import { link, lstat, open, readFile, rename, unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { SluiceError } from '../../../foundation/domain/errors.ts';
import type { FileFacts, FileOptions, ManifestTag, PutLease } from '../destination.ts';
import { systemCode } from './errors.ts';
import { hiddenPrefix, ignore, syncFolder } from './folders.ts';

/** A lock is held for a few milliseconds; one this old was left behind by a crash. */
const staleLockMs = 60_000;
const lockTries = 40;
const lockWaitMs = 50;

/** Changes with each replacement: a rename brings another inode and time. */
export async function fileTag(path: string): Promise<ManifestTag> {
  const stats = await lstat(path, { bigint: true }).catch(ignore('ENOENT'));
  return stats === undefined ? null : tagOf(stats);
}

/** The tag of a file that is open: its name may have another file by now. */
export function tagOf({ ino, size, mtimeNs }: BigIntStats): string {
  return `${ino}-${size}-${mtimeNs}`;
}

/**
 * Renames a file to `name` if `name` still has the tag `expected`. If `name` must be free, it is made
 * as a link, which the file system refuses if the name exists. File systems have no conditional rename,
 * so a replacement compares and renames under a lock file. One gap remains: a process that is stopped
 * for a minute between the two does not see that its lock was broken. The run's fence is checked before
 * that.
 *
 * @param lease looked at last, before the name is given
 * @returns the tag of the file under its name
 * @throws SluiceError `destination.conflict`; `run.lease_lost`
 */
export async function replaceFile(
  folder: string,
  name: string,
  path: string,
  expected: ManifestTag,
  lease?: PutLease,
): Promise<ManifestTag> {
  const target = join(folder, name);
  await lease?.extend(false);
  if (expected === null) {
    checkLease(lease);
    try {
      await link(path, target);
    } catch (error) {
      if (systemCode(error) !== 'EEXIST') throw error;
      throw new SluiceError('destination.conflict', undefined, error);
    }
    await unlink(path).catch(ignore('ENOENT'));
    return await fileTag(target);
  }
  return await withLock(join(folder, `${hiddenPrefix}${name}.lock`), path, async () => {
    if ((await fileTag(target)) !== expected) throw new SluiceError('destination.conflict');
    checkLease(lease);
    await rename(path, target);
    return await fileTag(target);
  });
}

function checkLease(lease: PutLease | undefined): void {
  if (lease?.holds() === false) throw new SluiceError('run.lease_lost');
}

export async function commitManifest(
  folder: string,
  name: string,
  body: Uint8Array,
  expected: ManifestTag,
  lease?: PutLease,
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
    const put = replaceFile(folder, name, draft, expected, lease);
    const etag = await put.catch(async (error: unknown) => {
      const conflict = error instanceof SluiceError && error.code === 'destination.conflict';
      const tag = conflict ? await fileTag(target) : null;
      if (tag === null || Buffer.compare(await readFile(target), body) !== 0) throw error;
      return tag;
    });
    await syncFolder(folder);
    return { etag };
  } finally {
    await unlink(draft).catch(ignore('ENOENT'));
  }
}

/** @param draft a file that was just written: its time shows the file system's clock */
async function withLock<T>(path: string, draft: string, run: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    const lock = await open(path, 'wx').catch(ignore('EEXIST'));
    if (lock !== undefined) {
      await lock.close();
      break;
    }
    if (attempt === lockTries)
      throw new SluiceError('destination.conflict', 'another process is writing the manifest');
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

/** Which export and run wrote a file: a hidden file beside it, whose name holds its tag. A changed file has no owner. */
const pathOf = (folder: string, tag: string) => join(folder, `${hiddenPrefix}owner-${tag}`);

/** To be called before the file gets its name. */
export async function noteOwner(
  folder: string,
  tag: ManifestTag,
  { owner, run }: Pick<FileOptions, 'owner' | 'run'>,
): Promise<void> {
  if (tag === null || owner === undefined) return;
  const words = run ? [owner, run.id, run.era] : [owner];
  await writeFile(pathOf(folder, tag), words.join(' '), { mode: 0o644 });
}

export async function readOwner(
  folder: string,
  tag: ManifestTag,
): Promise<Required<Pick<FileFacts, 'owner' | 'run'>>> {
  const text =
    tag === null ? '' : await readFile(pathOf(folder, tag), 'utf8').catch(ignore('ENOENT'));
  const [owner, id, era] = (text ?? '').split(' ');
  return { owner: owner || null, run: id && era ? { id, era } : null };
}

/** The file with this tag is gone. */
export async function forgetOwner(folder: string, tag: ManifestTag): Promise<void> {
  if (tag !== null) await unlink(pathOf(folder, tag)).catch(ignore('ENOENT'));
}
