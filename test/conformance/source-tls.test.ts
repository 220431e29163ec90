/** Sources by TLS: a private authority, a server that requires TLS, certificates of clients, and cancel requests. */

import { appendFile, chmod, chown, readFile, writeFile } from 'node:fs/promises';
import { type AddressInfo, connect, createServer, type Server } from 'node:net';
import path from 'node:path';
import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createPostgresSource, planModels } from '../../src/rows/sources/index.ts';
import { chooseIdentity } from '../../src/state/embedded-postgres/identity.ts';
import { folderOfTests } from '../support/own-folder.ts';
import { type OwnPostgres, startOwnPostgres } from '../support/postgres-server.ts';
import { caseModel, caseRequest } from '../support/source-cases.ts';
import { tlsFiles } from '../support/tls-certificates.ts';
import { until } from '../support/until.ts';

const never = new AbortController().signal;
const folder = folderOfTests();
let server: OwnPostgres;
let admin: Client;
let proxy: Server;
/** The first bytes of each connection through the proxy. */
const openings: Buffer[] = [];

function urlOf(database: string): string {
  const url = new URL(server.adminUrl);
  url.pathname = `/${database}`;
  return url.href;
}

const file = (name: keyof typeof tlsFiles) => path.join(folder, name);

beforeAll(async () => {
  await chmod(folder, 0o755);
  const { user } = await chooseIdentity(folder);
  for (const [name, text] of Object.entries(tlsFiles)) {
    await writeFile(path.join(folder, name), text, { mode: 0o600 });
    if (user && name === 'serverKey') await chown(path.join(folder, name), user.uid, user.gid);
    if (!name.endsWith('Key')) await chmod(path.join(folder, name), 0o644);
  }
  // The newest version also begins with TLS at once (sslnegotiation=direct).
  server = await startOwnPostgres(
    {
      ssl: 'on',
      ssl_cert_file: file('serverCertificate'),
      ssl_key_file: file('serverKey'),
      ssl_ca_file: file('caCertificate'),
    },
    null,
  );
  admin = new Client({ connectionString: server.adminUrl });
  await admin.connect();
  await admin.query(`create role tls_reader login password 'reader'; create schema shop; grant usage on schema shop to tls_reader;
    create table shop.base (id bigint primary key, team int not null, at timestamptz not null, v text);
    insert into shop.base select g, 1, timestamptz '2024-03-01 00:10Z' + g * interval '1 second', 'v' || g from generate_series(1, 100) g;
    create view shop.slow as select id, team, at, pg_sleep(60)::text as v from shop.base where pg_sleep(60) is not null;
    grant select on shop.base, shop.slow to tls_reader;
    create role tls_plain login password 'reader' in role tls_reader`);
  await admin.query('create database certified');
  const other = new Client({ connectionString: urlOf('certified') });
  await other.connect();
  await other.query(`create schema shop; grant usage on schema shop to tls_reader;
    create table shop.base (id bigint, team int, at timestamptz, v text); grant select on shop.base to tls_reader`);
  await other.end();
  const rules = path.join(server.data, 'pg_hba.conf');
  const before = await readFile(rules, 'utf8');
  await writeFile(
    rules,
    `hostssl all tls_plain all password\nhostssl certified tls_reader all cert\nhostssl all tls_reader all scram-sha-256\nhost all tls_reader all reject\n${before}`,
  );
  await appendFile(rules, '\n');
  await admin.query('select pg_reload_conf()');
  proxy = createServer((socket) => {
    const up = connect(server.port, '127.0.0.1');
    socket.once('data', (chunk) => openings.push(chunk));
    socket.pipe(up).pipe(socket);
    socket.on('error', () => up.destroy());
    up.on('error', () => socket.destroy());
  });
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  await until(
    async () => (await openWith({ sslmode: 'disable' })).code === 'source.access_refused',
  );
});

afterAll(async () => {
  proxy?.close();
  await admin?.end();
  await server?.stop();
});

function sourceWith(
  parameters: Readonly<Record<string, string>>,
  host = 'localhost',
  relation = 'base',
  database = 'postgres',
) {
  const url = new URL(database === 'postgres' ? server.adminUrl : urlOf(database));
  url.username = 'tls_reader';
  url.password = 'reader';
  url.hostname = host;
  url.port = String((proxy.address() as AddressInfo).port);
  for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
  return createPostgresSource({
    connectionString: url.href,
    addressName: 'TLS_URL',
    plan: planModels([{ ...caseModel, relation: { schema: 'shop', name: relation } }]),
  });
}

