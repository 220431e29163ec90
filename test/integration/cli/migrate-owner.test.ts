import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { expect, onTestFinished, test } from 'vitest';
import { runCli } from '../../support/cli.ts';
import { createEmptyDatabase } from '../../support/database.ts';

/** An empty database that belongs to a role of the service. */
async function createOwned() {
  const database = await createEmptyDatabase();
  const admin = new pg.Client({ connectionString: database.adminUrl });
  await admin.connect();
  // Roles belong to the whole server.
  const names = ['owner', 'source'].map((kind) => `${kind}_${randomBytes(6).toString('hex')}`);
  const [owner = '', source = ''] = names;
  await admin.query(
    `create role ${owner} login password 'x'; alter database ${new URL(database.url).pathname.slice(1)} owner to ${owner}`,
  );
  onTestFinished(async () => {
    await admin.end();
    await database.drop();
    const last = new pg.Client({
      connectionString: database.adminUrl.replace(/\/[^/]*$/, '/postgres'),
    });
    await last.connect();
    await last.query(`drop role if exists ${names.join(', ')}`);
    await last.end();
  });
  const urlOf = (name: string) => {
    const url = new URL(database.url);
    [url.username, url.password] = [name, 'x'];
    return url.href;
  };
  const env = { DATABASE_URL: urlOf(owner), SOURCE_DATABASE_URL: urlOf(source) };
  return { superuser: { ...env, DATABASE_URL: database.adminUrl }, env, owner, source };
}

test('a superuser makes the role of the source, and none of the tables of the service', async () => {
  const { superuser, env, owner, source } = await createOwned();
  const early = await runCli(['migrate', '--source-role'], { env: superuser });
  expect([early.code, early.err]).toEqual([
    1,
    `The tables of Sluice must belong to the role ${owner}. Run \`sluice migrate\` with its address in DATABASE_URL first, then this command again.\n`,
  ]);
  expect((await runCli(['migrate'], { env })).out).toMatch(/^migrated: 0001_release/);
  const elsewhere = { ...env, SOURCE_DATABASE_URL: 'postgres://reader:x@127.0.0.1:1/shop' };
  const other = await runCli(['migrate', '--source-role'], { env: elsewhere });
  // A script must not go on as if there were a role.
  expect([other.code, other.err]).toEqual([
    1,
    expect.stringContaining('Run what `sluice models grants` prints on that server'),
  ]);
  const late = await runCli(['migrate', '--source-role'], { env: superuser });
  expect([late.code, late.out]).toEqual([0, `up to date\nsource role: ${source}\n`]);
  expect(
    (await runCli(['keys', 'create', '--operator', '--scopes', '*', '--name', 'first'], { env }))
      .code,
  ).toBe(0);
});

test('a role that is no superuser makes the tables in a database of another one', async () => {
  const { superuser, env, owner } = await createOwned();
  const admin = new pg.Client({ connectionString: superuser.DATABASE_URL });
  await admin.connect();
  const database = new URL(superuser.DATABASE_URL).pathname.slice(1);
  await admin.query(
    `alter database ${database} owner to current_user; alter role ${owner} createrole;
     grant create on schema public to ${owner}; grant all on database ${database} to ${owner} with grant option`,
  );
  const done = await runCli(['migrate', '--source-role'], { env });
  await admin.query(`drop owned by ${owner} cascade`);
  await admin.end();
  // What it may not do to roles comes after the tables.
  expect(done.out).toMatch(/^migrated: 0001_release/);
});

test('tables that a superuser has made by mistake are named with the remedy', async () => {
  const { superuser, env, owner } = await createOwned();
  expect((await runCli(['migrate'], { env: superuser })).code).toBe(0);
  const said = new RegExp(
    `DATABASE_URL: the tables of Sluice belong to the role \\w+, and ${owner} may not use them\\.\\s+Log in as`,
  );
  expect((await runCli(['migrate'], { env })).err).toMatch(said);
  expect((await runCli(['doctor'], { env })).out).toMatch(said);
});
