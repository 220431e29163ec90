import { execFile } from 'node:child_process';
import { access, chmod, constants, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import type { TestProject } from 'vitest/node';
import { isServerOf, readPidFile } from '../../src/state/embedded-postgres/pid-file.ts';
import { startEmbeddedPostgres } from '../../src/state/embedded-postgres/start.ts';
import { isAlive } from './is-alive.ts';
import { compileS3Server } from './s3-server/compile.ts';
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

declare module 'vitest' {
  export interface ProvidedContext {
    /** The servers of the run; `testServer` chooses that of a worker. */
    postgres: readonly TestPostgres[];
    redis: RedisWays;
    /** The program of the S3 server; not provided to files without this setup. */
    s3Server: string;
  }
}

const root = path.resolve(import.meta.dirname, '../..');

interface Prepared {
  readonly postgres: TestServers;
  readonly redis: RedisWays;
  readonly s3Server: string;
}

/** Each project of a run loads this module anew, and all of them use the same. */
const ofThisRun = globalThis as {
  sluiceTests?: { users: number; prepared: Promise<Prepared> };
  /** For the last lines of the run. */
  sluiceTestServer?: string;
};

/**
 * Before the first test file: builds `dist` for the tests that start real processes, and its bundle, starts the
 * PostgreSQL servers with a migrated template database, and looks for a Redis. Returns the teardown, which leaves
 * nothing behind.
 */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  ofThisRun.sluiceTests ??= { users: 0, prepared: prepare(project.vitest.config.maxWorkers) };
  const shared = ofThisRun.sluiceTests;
  shared.users += 1;
  const { postgres, redis, s3Server } = await shared.prepared;
  ofThisRun.sluiceTestServer = postgres.about;
  project.provide('postgres', postgres.servers);
  project.provide('s3Server', s3Server);
  project.provide('redis', redis);
  return async () => {
    shared.users -= 1;
    if (shared.users === 0) await postgres.close();
  };
}

async function prepare(workers: number): Promise<Prepared> {
  const redis = await findRedis();
  announceRedis(redis);
  const opening = openTestServers(workers);
  const compiled = compileS3Server(path.join(root, 'dist/s3-server'));
  const programs = build().then(() => Promise.all([writeBundle(), run('generate-api-types')]));
  const built = Promise.all([programs, run('build-console'), compiled, opening]);
  const postgres = await opening;
  try {
    await built;
    return { postgres, redis, s3Server: await compiled };
  } catch (error) {
    await postgres.close();
    throw error;
  }
}

function announceRedis({ url, program, docker }: RedisWays): void {
  if (url !== null || program !== null || docker) return;
  const missing = 'no REDIS_URL, no redis-server on the PATH, and no Docker engine answers';
  if (process.env.REQUIRE_REDIS === '1') throw new Error(`REQUIRE_REDIS=1, but: ${missing}.`);
  console.log(`The lanes that need Redis are skipped: ${missing}.`);
}

/** Once, before the files: two of them that built it would delete each other's files. */
async function run(script: string): Promise<void> {
  await promisify(execFile)(process.execPath, [path.join(root, `scripts/${script}.mjs`)]);
}

/** As `npm run build`, without a check of the types, which is the type check's matter. */
async function build(): Promise<void> {
  const compiler = path.join(root, 'node_modules/typescript/bin/tsc');
  await promisify(execFile)(
    process.execPath,
    [compiler, '-p', 'tsconfig.build.json', '--noCheck'],
    { cwd: root },
  ).catch((error: { stdout?: string; message: string }) => {
    console.log(`The build has errors:\n${error.stdout || error.message}`);
  });
  await chmod(path.join(root, 'dist/clients/cli/sluice.js'), 0o755);
}

async function writeBundle(): Promise<void> {
  const program = path.join(root, 'test/support/write-bundle.mjs');
  await promisify(execFile)(process.execPath, [program], { cwd: root });
}

/** The ways to a real Redis on this machine; a test run looks for them once. */
interface RedisWays {
  /** REDIS_URL: a server that is not ours to stop. */
  readonly url: string | null;
  /** The `redis-server` on the PATH. */
  readonly program: string | null;
  /** Whether a Docker engine answers; the client alone runs nothing. Asked only if it is needed. */
  readonly docker: boolean;
}

async function findRedis(): Promise<RedisWays> {
  const url = process.env.REDIS_URL || null;
  const program = await findOnPath('redis-server');
  const docker = url === null && program === null && (await dockerAnswers());
  return { url, program, docker };
}

async function findOnPath(name: string): Promise<string | null> {
  for (const folder of (process.env.PATH ?? '').split(path.delimiter)) {
    if (folder === '') continue;
    const file = path.join(folder, name);
    const found = await access(file, constants.X_OK).then(
      () => true,
      () => false,
    );
    if (found) return file;
  }
  return null;
}

async function dockerAnswers(): Promise<boolean> {
  try {
    const info = await promisify(execFile)('docker', ['info', '-f', '{{.ServerVersion}}'], {
      timeout: 5_000,
    });
    return info.stdout.trim() !== '';
  } catch {
    return false;
  }
}

/** The servers of a run. Each worker of Vitest uses one. */
interface TestServers {
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
async function openTestServers(workers: number): Promise<TestServers> {
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
