import { CommanderError } from 'commander';
import { Refusal } from '../../foundation/domain/problem.ts';
import { type CliDeps, CliError, exitCodes, isMisuse, type Terminal } from './deps.ts';
import { createProgram } from './program.ts';
import { hasColours, visible } from './text.ts';

/** @param args without the names of Node and the program @returns the exit code */
export async function runSluice(
  args: readonly string[],
  terminal: Terminal,
  version: string,
): Promise<number> {
  const deps: CliDeps = {
    terminal,
    findDatabase: () => findDatabase(terminal),
    async withDatabase(work) {
      const url = await findDatabase(terminal);
      const { openDatabase } = await import('../../state/store/database/database.ts');
      const db = openDatabase({
        connectionString: url,
        applicationName: 'sluice-cli',
        maxConnections: 4,
        onError: () => {},
      });
      try {
        return await work(db, url);
      } finally {
        await db.close();
      }
    },
    print: (line) => terminal.out(`${visible(line, hasColours(terminal))}\n`),
  };
  try {
    await createProgram(deps, version).parseAsync(args, { from: 'user' });
    return exitCodes.done;
  } catch (error) {
    if (terminal.signal.aborted && !(error instanceof CliError)) return exitCodes.failed;
    const { code, message } = await explain(error);
    // A list of problems has a line for each.
    const lines = message.split('\n').map((line) => visible(line, false));
    if (message) terminal.err(`${lines.join('\n')}\n`);
    return code;
  }
}

/** DATABASE_URL, else the running embedded database. */
async function findDatabase({ env }: Terminal): Promise<string> {
  const { readConfig } = await import('../../foundation/config/config.ts');
  const { DATABASE_DIRECT_URL, DATABASE_URL, SLUICE_DATA_DIR } = readConfig(env);
  const set = DATABASE_DIRECT_URL ?? DATABASE_URL;
  if (set !== null) return set;
  const { findEmbeddedPostgres } = await import('../../state/embedded-postgres/start.ts');
  const url = await findEmbeddedPostgres(SLUICE_DATA_DIR);
  if (url !== null) return url;
  throw new CliError(
    `No database: set DATABASE_URL, or start Sluice first (no database runs in ${SLUICE_DATA_DIR}).`,
  );
}

/** Options of the first key, by the field that they set. */
const optionOf: Readonly<Record<string, string>> = {
  name: '--name',
  scopes: '--scopes',
  expires_at: '--expires-at',
};

async function explain(error: unknown): Promise<{ code: number; message: string }> {
  // Commander has already printed what is wrong.
  if (error instanceof CommanderError) {
    return { code: error.exitCode === 0 ? exitCodes.done : exitCodes.misused, message: '' };
  }
  if (error instanceof CliError) return { code: error.exitCode, message: error.message };
  if (error instanceof Refusal) {
    const lines = error.problems.map(({ attr, detail }) => {
      const option = attr === null ? undefined : optionOf[attr];
      return option === undefined ? detail : `${option}: ${detail}`;
    });
    const code = error.problems.every(isMisuse) ? exitCodes.misused : exitCodes.failed;
    return { code, message: lines.join('\n') };
  }
  const code = exitCodes.failed;
  const reason = error instanceof Error ? error.message || error.name : String(error);
  if (error instanceof Error && error.name === 'ConfigError') return { code, message: reason };
  const { findRefusal, isDatabaseUnavailable } = await import(
    '../../state/store/database/unavailable.ts'
  );
  const refusal = findRefusal(error);
  if (refusal !== null) return { code, message: `DATABASE_URL: ${refusal}.` };
  return isDatabaseUnavailable(error)
    ? {
        code: exitCodes.unreachable,
        message: `DATABASE_URL: the database is unreachable: ${reason}. Start it, or correct the address.`,
      }
    : { code, message: reason };
}
