import { constants } from 'node:fs';
import { type FileHandle, lstat, mkdir, open, realpath, rmdir } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { SluiceError } from '../../../foundation/domain/errors.ts';
import { systemCode } from './errors.ts';

/** Names of files that are not (yet) part of the export; no listing shows them. */
export const hiddenPrefix = '.sluice-';

/** A key's folder and name. Each segment is checked, so a key never points outside the directory. */
export function splitKey(key: string): {
  readonly folders: readonly string[];
  readonly name: string;
} {
  const segments = key.split('/');
  const name = segments.at(-1) ?? '';
  for (const segment of segments) {
    if (segment === '' || segment === '.' || segment === '..' || segment.includes('\0')) {
      throw new SluiceError('destination.invalid_config', 'a key points outside the directory');
    }
  }
  return { folders: segments.slice(0, -1), name };
}

/**
 * The path of a folder below `root`. Each step must be a real directory: a symbolic link is refused.
 * `root` itself may be a link, since it is the operator's.
 *
 * @returns null if it does not exist and may not be created
 */
export async function findFolder(
  root: string,
  folders: readonly string[],
  make: boolean,
): Promise<string | null> {
  let path = await realpath(root).catch((error: unknown) => {
    throw new SluiceError('destination.unavailable', 'FILE_DESTINATION_ROOT does not exist', error);
  });
  for (const folder of folders) {
    path = join(path, folder);
    if (make) await mkdir(path).catch(ignore('EEXIST'));
    const stats = await lstat(path).catch(ignore('ENOENT'));
    if (stats === undefined) return null;
    if (!stats.isDirectory()) {
      const detail = 'a part of the directory is a file or a symbolic link';
      throw new SluiceError('destination.invalid_config', detail);
    }
  }
  return path;
}

/** Removes folders such as `user_id=42` that have no file any more: their names are values of rows that are gone. */
export async function removeEmptyPartitions(folder: string): Promise<void> {
  for (let path = folder; basename(path).includes('='); path = dirname(path)) {
    const isEmpty = await rmdir(path).then(
      () => true,
      () => false,
    );
    if (!isEmpty) return;
  }
}

/** Makes a rename or a new name in the folder survive a power cut. */
export async function syncFolder(path: string): Promise<void> {
  const handle = await open(path, constants.O_RDONLY | constants.O_DIRECTORY);
  await handle.sync().finally(() => handle.close());
}

/** Opens for reading, never through a link; null if there is no file. */
export async function openForRead(path: string): Promise<FileHandle | null> {
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW;
  return (await open(path, flags).catch(ignore('ENOENT'))) ?? null;
}

/** For `catch`: ignores one code of the file system. */
export function ignore(code: string): (error: unknown) => undefined {
  return (error) => {
    if (systemCode(error) !== code) throw error;
    return undefined;
  };
}
