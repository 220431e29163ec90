import module from 'node:module';
import { homedir } from 'node:os';
import path from 'node:path';

/** Of Node 22 and later. */
const { enableCompileCache } = module as { enableCompileCache?: (folder: string) => unknown };

/**
 * Keeps compiled code for the next start (Node 22 and later; elsewhere it does nothing). Call it before
 * anything else is loaded. The folder is the user's own: in a shared one, another user could plant code.
 * If the folder cannot be written, Node continues without a cache.
 */
export function useCompileCache(): void {
  enableCompileCache?.(path.join(homedir(), '.cache', 'sluice', 'compiled'));
}
