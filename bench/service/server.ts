import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import {
  copyFolders,
  findBinaries,
  locatePackage,
} from '../../src/state/embedded-postgres/binaries.ts';
import { chooseIdentity } from '../../src/state/embedded-postgres/identity.ts';
import { withClient } from '../../test/support/drop-database.ts';
import {
  findPostgresPrograms,
  makeCluster,
  startCluster,
} from '../../test/support/stock-postgres.ts';
import { describeServer, prepareOwner, urlOf } from '../../test/support/template-database.ts';

/** The PostgreSQL of a benchmark. */
export interface BenchServer {
  /** Of the role that owns the database, and may do nothing else. */
  readonly url: string;
  /** Of a superuser. */
  readonly adminUrl: string;
  /** Its main process. */
  readonly pid: number;
  /** In one line: version, make, JIT. */
  readonly about: string;
  stop(): Promise<void>;
}

/** What a default server does not have: it counts statements. A server that keeps its data waits for the disk. */
const settings = {
  shared_preload_libraries: 'pg_stat_statements',
  'pg_stat_statements.track_planning': 'on',
  fsync: 'on',
  full_page_writes: 'on',
};

/**
 * Starts a server with its default settings, JIT too, over a new folder.
 *
 * @param major Debian's programs of this version; if it has none, those of the embedded server, if they are that version
 */
export async function startServer(major: string): Promise<BenchServer> {
  const folder = await mkdtemp(path.join(tmpdir(), 'sluice-bench-'));
  await chmod(folder, 0o711);
  const remove = () => rm(folder, { recursive: true, force: true });
  try {
    const debian = findPostgresPrograms(Number(major));
    const bin = debian ?? (await findEmbedded(folder, major));
    const server = await startCluster(await makeCluster(bin, path.join(folder, 'data')), settings);
    const owned = await prepareOwner(server.url);
    const name = `${owned.prefix}bench`;
    await withClient(server.url, (client) =>
      client.query(`create database ${name} owner ${owned.owner.name}`),
    );
    return {
      url: urlOf(owned, name),
      adminUrl: urlOf(owned, name, true),
      pid: server.pid,
      about: await describeServer(server.url, debian === null ? 'from npm' : 'of Debian'),
      stop: () => server.stop().finally(remove),
    };
  } catch (error) {
    await remove();
    throw error;
  }
}

async function findEmbedded(folder: string, wanted: string): Promise<string> {
  const identity = await chooseIdentity(folder);
  const found = await findBinaries(identity, locatePackage(), copyFolders(identity, folder));
  if (found.major !== wanted) throw new Error(`this machine has no PostgreSQL ${wanted}`);
  return found.bin;
}
