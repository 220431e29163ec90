import type { Environment } from '../../foundation/config/client-settings.ts';
import type { Database } from '../../state/store/database/database.ts';

/** The world as a command sees it. */
export interface Terminal {
  /** Writes to standard output, as it is. */
  out(text: string): void;
  /** Writes to standard error, as it is. */
  err(text: string): void;
  readonly env: Environment;
  readonly isTerminal: boolean;
  /** True if standard error is a terminal: only there a progress bar is drawn. */
  readonly drawsProgress: boolean;
  /** Asks a person; null if standard input is no terminal. */
  readonly ask: ((question: string) => Promise<string>) | null;
  readInput(): Promise<string>;
  /** Aborted by Ctrl-C and SIGTERM. */
  readonly signal: AbortSignal;
}

/** The commands need these of the process. */
export interface CliDeps {
  readonly terminal: Terminal;
  /** DATABASE_URL without its pooler, else the running embedded database; throws CliError if there is neither. */
  findDatabase(): Promise<string>;
  /** Opens Sluice's own database for `work` and closes it afterwards. */
  withDatabase<T>(work: (db: Database, url: string) => Promise<T>): Promise<T>;
  /** Prints a line on standard output. Characters that a terminal acts on are escaped; see `visible`. */
  print(line: string): void;
}

/** Exit codes; docs/cli.md lists them. */
export const exitCodes = { done: 0, failed: 1, misused: 2, unreachable: 3, refused: 4 } as const;

const misuseCodes: readonly string[] = [
  'required',
  'blank',
  'null',
  'incorrect_type',
  'invalid_choice',
  'max_length',
  'max_value',
  'min_value',
];

/** Says whether a problem is with how a value is written, whatever the service has. */
export const isMisuse = ({ code }: { readonly code: string | null }): boolean =>
  code !== null && misuseCodes.includes(code);

export class CliError extends Error {
  override readonly name: string = 'CliError';
  readonly exitCode: number;

  constructor(message: string, exitCode: number = exitCodes.failed) {
    super(message);
    this.exitCode = exitCode;
  }
}

/** The command, an option or a setting is wrong, whatever the service has. */
export const misused = (message: string): CliError => new CliError(message, exitCodes.misused);
