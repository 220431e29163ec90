/** Addresses of every kind on a real server: each leads to the rows, or its setting is named with what to correct. */

import { chown, readFile, writeFile } from 'node:fs/promises';
import { networkInterfaces } from 'node:os';
import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { chooseIdentity } from '../../src/state/embedded-postgres/identity.ts';
import { findFreePort } from '../support/free-port.ts';
import { folderOfTests } from '../support/own-folder.ts';
import {
  type SourceCase,
  type SourceServer,
  caseRequest,
  openSourceCase,
  outcomeOf,
  startSourceServer,
} from '../support/source-cases.ts';
import { choosePrograms } from '../support/stock-postgres.ts';
import { until } from '../support/until.ts';

const never = new AbortController().signal;
const bin = choosePrograms();
const hasIpv6 = Object.values(networkInterfaces()).some((all) =>
  all?.some(({ address }) => address === '::1'),
);

describe.skipIf(bin === null)('an address', () => {
  const folder = folderOfTests();
  let server: SourceServer;
  let admin: Client;
  let shop: SourceCase;

  beforeAll(async () => {
    const { user } = await chooseIdentity(folder);
    if (user) await chown(folder, user.uid, user.gid);
    server = await startSourceServer({
      listen_addresses: hasIpv6 ? '127.0.0.1,::1' : '127.0.0.1',
      unix_socket_directories: folder,
      password_encryption: 'md5',
      max_connections: '20',
    });
    admin = new Client({ connectionString: server.url });
    await admin.connect();
    shop = await openSourceCase(server);
    const { rows } = await admin.query<{ file: string }>(
      `select current_setting('hba_file') as file`,
    );
    const file = rows[0]?.file ?? '';
    const rules = await readFile(file, 'utf8');
    await writeFile(
      file,
      `host all ${shop.reader} all md5\nlocal all ${shop.reader} md5\n${rules}`,
    );
    await admin.query('select pg_reload_conf()');
    await until(async () => (await openAt((url) => (url.password = 'other'))) !== 100);
  });

  afterAll(async () => {
    await shop?.close();
    await admin?.end();
    await server?.stop();
  });

  /** The number of rows, or the error. */
  const openAt = async (change: (url: URL) => void) => {
    const url = new URL(shop.url);
    change(url);
    const options = {
      connectionString: url.href,
      addressName: 'SHOP_URL',
      connectTimeoutMs: 3_000,
    };
    const outcome = await outcomeOf(shop.source({}, options));
    expect(String(outcome)).not.toContain('reader');
    return outcome;
  };

  test.skipIf(!hasIpv6)('may be IPv6, in brackets or as a parameter', async () => {
    expect(await openAt((url) => (url.hostname = '[::1]'))).toBe(100);
    expect(await openAt((url) => url.searchParams.set('host', '::1'))).toBe(100);
  });

  test('may be a socket, and an md5 password is enough', async () => {
    expect(await openAt(() => {})).toBe(100);
    expect(await openAt((url) => url.searchParams.set('host', folder))).toBe(100);
    expect(await openAt((url) => url.searchParams.set('host', `${folder}/none`))).toBe(
      'source.unavailable SHOP_URL: no server answers at its address (ENOENT). If it persists, correct host and port',
    );
  });

  test('with a wrong port or host is named, and tried again', async () => {
    const free = await findFreePort();
    expect(await openAt((url) => (url.port = String(free)))).toMatch(
      /^source\.unavailable SHOP_URL: no server answers at its address \(ECONNREFUSED\)/,
    );
    expect(await openAt((url) => (url.hostname = 'no-such-host.invalid'))).toMatch(
      /^source\.unavailable SHOP_URL: no server answers at its address \((ENOTFOUND|EAI_AGAIN)\)/,
    );
  });

  test('with a password that is wrong or has expired is named, and not tried again', async () => {
    const refused =
      /^source\.access_refused SHOP_URL: the server refused the password of the role, or it has expired \(VALID UNTIL/;
    expect(await openAt((url) => (url.password = 'other'))).toMatch(refused);
    await shop.run(`alter role ${shop.reader} valid until '2020-01-01'`);
    expect(await openAt(() => {})).toMatch(refused);
    await shop.run(`alter role ${shop.reader} valid until 'infinity'`);
  });

  test('of a server or a database without a free connection is named, and tried again', async () => {
    const name = new URL(shop.url).pathname.slice(1);
    await shop.run(`alter database ${name} connection limit 0`);
    expect(await openAt(() => {})).toMatch(
      /^source\.out_of_resources SHOP_URL: too many connections for database .* \(SQLSTATE 53300\)\. Raise it by ALTER DATABASE … CONNECTION LIMIT; 0 lets no session in$/,
    );
    await shop.run(`alter database ${name} connection limit -1`);
    // What only a person can end is not tried again.
    const postgres = new URL(server.url);
    postgres.pathname = '/postgres';
    const other = new Client({ connectionString: postgres.href });
    await other.connect();
    await other.query(`alter database ${name} allow_connections false`);
    expect(await openAt(() => {})).toBe(
      'source.access_refused SHOP_URL: the database accepts no connections (SQLSTATE 55000). Allow them by ALTER DATABASE … ALLOW_CONNECTIONS true',
    );
    await other.query(`alter database ${name} allow_connections true`);
    await other.end();
    // What an interrupted DROP DATABASE leaves.
    const limitTo = (limit: number) =>
      shop.run(`update pg_database set datconnlimit = ${limit} where datname = '${name}'`);
    await limitTo(-2);
    expect(await openAt(() => {})).toMatch(
      /^source\.access_refused SHOP_URL: the database is invalid/,
    );
    await limitTo(-1);
    const clients: Client[] = [];
    const take = async (url: string): Promise<boolean> => {
      const client = new Client({ connectionString: url });
      client.on('error', () => {});
      const isTaken = await client.connect().then(
        () => true,
        () => false,
      );
      if (isTaken) clients.push(client);
      return isTaken;
    };
    while (await take(shop.url));
    const full = /Raise max_connections of the server, or use fewer connections$/;
    expect(await openAt(() => {})).toMatch(/superuser_reserved_connections and reserved_conn/);
    while (await take(server.url));
    expect(await openAt(() => {})).toMatch(/^source\.out_of_resources SHOP_URL: sorry, too many/);
    expect(await openAt(() => {})).toMatch(full);
    await Promise.all(clients.map((client) => client.end()));
    await until(async () => (await openAt(() => {})) === 100);
  });

  test('each sslmode is refused by a server without TLS, or needs none', async () => {
    for (const mode of ['prefer', 'require', 'verify-ca', 'verify-full', 'no-verify']) {
      expect([mode, await openAt((url) => url.searchParams.set('sslmode', mode))]).toEqual([
        mode,
        expect.stringMatching(/^source\.access_refused SHOP_URL: the address asks for TLS/),
      ]);
    }
    expect(await openAt((url) => url.searchParams.set('sslmode', 'disable'))).toBe(100);
  });

  test('with a name of its own for sessions shows for how long it has read', async () => {
    const url = new URL(shop.url);
    url.searchParams.set('application_name', 'reports');
    const source = shop.source({}, { connectionString: url.href });
    const snapshot = await source.open(caseRequest(), never);
    expect((await source.inspect(never)).oldestSnapshotSeconds).toBeGreaterThan(0);
    await snapshot.close();
  });
});
