import { mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Logger } from '../foundation/telemetry/logger.ts';
import { folderFaults } from './explain-start.ts';
import { StartError } from './wait-for-database.ts';
import type { Config } from '../foundation/config/config.ts';

interface TemporaryFault {
  /** For an operator, with the path and the remedy. */
  readonly text: string;
  /** For the probes, which need no key: without the path. */
  readonly shown: string;
  /** It can end by itself: other programs use the same disk. */
  readonly isFull: boolean;
}

const enoughBytes = 64 * 1024;

/** Writes a file into the folder that runs spool to, and removes it. Null: it works. */
export async function findTemporaryFault(): Promise<TemporaryFault | null> {
  const root = tmpdir();
  let folder: string | null = null;
  try {
    folder = await mkdtemp(join(root, 'sluice-try-'));
    await writeFile(join(folder, 'file'), Buffer.alloc(enoughBytes), { flush: true });
    return null;
  } catch (error) {
    const { code = '', message } = error as NodeJS.ErrnoException;
    const isFull = code === 'ENOSPC' || code === 'EDQUOT';
    const what = code === 'ENOENT' ? 'does not exist' : (folderFaults[code] ?? message);
    const remedy = isFull ? 'Make room there' : 'Make it a folder that this user can write';
    return {
      text: `TMPDIR: ${root} ${what} (${code}). ${remedy}, or set TMPDIR to another folder.`,
      shown: `the temporary folder (TMPDIR) ${code === '' ? 'does not work' : `${what} (${code})`}; runs that spool rows fail`,
      isFull,
    };
  } finally {
    if (folder !== null) await rm(folder, { recursive: true, force: true }).catch(() => {});
  }
}

/** For the start of a worker. A disk that is full may have room again later. @throws StartError if only an operator can help */
export async function checkTemporaryFolder(logger: Logger): Promise<void> {
  const fault = await findTemporaryFault();
  if (fault?.isFull) logger.error(fault.text);
  else if (fault) throw new StartError(fault.text);
}

/** Null if none is set, or it is fine. The process starts anyway: the folder may be mounted later. */
export async function findFileRootFault({
  FILE_DESTINATION_ROOT: root,
}: Pick<Config, 'FILE_DESTINATION_ROOT'>): Promise<string | null> {
  if (root === null) return null;
  const stats = await stat(root).catch(() => null);
  if (stats?.isDirectory()) return null;
  return `FILE_DESTINATION_ROOT: ${root} ${stats ? 'is not a folder' : 'does not exist'}. Create the folder: until then runs to File destinations are retried and fail.`;
}
