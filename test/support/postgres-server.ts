import { chmod, mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { startEmbeddedPostgres } from '../../src/state/embedded-postgres/start.ts';
import { withClient } from './drop-database.ts';
import { isAlive } from './is-alive.ts';
import { endWithFile } from './processes.ts';
import { choosePrograms, makeCluster, startCluster } from './stock-postgres.ts';
import { type OwnedServer, prepareOwner, urlOf } from './template-database.ts';
import { until } from './until.ts';

/** A PostgreSQL that a test may stop and start, or that has settings of its own. */
export interface OwnPostgres {
  /** An empty database, of the role that owns it. */
  readonly url: string;
  /** The same, of a superuser. */
  readonly adminUrl: string;
  /** To make more databases. */
  readonly server: OwnedServer;
  readonly port: number;
  /** PostgreSQL's data directory. */
  readonly data: string;
  /**
   * Stops it, as `pg_ctl stop -m` does, and starts it again at the same port: `fast` ends the
   * sessions, `immediate` is a crash with a recovery.
   *
   * @param meanwhile is done while it is down
   */
  restart(mode: 'fast' | 'immediate', meanwhile?: () => Promise<unknown>): Promise<void>;
  stop(): Promise<void>;
}

/** A server over files in a folder. */
interface Running {
  /** Of a superuser. */
  readonly url: string;
  readonly port: number;
  stop(): Promise<unknown>;
}

export const dataIn = (folder: string) => path.join(folder, 'data');

/** Starts a server over the files of a folder, by the programs in `bin`; null: the embedded ones. */
export async function startIn(
  bin: string | null,
  folder: string,
  settings: Readonly<Record<string, string>>,
  port?: number,
): Promise<Running> {
  if (bin === null) return startEmbeddedPostgres({ dataDir: path.dirname(folder), settings });
  const server = await startCluster({ bin, folder: dataIn(folder) }, settings, port);
  endWithFile(server.child);
  return server;
}

/**
 * Ends with the test file at the latest.
 *
 * @param more settings beside ours
 * @param bin the folder of its programs; null: the embedded ones; default: those that all tests use
 */
export async function startOwnPostgres(
  more: Readonly<Record<string, string>> = {},
  bin: string | null = choosePrograms(),
): Promise<OwnPostgres> {
  // The embedded server calls its folder so.
  const home = await mkdtemp(path.join(tmpdir(), 'sluice-own-postgres-'));
  const folder = path.join(home, 'postgres');
  const settings = { max_prepared_transactions: '5', shared_buffers: '32MB', ...more };
  if (bin !== null) {
    await chmod(home, 0o711);
    await mkdir(folder);
    await makeCluster(bin, dataIn(folder));
  }
  let running = await startIn(bin, folder, settings);
  const { url: adminUrl, port } = running;
  const server = await prepareOwner(adminUrl);
  const name = `${server.prefix}own`;
  await withClient(adminUrl, (client) =>
    client.query(`create database ${name} owner ${server.owner.name}`),
  );
  const data = dataIn(folder);
  const readPid = async () =>
    Number((await readFile(path.join(data, 'postmaster.pid'), 'utf8')).split('\n')[0]);
  return {
    ...{ server, port, data },
    url: urlOf(server, name),
    adminUrl: urlOf(server, name, true),
    async restart(mode, meanwhile) {
      const pid = await readPid();
      process.kill(pid, mode === 'fast' ? 'SIGINT' : 'SIGQUIT');
      await until(() => !isAlive(pid), { message: 'the server has stopped' });
      await meanwhile?.();
      running = await startIn(bin, folder, settings, port);
      if (running.port !== port) throw new Error(`it came back at port ${running.port}`);
    },
    async stop() {
      await running.stop();
      await rm(home, { recursive: true, force: true, maxRetries: 10, retryDelay: 200 });
    },
  };
}