/** The number of rows, or the error. */
async function openWith(
  parameters: Readonly<Record<string, string>>,
  host = 'localhost',
  database = 'postgres',
) {
  try {
    const snapshot = await sourceWith(parameters, host, 'base', database).open(
      caseRequest(),
      never,
    );
    await snapshot.close();
    return { rows: snapshot.totalCount };
  } catch (error) {
    const { code, detail } = error as { code: string; detail: string };
    return { code, detail };
  }
}

describe('an address', () => {
  test('with a private authority is trusted by its certificate alone', async () => {
    const verified = { sslmode: 'verify-full', sslrootcert: file('caCertificate') };
    expect(await openWith(verified)).toEqual({ rows: 100 });
    expect(await openWith({ ...verified, sslnegotiation: 'direct' })).toEqual({ rows: 100 });
    expect(await openWith({ sslmode: 'no-verify' })).toEqual({ rows: 100 });
    const untrusted = {
      code: 'source.access_refused',
      detail: expect.stringMatching(
        /^TLS_URL: the certificate of the server is not trusted .* Set sslrootcert/,
      ),
    };
    expect(await openWith({ sslmode: 'verify-full' })).toEqual(untrusted);
    expect(await openWith({ sslmode: 'require' })).toEqual(untrusted);
    // The certificate is that of localhost.
    expect(await openWith(verified, '127.0.0.1')).toEqual(untrusted);
  });

  test('without TLS is refused in words that name it, by a server that requires TLS', async () => {
    expect(await openWith({ sslmode: 'disable' })).toEqual({
      code: 'source.access_refused',
      detail: expect.stringMatching(/^TLS_URL: pg_hba\.conf .* Add sslmode=verify-full/),
    });
  });

  test('that requires channel binding gives its password to nothing else', async () => {
    const bound = {
      sslmode: 'verify-full',
      sslrootcert: file('caCertificate'),
      channel_binding: 'require',
    };
    expect(await openWith(bound)).toEqual({ rows: 100 });
    expect(await openWith({ ...bound, sslnegotiation: 'direct' })).toEqual({ rows: 100 });
    const unbound = {
      code: 'source.access_refused',
      detail: expect.stringMatching(
        /^TLS_URL: the address has channel_binding=require, but the server offers no/,
      ),
    };
    // It asks for the password itself.
    expect(await openWith({ ...bound, user: 'tls_plain' })).toEqual(unbound);
    expect(await openWith({ ...bound, user: 'tls_plain', channel_binding: 'prefer' })).toEqual({
      rows: 100,
    });
    // By its certificate alone.
    const own = { sslcert: file('clientCertificate'), sslkey: file('clientKey') };
    expect(await openWith({ ...bound, ...own }, 'localhost', 'certified')).toEqual(unbound);
    const prefers = { ...bound, ...own, channel_binding: 'prefer' };
    expect(await openWith(prefers, 'localhost', 'certified')).toEqual({ rows: 0 });
    expect(await openWith({ sslmode: 'disable', channel_binding: 'require' })).toMatchObject({
      code: 'source.access_refused',
    });
  });

  test('with the certificate of a client needs no password', async () => {
    const trusted = { sslmode: 'verify-full', sslrootcert: file('caCertificate') };
    const own = { sslcert: file('clientCertificate'), sslkey: file('clientKey') };
    expect(await openWith({ ...trusted, ...own }, 'localhost', 'certified')).toEqual({ rows: 0 });
    expect(await openWith(trusted, 'localhost', 'certified')).toMatchObject({
      code: 'source.access_refused',
    });
  });
});

test.each(['postgres', 'direct'])(
  'a statement is cancelled by TLS too (%s)',
  async (sslnegotiation) => {
    const trusted = { sslmode: 'verify-full', sslrootcert: file('caCertificate'), sslnegotiation };
    const aborted = new AbortController();
    const opening = sourceWith(trusted, 'localhost', 'slow').open(caseRequest(), aborted.signal);
    opening.catch(() => {});
    const working = async () => {
      const { rowCount } = await admin.query(
        `select from pg_stat_activity where usename = 'tls_reader' and wait_event = 'PgSleep'`,
      );
      return rowCount;
    };
    await until(async () => (await working()) === 1);
    openings.length = 0;
    aborted.abort(new Error('enough'));
    await expect(opening).rejects.toThrow('enough');
    await until(async () => (await working()) === 0);
    expect(openings.length).toBeGreaterThan(0);
    const cancelRequest = Buffer.from([4, 210, 22, 46]);
    expect(openings.filter((bytes) => bytes.subarray(4, 8).equals(cancelRequest))).toEqual([]);
  },
);
