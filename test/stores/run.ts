import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { startEmbeddedPostgres } from '../../src/state/embedded-postgres/start.ts';
import { installPackages } from './packages.ts';
import { cephPackages, startCeph } from './start-ceph.ts';
import { startSwift, swiftPackages } from './start-swift.ts';
import { type RunningStore, type StoreName, storeNames, storeVariable } from './store.ts';

/** The region of the installation under test. */
const region = 'eu-central-1';

interface StoreKind {
  readonly packages: readonly string[];
  start(region: string): Promise<RunningStore>;
}

const stores: Record<StoreName, StoreKind> = {
  ceph: { packages: cephPackages, start: startCeph },
  swift: { packages: swiftPackages, start: startSwift },
};

/**
 * Runs the suite against each store, one after the other. Everything that it starts is stopped and
 * removed at its end, also after a failure, SIGINT or SIGTERM.
 *
 * @param args names of stores, all if there is none; what follows `--` goes to Vitest
 * @returns the exit code
 */
export async function run(args: readonly string[]): Promise<number> {
  const end = args.includes('--') ? args.indexOf('--') : args.length;
  const given = args.slice(0, end);
  const names = storeNames.filter((name) => given.length === 0 || given.includes(name));
  const unknown = given.filter((name) => !storeNames.some((known) => known === name));
  if (unknown.length > 0) {
    console.error(`Unknown: ${unknown.join(' ')}. The stores are ${storeNames.join(', ')}.`);
    return 2;
  }
  if (process.getuid?.() !== 0) {
    console.error('The stores run as root here: start this as root, in a container for example.');
    return 2;
  }
  const lane = openLane();
  try {
    const results: string[] = [];
    for (const name of names) {
      if (lane.interrupted()) break;
      results.push(await lane.test(name, args.slice(end + 1)));
    }
    console.log(`\n${results.join('\n')}`);
    return !lane.interrupted() && results.every((result) => result.includes(': passed')) ? 0 : 1;
  } finally {
    await lane.close();
  }
}

function openLane() {
  let signalled = false;
  let suite: ChildProcess | null = null;
  let postgres: { readonly url: string; stop(): Promise<void> } | null = null;
  const interrupt = () => {
    signalled = true;
    suite?.kill('SIGTERM');
  };
  process.on('SIGINT', interrupt).on('SIGTERM', interrupt);
  return {
    interrupted: () => signalled,
    /** @returns one line: the store, and whether it passed */
    async test(name: StoreName, vitestArgs: readonly string[]): Promise<string> {
      let store: RunningStore | null = null;
      try {
        await installPackages(stores[name].packages);
        postgres ??= await startPostgres();
        console.log(`Starting ${name}.`);
        store = await stores[name].start(region);
        if (signalled) return `${name}: interrupted`;
        const { stop: _, ...foreign } = store;
        console.log(`${store.title} answers at ${store.endpoint}.`);
        suite = spawnSuite(vitestArgs, {
          TEST_DATABASE_URL: postgres.url,
          [storeVariable]: JSON.stringify(foreign),
        });
        const [code] = await once(suite, 'exit');
        suite = null;
        return `${store.title}: ${code === 0 ? 'passed' : signalled ? 'interrupted' : 'FAILED'}`;
      } catch (error) {
        return `${name}: FAILED, ${(error as Error).message}`;
      } finally {
        await store?.stop();
      }
    },
    async close(): Promise<void> {
      process.off('SIGINT', interrupt).off('SIGTERM', interrupt);
      await postgres?.stop();
    },
  };
}

/** In a session of its own: a Ctrl-C reaches this process, which ends the suite in order. */
function spawnSuite(args: readonly string[], env: Record<string, string>): ChildProcess {
  const command = [
    '--pdeathsig',
    'TERM',
    process.execPath,
    'node_modules/vitest/vitest.mjs',
    'run',
  ];
  return spawn('setpriv', [...command, '--config', 'vitest.stores.config.ts', ...args], {
    stdio: ['ignore', 'inherit', 'inherit'],
    cwd: path.resolve(import.meta.dirname, '../..'),
    detached: true,
    env: { ...process.env, ...env },
  });
}

/** One for all stores, and stopped here: Vitest skips its own teardown after a signal. */
async function startPostgres() {
  const given = process.env.TEST_DATABASE_URL;
  if (given) return { url: given, stop: async () => {} };
  // By this name a later run finds it if this one is killed.
  const dataDir = await mkdtemp(path.join(tmpdir(), `sluice-test-${process.pid}-`));
  const server = await startEmbeddedPostgres({
    dataDir,
    settings: { fsync: 'off', full_page_writes: 'off', synchronous_commit: 'off' },
  });
  const stop = async () => {
    await server.stop();
    await rm(dataDir, { recursive: true, force: true });
  };
  return { url: server.url, stop };
}
