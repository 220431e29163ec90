import { createHmac, randomBytes } from 'node:crypto';
import { chown, mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { systemClock } from '../../foundation/domain/clock.ts';
import type { Binaries } from './binaries.ts';
import {
  dataDirectoryArgument,
  runProgram,
  type ServerIdentity,
  spawnOptionsFor,
} from './identity.ts';
import { isProcessAlive } from './pid-file.ts';
import { makeFolder } from './make-folder.ts';

export const databaseUser = 'sluice';
export const databaseName = 'sluice';

/** Where the parts of one embedded server are. All paths are absolute. */
export interface Layout {
  readonly folder: string;
  readonly data: string;
  readonly log: string;
  /** The port of the last start, used again if it is free. */
  readonly portFile: string;
}

/** The secrets of the owner; kept in the data directory, mode 0600. */
export interface ClusterSecrets {
  readonly password: string;
  /** PostgreSQL's `cluster_name`: distinguishes this server from any other on the same port. */
  readonly clusterName: string;
}

/** The role for exports. Its password follows from the owner's, so every process knows it. */
export function sourceRoleOf({ password }: ClusterSecrets): { name: string; password: string } {
  const name = 'sluice_source';
  return { name, password: createHmac('sha256', password).update(name).digest('base64url') };
}

export function layoutOf(dataDir: string): Layout {
  const folder = path.resolve(dataDir, 'postgres');
  return {
    folder,
    data: path.join(folder, 'data'),
    log: path.join(folder, 'server.log'),
    portFile: path.join(folder, 'port'),
  };
}

const secretsFile = (data: string): string => path.join(data, 'sluice.json');
const staleInitMs = 10 * 60_000;

/** The secrets of an initialised data directory; null if there is none yet. */
export async function readSecrets(layout: Layout): Promise<ClusterSecrets | null> {
  try {
    return JSON.parse(await readFile(secretsFile(layout.data), 'utf8')) as ClusterSecrets;
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (code === 'ENOENT') return null;
    if (code !== 'EACCES') throw error;
    throw new Error(
      `${layout.data} belongs to another user. Start as that user, or set another SLUICE_DATA_DIR.`,
      { cause: error },
    );
  }
}

/** Makes it under another name and renames it: of two starts the first wins. Fails on data of another major version. */
export async function ensureDataDirectory(
  layout: Layout,
  binaries: Binaries,
  identity: ServerIdentity,
  isDurable: boolean,
): Promise<ClusterSecrets> {
  await makeFolder(layout.folder);
  await clearUnfinished(layout);
  const present = await readSecrets(layout);
  if (present === null) await makeDataDirectory(layout, binaries, identity, isDurable);
  const secrets = present ?? (await readSecrets(layout));
  if (secrets === null) {
    throw new Error(
      `${layout.data} was not made by Sluice. Move it elsewhere, or set another SLUICE_DATA_DIR.`,
    );
  }
  const major = (await readFile(path.join(layout.data, 'PG_VERSION'), 'utf8')).trim();
  if (major !== binaries.major) {
    throw new Error(
      `The data in ${layout.data} is of PostgreSQL ${major}, but the embedded server is ${binaries.major}. ` +
        `Dump it with PostgreSQL ${major} and load it into a new SLUICE_DATA_DIR, or delete it.`,
    );
  }
  return secrets;
}

async function makeDataDirectory(
  layout: Layout,
  binaries: Binaries,
  identity: ServerIdentity,
  isDurable: boolean,
): Promise<void> {
  const name = `init-${process.pid}-${randomBytes(4).toString('hex')}`;
  const unfinished = path.join(layout.folder, name);
  await mkdir(unfinished, { mode: 0o700 });
  if (identity.user !== null) await chown(unfinished, identity.user.uid, identity.user.gid);
  try {
    await initialise(unfinished, binaries, identity, isDurable);
    await rename(unfinished, layout.data);
  } catch (error) {
    await rm(unfinished, { recursive: true, force: true });
    // A rename onto a non-empty directory fails: another start has made it first.
    const code = (error as NodeJS.ErrnoException).code;
    if (code !== 'ENOTEMPTY' && code !== 'EEXIST') throw error;
  }
}

async function initialise(
  data: string,
  binaries: Binaries,
  identity: ServerIdentity,
  isDurable: boolean,
): Promise<void> {
  const options = spawnOptionsFor(identity, data);
  const at = ['-D', dataDirectoryArgument(identity, data)];
  const initdb = await runProgram(
    path.join(binaries.bin, 'initdb'),
    [
      ...at,
      ...['-E', 'UTF8', '--locale=C', '-U', databaseUser, '-A', 'reject', '--no-instructions'],
      ...(isDurable ? [] : ['--no-sync']),
    ],
    options,
  );
  if (initdb.code !== 0) throw new Error(`initdb failed:\n${initdb.output}`);
  const secrets: ClusterSecrets = {
    password: randomBytes(24).toString('base64url'),
    clusterName: `sluice-${randomBytes(6).toString('hex')}`,
  };
  // The single-user mode needs no authentication and no port, and initdb needs no password file.
  const single = await runProgram(
    path.join(binaries.bin, 'postgres'),
    ['--single', ...at, '-c', `fsync=${isDurable ? 'on' : 'off'}`, 'postgres'],
    options,
    `ALTER ROLE ${databaseUser} PASSWORD '${secrets.password}';\nCREATE DATABASE ${databaseName};\n`,
  );
  if (single.code !== 0 || /ERROR|FATAL|PANIC/.test(single.output)) {
    throw new Error('Cannot set the password and the database of the new data directory.');
  }
  await writeFile(
    path.join(data, 'pg_hba.conf'),
    '# Written by sluice. TCP from this machine only, always with the password.\n' +
      'host all all 127.0.0.1/32 scram-sha-256\n',
    { flush: true },
  );
  await writeFile(secretsFile(data), JSON.stringify(secrets), { mode: 0o600, flush: true });
  // The server must be able to read every file in the data directory, since it syncs all after a crash.
  if (identity.user !== null) {
    await chown(secretsFile(data), identity.user.uid, identity.user.gid);
  }
}

/** Removes what starts left that ended while making the data directory. */
async function clearUnfinished(layout: Layout): Promise<void> {
  for (const name of await readdir(layout.folder)) {
    const pid = /^init-(\d+)-/.exec(name)?.[1];
    if (pid === undefined) continue;
    const folder = path.join(layout.folder, name);
    const status = await stat(folder).catch(() => null);
    if (status === null) continue;
    // The number may belong to another process by now: then age decides.
    const isOld = systemClock.now() - status.mtimeMs > staleInitMs;
    if (!isOld && isProcessAlive(Number(pid))) continue;
    // The initdb of a killed start may still write into it for a moment.
    await rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
  }
}
