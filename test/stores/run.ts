import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { startEmbeddedPostgres } from '../../src/state/embedded-postgres/start.ts';
import { type Daemons, findFreePorts, openDaemons } from './daemons.ts';
import { installedVersion, installPackages } from './packages.ts';
import {
  answers,
  newCredentials,
  type RunningStore,
  type StoreName,
  storeNames,
  storeVariable,
} from './store.ts';

const swiftPackages = [
  ...['swift-proxy', 'swift-account', 'swift-container', 'swift-object', 'memcached'],
];

const rings = ['account', 'container', 'object'] as const;

/** Times for a machine that does much else; each server is one process. */
const common = (folder: string, port: number) => `[DEFAULT]
bind_ip = 127.0.0.1
bind_port = ${port}
workers = 0
user = root
swift_dir = ${folder}
devices = ${folder}/devices
mount_check = false
disable_fallocate = true
conn_timeout = 10
node_timeout = 60
container_update_timeout = 60
`;

const filters = [
  ...['catch_errors', 'gatekeeper', 'proxy_logging', 'memcache', 'listing_formats', 'bulk'],
  ...['s3api', 'tempauth', 'copy', 'slo', 'dlo', 'versioned_writes', 'symlink'],
];

function proxySettings(user: SwiftUser, region: string, memcachedPort: number): string {
  const options: Record<string, string> = {
    memcache: `memcache_servers = 127.0.0.1:${memcachedPort}`,
    s3api: `location = ${region}`,
    tempauth: `user_${user.account}_${user.name} = ${user.password} .admin`,
  };
  const sections = filters.map(
    (name) => `[filter:${name}]\nuse = egg:swift#${name}\n${options[name] ?? ''}\n`,
  );
  return `[pipeline:main]
pipeline = ${filters.join(' ')} proxy-server
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
${sections.join('')}`;
}

interface SwiftUser {
  readonly account: string;
  readonly name: string;
  readonly password: string;
}

async function buildRing(daemons: Daemons, ring: string, port: number): Promise<void> {
  const builder = (...args: string[]) =>
    daemons.run('swift-ring-builder', `${ring}.builder`, ...args);
  await builder('create', '2', '1', '0');
  await builder(
    ...['add', '--region', '1', '--zone', '1', '--ip', '127.0.0.1', '--port', `${port}`],
    ...['--device', 'disk', '--weight', '1'],
  );
  await builder('rebalance');
}

/** One server of each kind over one folder, without the daemons that repair and expire. About 10 seconds. */
async function startSwift(region: string): Promise<RunningStore> {
  const daemons = await openDaemons('swift');
  try {
    const { folder } = daemons;
    const [proxyPort = 0, memcachedPort = 0, ...ringPorts] = await findFreePorts(5);
    await mkdir(path.join(folder, 'devices', 'disk'), { recursive: true });
    const write = (name: string, text: string) => writeFile(path.join(folder, name), text);
    await write('swift.conf', '[swift-hash]\nswift_hash_path_suffix = sluice\n');

    daemons.start('memcached', 'memcached', '-u', 'root', '-l', `127.0.0.1:${memcachedPort}`);
    await Promise.all(
      rings.map(async (ring, index) => {
        const port = ringPorts[index] ?? 0;
        await buildRing(daemons, ring, port);
        await write(
          `${ring}.conf`,
          `${common(folder, port)}[pipeline:main]\npipeline = ${ring}-server
[app:${ring}-server]\nuse = egg:swift#${ring}\n`,
        );
        daemons.start(ring, `swift-${ring}-server`, path.join(folder, `${ring}.conf`), '-v');
      }),
    );

    const { accessKeyId, secretAccessKey } = newCredentials();
    const user = { account: accessKeyId, name: 'sluice', password: secretAccessKey };
    const proxy = `${common(folder, proxyPort)}${proxySettings(user, region, memcachedPort)}`;
    await write('proxy.conf', proxy);
    daemons.start('proxy', 'swift-proxy-server', path.join(folder, 'proxy.conf'), '-v');
    const endpoint = `http://127.0.0.1:${proxyPort}`;
    await daemons.untilReady('the proxy answers', () => answers(endpoint));
    const version = installedVersion('swift-proxy')?.replace(/-.*/, '');
    // Its S3 access key is the account and the user.
    const credentials = { accessKeyId: `${user.account}:${user.name}`, secretAccessKey };
    const title = `Swift s3api ${version}`;
    return { name: 'swift', title, endpoint, region, credentials, stop: daemons.stop };
  } catch (error) {
    await daemons.stop();
    throw error;
  }
}

