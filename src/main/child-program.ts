import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Config } from '../foundation/config/config.ts';
import { AloneTurns, type ChildProgram } from '../service/worker/run-alone.ts';
import type { Foundation } from './foundation.ts';

/** The needs of a process for one job, to open its connections and connectors. Its parent has prepared all of it. */
export interface ChildSetup {
  readonly config: Config;
  readonly url: string;
  readonly sourceUrl: string;
}

/** With less a crash would prove nothing against a run: large rows are held whole, and here no gate makes them wait. */
const minMemoryMib = 512;

/** The program of runs with a process of their own: `child-run`, beside this file. */
export function childProgramOf({ config, databases }: Foundation): ChildProgram {
  const setup: ChildSetup = { config, url: databases.url, sourceUrl: databases.sourceUrl };
  const file = fileURLToPath(import.meta.url);
  const entry = fileURLToPath(new URL(`./child-run${extname(file)}`, import.meta.url));
  return {
    ...{ entry, setup },
    memoryMib: Math.max(config.WORKER_MEMORY_MB, minMemoryMib),
    turns: new AloneTurns(),
  };
}
