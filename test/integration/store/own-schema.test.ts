import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { expect, onTestFinished, test } from 'vitest';
import { connectQueues } from '../../../src/state/queue/connection.ts';
import { openProducer } from '../../../src/state/queue/producer.ts';
import { openDatabase, openQueuePool } from '../../../src/state/store/database/database.ts';
import { runCli } from '../../support/cli.ts';
import { createEmptyDatabase, testServer } from '../../support/database.ts';
import { withClient } from '../../support/drop-database.ts';
import { atNight, firstByDay } from '../../support/nightly.ts';
import { until } from '../../support/until.ts';

/** An empty database of an administrator, and a role that may only log in. `$role` and `$database` are their names. */
async function createGuest(...statements: readonly string[]) {
  const database = await createEmptyDatabase();
  const admin = new pg.Client({ connectionString: database.adminUrl });
  await admin.connect();
  const name = new URL(database.url).pathname.slice(1);
  // Roles belong to the whole server.
  const [role, source] = ['guest', 'source'].map(
    (kind) => `${kind}_${randomBytes(6).toString('hex')}`,
  ) as [string, string];
  const asAdmin = (text: string) =>
    admin.query(text.replaceAll('$role', role).replaceAll('$database', name));
  await asAdmin(
    'create role $role login password $$x$$; revoke create on schema public from public',
  );
  for (const statement of statements) await asAdmin(statement);
  onTestFinished(async () => {
    await admin.end();
    await database.drop();
    const roles = `drop role if exists ${role}, ${source}`;
    await withClient(testServer().adminUrl, (client) => client.query(roles));
  });
  const urlOf = (user: string) => {
    const url = new URL(database.url);
    [url.username, url.password] = [user, 'x'];
    return url.href;
  };
  const env = { DATABASE_URL: urlOf(role), SOURCE_DATABASE_URL: urlOf(source) };
  const tablesIn = async (schema: string) => {
    const text = `select relname from pg_class where relnamespace = to_regnamespace(quote_ident($1)) and relkind = 'r'`;
    const { rows } = await admin.query<{ relname: string }>(text, [schema]);
    return rows.map(({ relname }) => relname);
  };
  const superuser = { ...env, DATABASE_URL: database.adminUrl };
  return { env, superuser, url: env.DATABASE_URL, role, source, name, asAdmin, tablesIn };
}

/** Migrates, writes and reads a table of ours, and passes a job through the queue in PostgreSQL. */
async function expectService({ env, url }: Awaited<ReturnType<typeof createGuest>>) {
  const migrated = await runCli(['migrate'], { env });
  expect([migrated.code, migrated.err]).toEqual([0, '']);
  expect((await runCli(['migrate'], { env })).out).toBe('up to date\n');
  const key = ['keys', 'create', '--operator', '--scopes', '*', '--name', 'Acme'];
  expect((await runCli(key, { env })).code).toBe(0);
  const options = { connectionString: url, applicationName: 'test', onError: () => {} };
  const db = openDatabase({ ...options, maxConnections: 4, writes: true });
  const { pool, close } = openQueuePool({ ...options, maxConnections: 4 });
  const queues = connectQueues({ kind: 'postgres', pool }, () => {});
  const producer = openProducer(queues, () => {});
  const taken: string[] = [];
  const worker = queues.openWorker('sluice-runs', async ({ name }) => void taken.push(name), {});
  worker.on('error', () => {});
  try {
    expect(await db.query(`select name from api_keys where name = 'Acme'`)).toEqual([
      { name: 'Acme' },
    ]);
    await producer.addRuns([{ runId: 'r1', deduplicationId: null }]);
    await until(() => taken.length === 1, { message: 'the job arrives' });
  } finally {
    await worker.close();
    await producer.close();
    await close();
    await db.close();
  }
}

const schemas = firstByDay(1, [
  [
    'on its search path, beside another one',
    [
      'create schema aaa authorization $role; create schema shipping authorization $role',
      'alter role $role in database $database set search_path = shipping',
    ],
    'shipping',
  ],
  ['of its name', ['create schema $role authorization $role'], '$role'],
  ['of another name', ['create schema shipping authorization $role'], 'shipping'],
  [
    'with capitals, which the queue cannot have, beside a schema for the queue',
    ['create schema "My-App" authorization $role; create schema bullmq authorization $role'],
    'My-App',
  ],
  [
    'and an empty search path',
    ['create schema $role authorization $role; alter role $role set search_path = $$$$'],
    '$role',
  ],
]);
test.each(schemas)(
  'a role that owns a schema %s, not the database, has all tables there',
  async (_what, statements, schema) => {
    const guest = await createGuest(...statements);
    await expectService(guest);
    const own = await guest.tablesIn(schema.replace('$role', guest.role));
    expect(own).toEqual(expect.arrayContaining(['runs', 'sluice_migrations']));
    expect(await guest.tablesIn('public')).toEqual([]);
    const [queue] = (await guest.tablesIn('bullmq')).length > 0 ? ['bullmq'] : [guest.role];
    if (queue !== 'bullmq') expect(own).toContain('job');
  },
);

atNight('a role that may create schemas and no tables gets schemas of its own', async () => {
  const guest = await createGuest('grant create on database $database to $role');
  await expectService(guest);
  expect(await guest.tablesIn('sluice')).toContain('runs');
  expect(await guest.tablesIn('bullmq')).toContain('job');
});

