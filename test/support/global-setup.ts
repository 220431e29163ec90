import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import type { TestProject } from 'vitest/node';
import {
  findEmbeddedPostgres,
  startEmbeddedPostgres,
} from '../../src/state/embedded-postgres/start.ts';
import { migrate } from '../../src/state/store/database/migrate.ts';
import { dropDatabase, withClient } from './drop-database.ts';
import { findRedis, type RedisWays } from './find-redis.ts';
import { compileS3Server } from './s3-server/compile.ts';

/** The server that all tests of a run share, and the names of their databases on it. */
export interface TestPostgres {
  /** A superuser's URL, of a database that no test uses. */
  readonly adminUrl: string;
  /** Every database of this run begins with it. */
  readonly prefix: string;
  /** The migrated database that tests clone. No connection to it may be open. */
  readonly template: string;
}

declare module 'vitest' {
  export interface ProvidedContext {
    postgres: TestPostgres;
    redis: RedisWays;
    /** The program of the S3 server; not provided to files without this setup. */
    s3Server: string | undefined;
  }
}

const folderPrefix = 'sluice-test-';

const root = path.resolve(import.meta.dirname, '../..');

interface Prepared {
  readonly postgres: TestPostgres;
  readonly redis: RedisWays;
  readonly s3Server: string;
  close(): Promise<void>;
}

/** Each project of a run loads this module anew, and all of them use the same. */
const ofThisRun = globalThis as { sluiceTests?: { users: number; prepared: Promise<Prepared> } };

/**
 * Before the first test file: builds `dist` for the tests that start real processes, and its bundle, starts one
 * PostgreSQL (or takes the one at TEST_DATABASE_URL: 15 to 18, a superuser), migrates the template
 * database and looks for a Redis. Returns the teardown, which leaves nothing behind.
 */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  ofThisRun.sluiceTests ??= { users: 0, prepared: prepare() };
  const shared = ofThisRun.sluiceTests;
  shared.users += 1;
  const { postgres, redis, s3Server, close } = await shared.prepared;
  project.provide('postgres', postgres);
  project.provide('s3Server', s3Server);
  project.provide('redis', redis);
  return async () => {
    shared.users -= 1;
    if (shared.users === 0) await close();
  };
}

async function prepare(): Promise<Prepared> {
  const redis = await findRedis();
  announceRedis(redis);
  const opening = openServer();
  const compiled = compileS3Server(path.join(root, 'dist/s3-server'));
  const programs = build().then(() => Promise.all([writeBundle(), run('generate-api-types')]));
  const built = Promise.all([programs, run('build-console'), compiled, opening]);
  const server = await opening;
  try {
    const postgres = await prepareTemplate(server.url);
    await built;
    return { postgres, redis, s3Server: await compiled, close: () => server.close(postgres) };
  } catch (error) {
    await server.close(null);
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

/** Without a check of the types, which is the type check's matter. */
async function build(): Promise<void> {
  const compiler = path.join(root, 'node_modules/typescript/bin/tsc');
  await promisify(execFile)(
    process.execPath,
    [compiler, '-p', 'tsconfig.build.json', '--noCheck'],
    {
      cwd: root,
    },
  ).catch((error: { stdout?: string; message: string }) => {
    console.log(`The build has errors:\n${error.stdout || error.message}`);
  });
}

async function writeBundle(): Promise<void> {
  const program = path.join(root, 'test/support/write-bundle.mjs');
  await promisify(execFile)(process.execPath, [program], { cwd: root });
}

interface Server {
  readonly url: string;
  /** Leaves nothing of the run behind. */
  close(made: TestPostgres | null): Promise<void>;
}

async function openServer(): Promise<Server> {
  const given = process.env.TEST_DATABASE_URL;
  if (given) {
    const close: Server['close'] = async (made) => {
      if (made) await dropDatabases(made);
    };
    return { url: given, close };
  }
  await clearAbandoned();
  // By this number a later run knows whether this one still lives.
  const dataDir = await mkdtemp(path.join(tmpdir(), `${folderPrefix}${process.pid}-`));
  const server = await startEmbeddedPostgres({
    dataDir,
    settings: {
      fsync: 'off',
      full_page_writes: 'off',
      synchronous_commit: 'off',
      max_connections: '300',
      max_prepared_transactions: '20',
    },
  });
  // Its databases go with its folder.
  const close = async (): Promise<void> => {
    await server.stop();
    await rm(dataDir, { recursive: true, force: true });
  };
  return { url: server.url, close };
}

/** Stops and removes what killed earlier runs left behind. */
async function clearAbandoned(): Promise<void> {
  for (const name of await readdir(tmpdir())) {
    const pid = new RegExp(`^${folderPrefix}(\\d+)-`).exec(name)?.[1];
    if (pid === undefined || isAlive(Number(pid))) continue;
    const dataDir = path.join(tmpdir(), name);
    try {
      if ((await findEmbeddedPostgres(dataDir)) !== null) {
        await (await startEmbeddedPostgres({ dataDir })).stop();
      }
      await rm(dataDir, { recursive: true, force: true });
    } catch {
      // Another user's, or just being cleared by another run.
    }
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

async function prepareTemplate(adminUrl: string): Promise<TestPostgres> {
  const prefix = `sluice_test_${randomBytes(4).toString('hex')}_`;
  const template = `${prefix}template`;
  await withClient(adminUrl, async (client) => {
    const { rows } = await client.query<{ version: number }>(
      "SELECT current_setting('server_version_num')::int AS version",
    );
    const version = rows[0]?.version ?? 0;
    if (version < 150_000) throw new Error(`PostgreSQL 15 or later is needed, not ${version}.`);
    await client.query(`CREATE DATABASE ${template}`);
  });
  const url = new URL(adminUrl);
  url.pathname = `/${template}`;
  await migrate(url.href);
  return { adminUrl, prefix, template };
}

async function dropDatabases({ adminUrl, prefix }: TestPostgres): Promise<void> {
  const { rows } = await withClient(adminUrl, (client) =>
    client.query<{ datname: string }>(
      'SELECT datname FROM pg_database WHERE starts_with(datname, $1)',
      [prefix],
    ),
  );
  for (const { datname } of rows) await dropDatabase(adminUrl, datname);
}
