import { accessSync, constants } from 'node:fs';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createConnection } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { findFreePort } from './free-port.ts';
import { startProcess, type TestProcess } from './processes.ts';
import { until } from './until.ts';

/** Debian's package `pgbouncer` puts it here. */
const program = ['/usr/sbin/pgbouncer', '/usr/local/bin/pgbouncer'].find((file) => {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
});
if (!program) {
  if (process.env.REQUIRE_PGBOUNCER === '1')
    throw new Error('REQUIRE_PGBOUNCER=1, but no pgbouncer.');
  console.log(
    'The pooler is not tested: there is no /usr/sbin/pgbouncer (apt-get install pgbouncer).',
  );
}

/** Whether this machine has PgBouncer. */
export const hasPgbouncer = program !== undefined;

/** A PgBouncer before one server, with a user of it. */
export interface Pooler {
  /** The same database by way of the pooler. */
  reach(databaseUrl: string): string;
  /** Ends it at once, and with it all connections. */
  kill(): Promise<void>;
  /** Starts it again at the same port. */
  restart(): Promise<void>;
  stop(): Promise<void>;
}

/** @param databaseUrl of a superuser, by whom it asks for other users; every database of the server is served */
export async function startPgbouncer(
  databaseUrl: string,
  poolMode: 'transaction' | 'session' = 'transaction',
  more: Readonly<Record<string, string | number>> = {},
): Promise<Pooler> {
  if (!program) throw new Error('There is no pgbouncer.');
  const target = new URL(databaseUrl);
  const [user, password] = [target.username, target.password].map(decodeURIComponent);
  const folder = await mkdtemp(path.join(tmpdir(), 'sluice-pgbouncer-'));
  const port = await findFreePort();
  const ini = path.join(folder, 'pgbouncer.ini');
  await writeFile(path.join(folder, 'users.txt'), `"${user}" "${password}"\n`);
  await writeFile(
    ini,
    `[databases]
* = host=${target.hostname} port=${target.port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = ${path.join(folder, 'users.txt')}
auth_user = ${user}
auth_query = SELECT usename, passwd FROM pg_catalog.pg_shadow WHERE usename = $1
pool_mode = ${poolMode}
default_pool_size = 8
server_login_retry = 1
${Object.entries({ max_client_conn: 400, ...more })
  .map(([name, value]) => `${name} = ${value}\n`)
  .join('')}`,
  );
  // It refuses to run as root.
  const unprivileged = process.getuid?.() === 0 ? ['-u', 'nobody'] : [];
  await chmod(folder, 0o755);
  const start = async (): Promise<TestProcess> => {
    const child = startProcess(program, [...unprivileged, ini]);
    await until(
      () => {
        if (child.hasExited()) throw new Error(`pgbouncer ended:\n${child.output()}`);
        return accepts(port);
      },
      { message: () => `pgbouncer listens at port ${port}:\n${child.output()}` },
    );
    return child;
  };
  let child = await start();
  const kill = async () => {
    child.kill('SIGKILL');
    await child.waitForExit();
  };
  return {
    reach(url) {
      const reached = new URL(url);
      reached.host = `127.0.0.1:${port}`;
      return reached.href;
    },
    kill,
    async restart() {
      if (!child.hasExited()) await kill();
      child = await start();
    },
    async stop() {
      if (!child.hasExited()) await kill();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createConnection(port, '127.0.0.1', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
}
