import { readFile, unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { ManifestTag } from '../destination.ts';
import { hiddenPrefix, ignore } from './folders.ts';

/**
 * Which export wrote a file. A file system keeps no metadata with a file, so there is a small hidden file beside it, whose
 * name holds the file's tag. A file that was copied or changed has another tag, and so no owner.
 */
const pathOf = (folder: string, tag: string) => join(folder, `${hiddenPrefix}owner-${tag}`);

/** To be called before the file gets its name. */
export async function noteOwner(folder: string, tag: ManifestTag, owner: string): Promise<void> {
  if (tag !== null) await writeFile(pathOf(folder, tag), owner, { mode: 0o644 });
}

/** @returns null if it is not known */
export async function readOwner(folder: string, tag: ManifestTag): Promise<string | null> {
  if (tag === null) return null;
  return (await readFile(pathOf(folder, tag), 'utf8').catch(ignore('ENOENT'))) || null;
}

/** The file with this tag is gone. */
export async function forgetOwner(folder: string, tag: ManifestTag): Promise<void> {
  if (tag !== null) await unlink(pathOf(folder, tag)).catch(ignore('ENOENT'));
}
