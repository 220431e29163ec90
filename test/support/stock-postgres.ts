import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, readdirSync } from 'node:fs';
import { appendFile, chmod, chown, mkdir, open, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import {
  chooseIdentity,
  runProgram,
  spawnOptionsFor,
} from '../../src/state/embedded-postgres/identity.ts';
import { withClient } from './drop-database.ts';
import { findFreePort } from './free-port.ts';
import { until } from './until.ts';

/** Debian's packages `postgresql-<major>`: a folder of programs for each version. */
const versions = '/usr/lib/postgresql';

/** Debian's programs of a major version; by default the newest of 15 to 18. Null if there are none. */
export function findPostgresPrograms(wanted?: number): string | null {
  const majors = existsSync(versions) ? readdirSync(versions).map(Number) : [];
  const usable = majors.filter((major) => major >= 15 && major <= 18);
  const [newest] = usable.filter((major) => (wanted ?? major) === major).sort((a, b) => b - a);
  const bin = path.join(versions, String(newest), 'bin');
  return ['initdb', 'postgres'].every((name) => existsSync(path.join(bin, name))) ? bin : null;
}

/**
 * The folder of the programs that the tests use; null: the embedded server. By default they are Debian's, or embedded if
 * none are installed. TEST_POSTGRES names a folder, or is `embedded`.
 */
export function choosePrograms(): string | null {
  const wanted = process.env.TEST_POSTGRES || 'debian';
  if (wanted === 'embedded') return null;
  return wanted === 'debian' ? findPostgresPrograms() : wanted;
}

/** The same if pg_dump and pg_restore are there too. */
export function chooseClients(): string | null {
  const bin = choosePrograms();
  const needed = ['pg_dump', 'pg_restore'];
  return bin !== null && needed.every((name) => existsSync(path.join(bin, name))) ? bin : null;
}

/** As on most servers of users. A machine without it has one that sorts by bytes. */
const usualLocale = 'en_US.UTF-8';

function chooseLocale(): string {
  const known = execFileSync('locale', ['-a'], { encoding: 'utf8' });
  return /^en_US\.utf-?8$/im.test(known) ? usualLocale : 'C.UTF-8';
}

/** A data directory. */
export interface Cluster {
  /** The folder of the programs. */
  readonly bin: string;
  readonly folder: string;
}

/** The password of the superuser is beside the folder. */
const passwordFile = (folder: string) => `${folder}.password`;

/**
 * Makes a data directory with the defaults of `initdb`, in the usual locale, with a superuser `postgres`. The time zone
 * is far from UTC and has half hours. Crashes of the machine may lose data; all else is as users have it.
 *
 * @param folder does not exist yet; the server's user may pass through its parent, which is ours
 */
export async function makeCluster(bin: string, folder: string): Promise<Cluster> {
  await chmod(path.dirname(folder), 0o711);
  await mkdir(folder, { mode: 0o700 });
  const identity = await chooseIdentity(folder);
  const { user } = identity;
  if (user) await chown(folder, user.uid, user.gid);
  const password = randomBytes(12).toString('hex');
  const secret = passwordFile(folder);
  await writeFile(secret, password, { mode: 0o600 });
  if (user) await chown(secret, user.uid, user.gid);
  const args = [
    ...['--pgdata=.', '--no-sync', '--username=postgres', '--auth=scram-sha-256'],
    ...[`--pwfile=${secret}`, '--encoding=UTF8', `--locale=${chooseLocale()}`],
  ];
  const options = spawnOptionsFor(identity, folder);
  const made = await runProgram(path.join(bin, 'initdb'), args, options);
  if (made.code !== 0) throw new Error(`initdb failed:\n${made.output}`);
  await appendFile(
    path.join(folder, 'postgresql.conf'),
    `\ntimezone = 'America/St_Johns'\nfsync = off\nfull_page_writes = off\n` +
      `listen_addresses = '127.0.0.1'\nunix_socket_directories = ''\n`,
  );
  return { bin, folder };
}

/** A server that this process started. */
export interface StockPostgres {
  /** A superuser's URL of the database `postgres`. */
  readonly url: string;
  readonly port: number;
  readonly pid: number;
  readonly child: ChildProcess;
  /** Ends the sessions, as `pg_ctl stop -m fast` does. */
  stop(signal?: NodeJS.Signals): Promise<void>;
}

/** Starts a server, as another user if we are root, and waits until it answers. */
export async function startCluster(
  { bin, folder }: Cluster,
  settings: Readonly<Record<string, string>> = {},
  atPort?: number,
): Promise<StockPostgres> {
  const password = await readFile(passwordFile(folder), 'utf8');
  const port = atPort ?? (await findFreePort());
  const identity = await chooseIdentity(folder);
  const given = Object.entries({ ...settings, port: String(port) });
  const logFile = `${folder}.log`;
  const log = await open(logFile, 'a');
  const child = spawn(
    path.join(bin, 'postgres'),
    ['-D', '.', ...given.flatMap(([name, value]) => ['-c', `${name}=${value}`])],
    { ...spawnOptionsFor(identity, folder), detached: true, stdio: ['ignore', log.fd, log.fd] },
  );
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  let hasEnded = false;
  void ended.then(() => {
    hasEnded = true;
  });
  await log.close();
  const url = `postgres://postgres:${password}@127.0.0.1:${port}/postgres`;
  const stop = async (signal: NodeJS.Signals = 'SIGINT') => {
    child.kill(signal);
    await ended;
  };
  const answers = () => withClient(url, (client) => client.query('select'));
  try {
    await until(async () => hasEnded || (await answers()), {
      message: `postgres answers at port ${port}`,
    });
    if (hasEnded) throw new Error(`postgres ended:\n${await readFile(logFile, 'utf8')}`);
  } catch (error) {
    child.kill('SIGKILL');
    throw error;
  }
  return { url, port, pid: child.pid ?? 0, child, stop };
}