const cephPackages = ['radosgw', 'ceph-mon', 'ceph-osd', 'ceph-common'];

/** Each replica, placement group and thread that one test on one machine does not need is left out. */
function settings(folder: string, fsid: string, monPort: number, port: number): string {
  return `[global]
fsid = ${fsid}
mon host = v1:127.0.0.1:${monPort}
mon initial members = a
public addr = 127.0.0.1
cluster addr = 127.0.0.1
ms bind ipv6 = false
ms bind msgr2 = false
auth cluster required = none
auth service required = none
auth client required = none
keyring = ${folder}/keyring
run dir = ${folder}
admin socket =
log file =
mon cluster log file =
log to stderr = true
debug rocksdb = 0
mon data = ${folder}/mon
osd data = ${folder}/osd
rgw data = ${folder}/rgw
osd objectstore = memstore
memstore device bytes = 4294967296
osd crush chooseleaf type = 0
osd crush update on start = false
osd class update on start = false
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 1
osd pool default pgp num = 1
osd pool default pg autoscale mode = off
mon allow pool size one = true
rgw rados pool pg num min = 1
rgw thread pool size = 64
rgw frontends = beast endpoint=127.0.0.1:${port}
`;
}

/** One monitor, one OSD that keeps its objects in memory, one gateway. About 15 seconds. */
async function startCeph(region: string): Promise<RunningStore> {
  const daemons = await openDaemons('ceph');
  try {
    const { folder } = daemons;
    const [monPort = 0, port = 0] = await findFreePorts(2);
    const [fsid, osdId] = [randomUUID(), randomUUID()];
    const conf = path.join(folder, 'ceph.conf');
    await writeFile(conf, settings(folder, fsid, monPort, port));
    for (const part of ['mon', 'osd', 'rgw']) await mkdir(path.join(folder, part));
    const ceph = (...args: string[]) =>
      daemons.run('ceph', '-c', conf, '--connect-timeout', '20', ...args);

    const monmap = path.join(folder, 'monmap');
    const address = `[v1:127.0.0.1:${monPort}]`;
    await daemons.run('monmaptool', '--create', '--fsid', fsid, '--addv', 'a', address, monmap);
    await daemons.run('ceph-mon', '-c', conf, '--mkfs', '-i', 'a', '--monmap', monmap);
    daemons.start('mon', 'ceph-mon', '-c', conf, '-i', 'a', '-f');

    await ceph('osd', 'new', osdId, '0');
    // An OSD that adds itself can be refused before it has heard the cluster's id.
    await ceph('osd', 'crush', 'add', 'osd.0', '1', 'root=default');
    await daemons.run('ceph-osd', '-c', conf, '-i', '0', '--mkfs', '--osd-uuid', osdId);
    daemons.start('osd', 'ceph-osd', '-c', conf, '-i', '0', '-f');
    await daemons.untilReady('the OSD is up', async () => / 1 up/.test(await ceph('osd', 'stat')));

    const credentials = newCredentials();
    await daemons.run(
      ...['radosgw-admin', '-c', conf, 'user', 'create', '--uid', 'sluice', '--display-name'],
      ...['sluice', '--access-key', credentials.accessKeyId],
      ...['--secret-key', credentials.secretAccessKey],
    );
    daemons.start('rgw', 'radosgw', '-c', conf, '-n', 'client.admin', '-f');
    const endpoint = `http://127.0.0.1:${port}`;
    await daemons.untilReady('the gateway answers', () => answers(endpoint));
    const version = /version (\S+)/.exec(await daemons.run('radosgw', '--version'))?.[1];
    const title = `Ceph RGW ${version}`;
    return { name: 'ceph', title, endpoint, region, credentials, stop: daemons.stop };
  } catch (error) {
    await daemons.stop();
    throw error;
  }
}

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
