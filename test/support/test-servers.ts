import { execFile } from 'node:child_process';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { isServerOf, readPidFile } from '../../src/state/embedded-postgres/pid-file.ts';
import { startEmbeddedPostgres } from '../../src/state/embedded-postgres/start.ts';
import { isAlive } from './is-alive.ts';
import {
  choosePrograms,
  findPostgresPrograms,
  makeCluster,
  startCluster,
} from './stock-postgres.ts';
import {
  describeServer,
  dropDatabases,
  prepareTemplate,
  type TestPostgres,
} from './template-database.ts';

/** The servers of a run. Each worker of Vitest uses one. */
export interface TestServers {
  readonly servers: readonly TestPostgres[];
  /** In one line: version, make, JIT. */
  readonly about: string;
  /** Leaves nothing of the run behind. */
  close(): Promise<void>;
}

const folderPrefix = 'sluice-test-';

/** As users have it, but for what `makeCluster` says. The source and our own tables are on one server in most tests. */
const stockSettings = { max_connections: '100' };

/** A machine without an installed PostgreSQL has one server for all workers. */
const embeddedSettings = {
  fsync: 'off',
  full_page_writes: 'off',
  synchronous_commit: 'off',
  max_connections: '300',
  max_prepared_transactions: '20',
};

/**
 * Starts the servers of a run: that of `choosePrograms`, one for each of `workers`, or the embedded one; or uses the one at
 * TEST_DATABASE_URL (15 to 18, a superuser).
 */
export async function openTestServers(workers: number): Promise<TestServers> {
  const given = process.env.TEST_DATABASE_URL;
  if (given) return openGiven(given);
  await clearAbandoned();
  // By this number a later run knows whether this one still lives.
  const folder = await mkdtemp(path.join(tmpdir(), `${folderPrefix}${process.pid}-`));
  const remove = () => rm(folder, { recursive: true, force: true, maxRetries: 10 });
  try {
    const bin = choosePrograms();
    const opened =
      bin === null ? await openEmbedded(folder) : await openStock(bin, folder, workers);
    const close = () => opened.close().finally(remove);
    return { ...opened, close };
  } catch (error) {
    await remove();
    throw error;
  }
}

async function openGiven(url: string): Promise<TestServers> {
  const server = await prepareTemplate(url);
  const about = await describeServer(url, 'given by TEST_DATABASE_URL');
  return { servers: [server], about, close: () => dropDatabases(server) };
}

async function openEmbedded(dataDir: string): Promise<TestServers> {
  const server = await startEmbeddedPostgres({ dataDir, settings: embeddedSettings });
  const about = await describeServer(server.url, 'embedded');
  return { servers: [await prepareTemplate(server.url, true)], about, close: server.stop };
}

/** The template is migrated once; the other servers are copies of the first. */
async function openStock(bin: string, folder: string, workers: number): Promise<TestServers> {
  const first = await makeCluster(bin, path.join(folder, '1'));
  const maker = await startCluster(first, stockSettings);
  const { adminUrl: _, ...made } = await prepareTemplate(maker.url);
  const isOfDebian = bin === findPostgresPrograms();
  const about = await describeServer(maker.url, isOfDebian ? 'of Debian' : 'of TEST_POSTGRES');
  await maker.stop();
  const clusters = [first];
  for (let n = 2; n <= workers; n += 1) {
    const copy = path.join(folder, String(n));
    // With the owner of each file.
    for (const part of ['', '.password']) {
      await promisify(execFile)('cp', ['-a', `${first.folder}${part}`, `${copy}${part}`]);
    }
    clusters.push({ bin, folder: copy });
  }
  const running = await Promise.all(clusters.map((each) => startCluster(each, stockSettings)));
  return {
    servers: running.map(({ url }) => ({ ...made, adminUrl: url })),
    about,
    close: async () => void (await Promise.all(running.map(({ stop }) => stop('SIGQUIT')))),
  };
}

/** Stops and removes what killed earlier runs left behind. */
async function clearAbandoned(): Promise<void> {
  for (const name of await readdir(tmpdir())) {
    const pid = new RegExp(`^${folderPrefix}(\\d+)-`).exec(name)?.[1];
    if (pid === undefined || isAlive(Number(pid))) continue;
    const folder = path.join(tmpdir(), name);
    try {
      const inside = (await readdir(folder)).map((each) => path.join(folder, each));
      for (const data of [...inside, path.join(folder, 'postgres', 'data')]) await endServer(data);
      await rm(folder, { recursive: true, force: true, maxRetries: 10 });
    } catch {
      // Another user's, or just being cleared by another run.
    }
  }
}

async function endServer(data: string): Promise<void> {
  const file = await readPidFile(data).catch(() => null);
  if (file && (await isServerOf(file.pid, data))) process.kill(file.pid, 'SIGQUIT');
}
