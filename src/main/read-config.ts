import { type Config, readConfig } from '../config/config.ts';
import { describeFault } from './run-process.ts';

/** Reads the configuration, or prints every fault on standard error and exits. */
export function readConfigOrExit(role: string): Config {
  try {
    return readConfig();
  } catch (error) {
    process.stderr.write(`sluice ${role}: ${describeFault(error)}\n`);
    process.exit(1);
  }
}
