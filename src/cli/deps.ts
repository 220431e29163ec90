import type { Database } from '../store/database.ts';

/** What the verbs of the command line work with. */
export interface CliDeps {
  /** DATABASE_URL, else the embedded database that is running; throws CliError where neither is. */
  findDatabase(): Promise<string>;
  /** Opens our own tables for `work`, and closes them behind it. */
  withDatabase<T>(work: (db: Database, url: string) => Promise<T>): Promise<T>;
  /** A line on standard output. */
  print(line: string): void;
}

/** A failure that its message explains; the exit code is 1. */
export class CliError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'CliError';
  }
}
