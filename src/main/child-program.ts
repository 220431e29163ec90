import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Config } from '../config/config.ts';
import type { ChildProgram } from '../worker/run-alone.ts';
import type { Foundation } from './foundation.ts';

/** What the process of a run opens its connections and connectors by; the parent has found it all out. */
export interface ChildSetup {
  readonly config: Config;
  readonly url: string;
  readonly sourceUrl: string;
}

/**
 * Least memory that is no proof against a run: a worker sets none aside for values larger than a few
 * MiB, which are held whole, some times over.
 */
const minMemoryMib = 512;

/** The program of runs that get a process of their own: `child-run`, beside this file. */
export function childProgramOf({ config, databases }: Foundation): ChildProgram {
  const setup: ChildSetup = { config, url: databases.url, sourceUrl: databases.sourceUrl };
  const file = fileURLToPath(import.meta.url);
  return {
    entry: fileURLToPath(new URL(`./child-run${extname(file)}`, import.meta.url)),
    setup,
    memoryMib: Math.max(config.WORKER_MEMORY_MB, minMemoryMib),
  };
}
