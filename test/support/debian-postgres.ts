import { existsSync, readdirSync } from 'node:fs';
import { chown, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Client } from 'pg';
import {
  chooseIdentity,
  runProgram,
  spawnOptionsFor,
} from '../../src/state/embedded-postgres/identity.ts';
import { findFreePort } from './free-port.ts';
import { startProcess } from './processes.ts';
import { until } from './until.ts';

/** Debian's packages `postgresql-<major>`: a folder of programs for each version. */
const versions = '/usr/lib/postgresql';

/** The programs of a server and its clients (pg_dump, pg_restore), all of one version; null if there are none. */
export function findPostgresPrograms(): string | null {
  const majors = existsSync(versions) ? readdirSync(versions).map(Number) : [];
  const [newest] = majors.filter((major) => major >= 15 && major <= 18).sort((a, b) => b - a);
  const bin = path.join(versions, String(newest), 'bin');
  const needed = ['initdb', 'postgres', 'pg_dump', 'pg_restore'];
  return needed.every((name) => existsSync(path.join(bin, name))) ? bin : null;
}

interface DebianPostgres {
  /** Of a superuser. */
  readonly url: string;
  stop(): Promise<void>;
}

/**
 * A server of these programs, with one empty database. It ends with the test file at the latest.
 *
 * @param more settings beside ours
 * @param primaryUrl of a server with the same programs, to be a standby of; null: it is a primary
 */
export async function startPostgresOf(
  bin: string,
  more: Readonly<Record<string, string>> = {},
  primaryUrl: string | null = null,
): Promise<DebianPostgres> {
  const folder = await mkdtemp(path.join(tmpdir(), 'sluice-debian-postgres-'));
  const remove = () => rm(folder, { recursive: true, force: true });
  const identity = await chooseIdentity(folder);
  const { user } = identity;
  if (user) await chown(folder, user.uid, user.gid);
  const [maker, making] =
    primaryUrl === null
      ? ['initdb', ['--username=postgres', '--auth=trust', '--encoding=UTF8']]
      : ['pg_basebackup', ['--write-recovery-conf', '--checkpoint=fast', `--dbname=${primaryUrl}`]];
  const made = await runProgram(
    path.join(bin, maker),
    ['--pgdata=.', '--no-sync', ...making],
    spawnOptionsFor(identity, folder),
  );
  if (made.code !== 0) {
    await remove();
    throw new Error(`${maker} failed:\n${made.output}`);
  }
  const port = await findFreePort();
  const settings = {
    port,
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
    fsync: 'off',
    ...more,
  };
  const options = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const asUser = user
    ? ['setpriv', `--reuid=${user.uid}`, `--regid=${user.gid}`, '--clear-groups']
    : [];
  const [program = '', ...args] = [...asUser, path.join(bin, 'postgres'), '-D', '.', ...options];
  const server = startProcess(program, args, { cwd: folder });
  const urlOf = (database: string) =>
    `postgres://postgres:unused-password@127.0.0.1:${port}/${database}`;
  const stop = async () => {
    server.kill('SIGINT');
    await server.waitForExit();
    await remove();
  };
  try {
    await until(
      () => {
        if (server.hasExited()) throw new Error(`postgres ended:\n${server.output()}`);
        const first = primaryUrl === null ? 'create database sluice' : 'select 1';
        return query(urlOf('postgres'), first).then(
          () => true,
          () => false,
        );
      },
      { message: () => `postgres answers:\n${server.output()}` },
    );
  } catch (error) {
    server.kill('SIGKILL');
    await remove();
    throw error;
  }
  return { url: urlOf('sluice'), stop };
}

async function query(url: string, statement: string): Promise<void> {
  const client = new Client({ connectionString: url });
  client.on('error', () => {});
  await client.connect();
  await client.query(statement).finally(() => client.end());
}