atNight('an owner of the database with an empty search path has its tables in public', async () => {
  const guest = await createGuest(
    'alter database $database owner to $role; alter database $database set search_path = $$$$',
  );
  await expectService(guest);
  expect(await guest.tablesIn('public')).toContain('runs');
});

const refused = firstByDay(2, [
  [
    'no schema',
    [],
    /^DATABASE_URL: the role guest_\w+ may create tables in no schema of the database \w+\. Run this there, .*: CREATE SCHEMA sluice AUTHORIZATION guest_\w+;\n$/,
  ],
  [
    'two schemas, neither on its path',
    ['create schema aaa authorization $role; create schema bbb authorization $role'],
    /^DATABASE_URL: .* several schemas \(aaa, bbb\), .*: ALTER ROLE guest_\w+ IN DATABASE \w+ SET search_path = <schema>;\n$/,
  ],
  [
    "a schema with a stranger's table",
    ['create schema $role authorization $role; create table $role.runs (id int)'],
    /^DATABASE_URL: the schema guest_\w+ has something that is not of Sluice: relation "runs" already exists\. .*CREATE SCHEMA sluice/,
  ],
  [
    "a schema with a stranger's table that the queue has too",
    ['create schema $role authorization $role; create table $role.meta (queue text)'],
    /^DATABASE_URL: the schema of the queue has a table meta already\. .*CREATE SCHEMA bullmq AUTHORIZATION "guest_\w+"; or set REDIS_URL/,
  ],
  [
    'a role that is read-only',
    [
      'create schema $role authorization $role; alter role $role set default_transaction_read_only = on',
    ],
    /^DATABASE_URL: the role guest_\w+ is read-only .*ALTER ROLE guest_\w+ RESET default_transaction_read_only;\n$/,
  ],
  [
    'a role that may not connect',
    ['revoke connect on database $database from public'],
    /^DATABASE_URL: permission denied for database "\w+" \(42501\); GRANT CONNECT ON DATABASE .*\n$/,
  ],
]);
test.each(refused)('with %s: one line with the remedy', async (_what, statements, line) => {
  const { env } = await createGuest(...statements);
  const { code, err } = await runCli(['migrate'], { env });
  expect(err).toMatch(line);
  expect([code, err.trim().split('\n').length]).toEqual([1, 1]);
});

test.each(firstByDay(1, ['SQL_ASCII', 'LATIN1']))(
  'a database in %s is refused before anything is made',
  async (encoding) => {
    const { asAdmin, name, url } = await createGuest();
    const other = `${name}_other`;
    await asAdmin(
      `create database ${other} owner $role encoding '${encoding}' locale 'C' template template0`,
    );
    const env = { DATABASE_URL: url.replace(/[^/]*$/, other) };
    const { code, err } = await runCli(['migrate'], { env });
    await asAdmin(`drop database ${other} with (force)`);
    expect(code).toBe(1);
    expect(err).toMatch(
      new RegExp(
        `^DATABASE_URL: the encoding of the database ${other} is ${encoding}, .* CREATE DATABASE .*UTF8.*\\n$`,
      ),
    );
  },
);

/** The database belongs to the role of the service. */
const createOwned = () => createGuest('alter database $database owner to $role');

atNight('a superuser makes the role of the source, and no table of the service', async () => {
  const { superuser, env, role, source } = await createOwned();
  const early = await runCli(['migrate', '--source-role'], { env: superuser });
  expect([early.code, early.err]).toEqual([
    1,
    `The tables of Sluice must belong to the role ${role}. Run \`sluice migrate\` with its address in DATABASE_URL first, then this command again.\n`,
  ]);
  expect((await runCli(['migrate'], { env })).out).toMatch(/^migrated: 0001_release/);
  const elsewhere = { ...env, SOURCE_DATABASE_URL: 'postgres://reader:x@127.0.0.1:1/shop' };
  const other = await runCli(['migrate', '--source-role'], { env: elsewhere });
  // A script must not go on as if there were a role.
  expect(other.code).toBe(1);
  expect(other.err).toContain('Run what `sluice models grants` prints on that server');
  const late = await runCli(['migrate', '--source-role'], { env: superuser });
  expect([late.code, late.out]).toEqual([0, `up to date\nsource role: ${source}\n`]);
  const key = ['keys', 'create', '--operator', '--scopes', '*', '--name', 'first'];
  expect((await runCli(key, { env })).code).toBe(0);
});

atNight('a role that is no superuser makes the tables in a database of another one', async () => {
  const { env, asAdmin } = await createOwned();
  await asAdmin(
    `alter database $database owner to current_user; alter role $role createrole;
     grant create on schema public to $role; grant all on database $database to $role with grant option`,
  );
  const done = await runCli(['migrate', '--source-role'], { env });
  await asAdmin('drop owned by $role cascade');
  // What it may not do to roles comes after the tables.
  expect(done.out).toMatch(/^migrated: 0001_release/);
});

atNight('tables that a superuser has made by mistake are named with the remedy', async () => {
  const { superuser, env, role } = await createOwned();
  expect((await runCli(['migrate'], { env: superuser })).code).toBe(0);
  const said = new RegExp(
    `DATABASE_URL: the tables of Sluice belong to the role \\w+, and ${role} may not use them\\.\\s+Log in as`,
  );
  expect((await runCli(['migrate'], { env })).err).toMatch(said);
  expect((await runCli(['doctor'], { env })).out).toMatch(said);
});
