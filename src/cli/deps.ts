import type { Database } from '../store/database.ts';

/** What the commands need from the process. */
export interface CliDeps {
  /** DATABASE_URL without its pooler, else the running embedded database; throws CliError if there is neither. */
  findDatabase(): Promise<string>;
  /** Opens Sluice's own database for `work` and closes it afterwards. */
  withDatabase<T>(work: (db: Database, url: string) => Promise<T>): Promise<T>;
  /** Prints a line on standard output. */
  print(line: string): void;
}

/** A failure with a message for the user; the exit code is 1. */
export class CliError extends Error {
  override readonly name = 'CliError';
}
