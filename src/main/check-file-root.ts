import { stat } from 'node:fs/promises';
import type { Config } from '../foundation/config/config.ts';

/**
 * What is wrong with the folder of File destinations, for the process log; null if nothing is, or if it is
 * not set. The process starts anyway: the folder may be mounted later, and other destinations work.
 */
export async function findFileRootFault({
  FILE_DESTINATION_ROOT: root,
}: Pick<Config, 'FILE_DESTINATION_ROOT'>): Promise<string | null> {
  if (root === null) return null;
  const found = await stat(root).catch(() => null);
  if (found?.isDirectory()) return null;
  return `FILE_DESTINATION_ROOT: ${root} ${found ? 'is not a folder' : 'does not exist'}. Create the folder: until then runs to File destinations are retried and fail.`;
}
