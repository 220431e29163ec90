import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { type Daemons, findFreePorts, openDaemons } from './daemons.ts';
import { installedVersion } from './packages.ts';
import { answers, newCredentials, type RunningStore } from './store.ts';

export const swiftPackages = [
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
export async function startSwift(region: string): Promise<RunningStore> {
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
