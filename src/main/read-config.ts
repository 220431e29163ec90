import { type Config, readConfig } from '../config/config.ts';
import { describeFault } from './run-process.ts';

/** The configuration, or the end of the process with every fault on standard error. */
export function readConfigOrExit(role: string): Config {
  try {
    return readConfig();
  } catch (error) {
    process.stderr.write(`sluice ${role}: ${describeFault(error)}\n`);
    process.exit(1);
  }
}
