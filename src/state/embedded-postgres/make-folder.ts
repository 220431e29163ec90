import { mkdir, stat } from 'node:fs/promises';
import path from 'node:path';

/** `recursive` of mkdir never ends in a file system that answers ENOENT to each mkdir, as /proc does. */
export async function makeFolder(folder: string, mode = 0o777): Promise<void> {
  try {
    await mkdir(folder, { mode });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (await isFolder(folder)) return;
    const parent = path.dirname(folder);
    if (code !== 'ENOENT' || (await isFolder(parent))) throw error;
    await makeFolder(parent, mode);
    await makeFolder(folder, mode);
  }
}

const isFolder = (name: string): Promise<boolean> =>
  stat(name).then(
    (found) => found.isDirectory(),
    () => false,
  );
