import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Config } from '../foundation/config/config.ts';
import { AloneTurns } from '../service/worker/alone-turns.ts';
import type { ChildProgram } from '../service/worker/run-alone.ts';
import type { JobProgram } from '../service/worker/watch-child.ts';
import type { Foundation } from './foundation.ts';

/** What a process for one job needs to open its connections and connectors. Its parent has prepared all of it. */
export interface ChildSetup {
  readonly config: Config;
  readonly url: string;
  readonly sourceUrl: string;
}

/**
 * With less memory than this a crash would prove nothing against a run: large rows are held whole, more than
 * once, and here no gate makes them wait.
 */
const minMemoryMib = 512;

/** The program of runs with a process of their own: `child-run`, beside this file. */
export function childProgramOf(foundation: Foundation): ChildProgram {
  return {
    ...programOf('child-run', foundation),
    memoryMib: Math.max(foundation.config.WORKER_MEMORY_MB, minMemoryMib),
    turns: new AloneTurns(),
  };
}

/** The program of scheduled verifications. Files are read through a folder, so it needs no more for large ones. */
export const verifyProgramOf = (foundation: Foundation): JobProgram => ({
  ...programOf('child-verify', foundation),
  memoryMib: minMemoryMib,
});

function programOf(name: string, { config, databases }: Foundation) {
  const setup: ChildSetup = { config, url: databases.url, sourceUrl: databases.sourceUrl };
  const file = fileURLToPath(import.meta.url);
  const entry = fileURLToPath(new URL(`./${name}${extname(file)}`, import.meta.url));
  return { entry, setup };
}
