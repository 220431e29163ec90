import { execFile } from 'node:child_process';
import { chmod } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import type { TestProject } from 'vitest/node';
import { findRedis, type RedisWays } from './find-redis.ts';
import { compileS3Server } from './s3-server/compile.ts';
import type { TestPostgres } from './template-database.ts';
import { openTestServers, type TestServers } from './test-servers.ts';

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
