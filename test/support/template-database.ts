import { randomBytes } from 'node:crypto';
import { migrate } from '../../src/state/store/database/migrate.ts';
import { dropDatabase, withClient } from './drop-database.ts';

/** A server on which tests make databases. */
export interface OwnedServer {
  /** A superuser's URL, of a database that no test uses. */
  readonly adminUrl: string;
  /** Every database of this run begins with it. */
  readonly prefix: string;
  /** It owns the databases of tests, and may do nothing else. */
  readonly owner: { readonly name: string; readonly password: string };
}

/** A server of a test run. */
export interface TestPostgres extends OwnedServer {
  /** The migrated database that tests clone. No connection to it may be open. */
  readonly template: string;
}

/** The URL as another role. Its password is that of all readers of tests if none is given. */
export function asRole(address: string, name: string, password = 'reader'): string {
  const url = new URL(address);
  url.username = encodeURIComponent(name);
  url.password = password;
  return url.href;
}

/** The URL of a database on a server of tests: by default of the role that owns it. */
export function urlOf(server: OwnedServer, database: string, asAdmin = false): string {
  const url = new URL(server.adminUrl);
  url.pathname = `/${database}`;
  const { name, password } = server.owner;
  return asAdmin ? url.href : asRole(url.href, name, password);
}

/**
 * Makes the role that owns the databases of tests. On the embedded server it is a superuser, as the service is there.
 */
export async function prepareOwner(adminUrl: string, isSuperuser = false): Promise<OwnedServer> {
  const prefix = `sluice_test_${randomBytes(4).toString('hex')}_`;
  const owner = { name: `${prefix}owner`, password: randomBytes(12).toString('hex') };
  await withClient(adminUrl, (client) =>
    client.query(
      `CREATE ROLE ${owner.name} LOGIN ${isSuperuser ? 'SUPERUSER' : ''} PASSWORD '${owner.password}'`,
    ),
  );
  return { adminUrl, prefix, owner };
}

/** Makes that role, and migrates the template as that role. */
export async function prepareTemplate(
  adminUrl: string,
  isSuperuser = false,
): Promise<TestPostgres> {
  const server = await prepareOwner(adminUrl, isSuperuser);
  const template = `${server.prefix}template`;
  await withClient(adminUrl, async (client) => {
    const { rows } = await client.query<{ version: number }>(
      "SELECT current_setting('server_version_num')::int AS version",
    );
    const version = rows[0]?.version ?? 0;
    if (version < 150_000) throw new Error(`PostgreSQL 15 or later is needed, not ${version}.`);
    await client.query(`CREATE DATABASE ${template} OWNER ${server.owner.name}`);
  });
  const made = { ...server, template };
  await migrate(urlOf(made, template));
  return made;
}

/** @param make who built it */
export function describeServer(url: string, make: string): Promise<string> {
  return withClient(url, async (client) => {
    const { rows } = await client.query<{ version: string; jit: boolean }>(
      `SELECT current_setting('server_version') AS version,
              pg_jit_available() AND current_setting('jit')::bool AS jit`,
    );
    const [{ version, jit } = { version: '?', jit: false }] = rows;
    return `PostgreSQL ${version.split(' ')[0]}, ${make}, ${jit ? 'with' : 'without'} JIT`;
  });
}

export async function dropDatabases({ adminUrl, prefix, owner }: TestPostgres): Promise<void> {
  const { rows } = await withClient(adminUrl, (client) =>
    client.query<{ datname: string }>(
      'SELECT datname FROM pg_database WHERE starts_with(datname, $1)',
      [prefix],
    ),
  );
  for (const { datname } of rows) await dropDatabase(adminUrl, datname);
  await withClient(adminUrl, (client) => client.query(`DROP ROLE ${owner.name}`));
}
