#!/usr/bin/env node
import { createRequire } from 'node:module';
import { Command, CommanderError } from 'commander';
import { ConfigError, readConfig } from '../config/config.ts';
import { findEmbeddedPostgres } from '../embedded-postgres/start.ts';
import { openDatabase } from '../store/database.ts';
import { findRefusal, isDatabaseUnavailable } from '../store/unavailable.ts';
import { type CliDeps, CliError } from './deps.ts';
import { register as registerEras } from './eras.ts';
import { register as registerEvents } from './events.ts';
import { register as registerKeys } from './keys.ts';
import { register as registerMigrate } from './migrate.ts';
import { register as registerModels } from './models.ts';
import { register as registerOrganizations } from './organizations.ts';
import { register as registerProjects } from './projects.ts';
import { register as registerQuickstart } from './quickstart.ts';
import { register as registerVerify } from './verify.ts';

/** Exit codes: 0 success, 1 failure, 2 wrong usage. */
const failed = 1;
const misused = 2;

const deps: CliDeps = {
  findDatabase,
  async withDatabase(work) {
    const url = await findDatabase();
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
  print: (line) => process.stdout.write(`${line}\n`),
};

/** DATABASE_URL without its pooler, else the running embedded database. */
async function findDatabase(): Promise<string> {
  const { DATABASE_DIRECT_URL, DATABASE_URL, SLUICE_DATA_DIR } = readConfig();
  const url = DATABASE_DIRECT_URL ?? DATABASE_URL ?? (await findEmbeddedPostgres(SLUICE_DATA_DIR));
  if (url !== null) return url;
  throw new CliError(
    `No database: set DATABASE_URL, or start Sluice first (no database runs in ${SLUICE_DATA_DIR}).`,
  );
}

function explain(error: unknown): { code: number; message: string } {
  // Commander has already printed what is wrong.
  if (error instanceof CommanderError) {
    return { code: error.exitCode === 0 ? 0 : misused, message: '' };
  }
  if (error instanceof CliError || error instanceof ConfigError) {
    return { code: failed, message: error.message };
  }
  const reason = error instanceof Error ? error.message || error.name : String(error);
  const refusal = findRefusal(error);
  if (refusal !== null) return { code: failed, message: `DATABASE_URL: ${refusal}. Correct it.` };
  const message = isDatabaseUnavailable(error)
    ? `DATABASE_URL: the database is unreachable: ${reason}. Start it, or correct the address.`
    : reason;
  return { code: failed, message };
}

const { version } = createRequire(import.meta.url)('../../package.json') as { version: string };

const program = new Command('sluice')
  .description('Ships rows out of PostgreSQL on a schedule: every row exactly once.')
  .version(version)
  .exitOverride();
// Each command imports its large modules when it is called: all of them take a second to load.
for (const register of [
  registerMigrate,
  registerQuickstart,
  registerOrganizations,
  registerProjects,
  registerKeys,
  registerEvents,
  registerModels,
  registerVerify,
  registerEras,
]) {
  register(program, deps);
}

try {
  await program.parseAsync();
} catch (error) {
  const { code, message } = explain(error);
  if (message) process.stderr.write(`${message}\n`);
  process.exitCode = code;
}
