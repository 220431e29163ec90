import { readdir } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { runner } from 'node-pg-migrate';
import type { Client } from 'pg';
import { chooseSchema, migrationsTable, ownPath, quoted, readSchemas } from './own-schema.ts';
import { requireOwnSession, withClients } from './sessions.ts';
import { ReadOnlyError } from './unavailable.ts';

/** Any constant: concurrent migrations wait for each other under this advisory lock. */
const lockId = 7_140_551_090;

const migrationsDir = fileURLToPath(new URL('../../../../migrations', import.meta.url));

/** A migration that waits for a table blocks all others on it, so it gives up soon and retries. */
const lockTimeoutMs = 1_000;
const pauseMs = 1_000;
const maxTries = 300;
const abandonedMs = 60_000;

/** The schema of our own tables is older than this build, or belongs to another role. */
export class SchemaError extends Error {
  override readonly name = 'SchemaError';
}

const isOlder = (missing: readonly string[]) =>
  new SchemaError(
    `The database's schema is older than this build: it lacks ${missing.join(', ')}. ` +
      'Run `sluice migrate`, or start with AUTO_MIGRATE=true. A build works with a newer schema, but not with an older one.',
  );

/** Any number of processes may call it at once; a newer schema is left unchanged. @returns the migrations that were run @throws PoolerError */
export async function migrate(connectionString: string): Promise<readonly string[]> {
  if ((await findMissing(connectionString)).length === 0) return [];
  await requireOwnSession(
    connectionString,
    'migrations',
    'Set DATABASE_DIRECT_URL to the address of PostgreSQL itself; `sluice migrate` needs it too.',
  );
  return withClient(connectionString, async (client) => {
    // If this process loses the server, its session must not keep the lock.
    await client.query(`set idle_session_timeout = ${abandonedMs}`);
    await client.query(`set idle_in_transaction_session_timeout = ${abandonedMs}`);
    // An index of a large table takes long.
    await client.query('set statement_timeout = 0');
    await client.query('select pg_advisory_lock($1)', [lockId]);
    await client.query(`set lock_timeout = ${lockTimeoutMs}`);
    const schema = await prepareSchema(client);
    for (let tries = 1; ; tries += 1) {
      const before = await listApplied(client);
      try {
        await runMigrations(client, schema);
        return (await listApplied(client)).filter((name) => !before.includes(name));
      } catch (error) {
        // Over a broken connection this throws what says so: the library's errors lose it.
        await client.query('rollback');
        if (!isLockTimeout(error) || tries === maxTries) throw refusalOf(error, schema);
      }
      await sleep(pauseMs);
    }
  });
}

/** @throws SchemaError with what this build needs and our tables lack */
export async function checkSchema(connectionString: string): Promise<void> {
  const missing = await findMissing(connectionString);
  if (missing.length > 0) throw isOlder(missing);
}

interface Owner {
  readonly owner: string;
  readonly role: string;
  readonly isSuperuser: boolean;
}

/** The owner of our tables, else of the database, if the address is of another superuser. Null: it is not. */
export async function findOwnerBesideSuperuser(connectionString: string): Promise<string | null> {
  const { owner, role, isSuperuser } = await withClient(connectionString, readOwner);
  return owner === role || !isSuperuser ? null : owner;
}

async function readOwner(client: Client): Promise<Owner> {
  const { rows } = await client.query<Owner>(
    `select current_user as role, (select rolsuper from pg_roles where rolname = current_user) as "isSuperuser",
            pg_get_userbyid(coalesce((select relowner from pg_class where oid = to_regclass($1)), datdba)) as owner
       from pg_database where datname = current_database()`,
    [migrationsTable],
  );
  const [row] = rows;
  if (!row) throw new Error('no row');
  return row;
}

async function findMissing(connectionString: string): Promise<readonly string[]> {
  const needed = (await readdir(migrationsDir))
    .filter((file) => file.endsWith('.sql'))
    .map((file) => file.slice(0, -'.sql'.length))
    .sort();
  const applied = await withClient(connectionString, listApplied);
  return needed.filter((name) => !applied.includes(name));
}

/** The schema of our own tables, which is the search path of the session from now on. @throws SchemaError if there can be none */
async function prepareSchema(client: Client): Promise<string> {
  const schemas = await readSchemas(client);
  const chosen = schemas.own === null ? chooseSchema(schemas) : { name: schemas.own, isNew: false };
  if ('refusal' in chosen) throw new SchemaError(`DATABASE_URL: ${chosen.refusal}`);
  if (chosen.isNew) await client.query(`create schema if not exists ${quoted(chosen.name)}`);
  await client.query(`set search_path = ${quoted(chosen.name)}, pg_temp`);
  return chosen.name;
}

async function runMigrations(client: Client, schema: string): Promise<void> {
  await runner({
    dbClient: client,
    dir: migrationsDir,
    direction: 'up',
    migrationsTable,
    migrationsSchema: schema,
    noLock: true,
    checkOrder: true,
    log: () => {},
  });
}

async function listApplied(client: Client): Promise<readonly string[]> {
  const { rows: found } = await client.query(`select to_regclass($1) as found`, [migrationsTable]);
  if (found[0]?.found === null) return [];
  try {
    const { rows } = await client.query<{ name: string }>(
      `select name from ${migrationsTable} order by id`,
    );
    return rows.map((row) => row.name);
  } catch (error) {
    if (!isRefused(error)) throw error;
    const { owner, role } = await readOwner(client);
    throw new SchemaError(
      `DATABASE_URL: the tables of Sluice belong to the role ${owner}, and ${role} may not use them. ` +
        `Log in as ${owner}. If a superuser has made them by mistake, drop the database, create it again, and run \`sluice migrate\` as ${role} first.`,
    );
  }
}

/** Opens a connection to our own tables for `work`, and closes it afterwards. */
export function withClient<T>(
  connectionString: string,
  work: (client: Client) => Promise<T>,
): Promise<T> {
  const inOwnSchema = async ([opened]: readonly Client[]) => {
    const client = opened as Client;
    await client.query(`select set_config('search_path', ${ownPath}, false)`);
    return work(client);
  };
  return withClients([connectionString], inOwnSchema, 'sluice-migrate');
}

/** `insufficient_privilege` (PostgreSQL, appendix A). */
const isRefused = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && error.code === '42501';

/** The fault of a migration that failed, if an operator can do something. The library's errors have the server's text alone. */
function refusalOf(error: unknown, schema: string): unknown {
  if (!(error instanceof Error)) return error;
  if (error.message.includes('read-only transaction')) return new ReadOnlyError();
  const [taken] = /\w+ "[^"]+" already exists/.exec(error.message) ?? [];
  if (taken === undefined) return error;
  return new SchemaError(
    `DATABASE_URL: the schema ${schema} has something that is not of Sluice: ${taken}. ` +
      'Give Sluice a schema of its own: CREATE SCHEMA sluice AUTHORIZATION <role>; ALTER ROLE <role> IN DATABASE <database> SET search_path = sluice;',
  );
}

/** `lock_not_available` (PostgreSQL, appendix A); some errors of the library have its text alone. */
function isLockTimeout(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  return ('code' in error && error.code === '55P03') || error.message.includes('lock timeout');
}
