import { execFile } from 'node:child_process';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { Redis } from 'ioredis';
import { inject } from 'vitest';
import { findFreePort } from './free-port.ts';
import { startProcess, type TestProcess } from './processes.ts';
import { type OwnRedisServer, startOwnRedis } from './redis.ts';
import { until } from './until.ts';

/** Several servers. If one ends, another takes over. */
export interface RedisGroup {
  readonly url: string;
  /** The master that has a key now. */
  findMaster(key: string): Promise<OwnRedisServer>;
  /** Waits until every server runs, and each replica follows its master. */
  untilWhole(): Promise<void>;
  stop(): Promise<void>;
}

/** How long a server must be silent before another one takes over, in milliseconds. */
const silentMs = 1_000;

/** Three masters and a replica of each. */
export async function startRedisCluster(): Promise<RedisGroup> {
  const servers = await Promise.all(
    Array.from({ length: 6 }, async () =>
      startOwnRedis([
        ...['--cluster-enabled', 'yes', '--cluster-node-timeout', String(silentMs)],
        // By default the port and 10,000, which may be no port.
        ...['--cluster-port', String(await findFreePort())],
      ]),
    ),
  );
  const hosts = servers.map(({ port }) => `127.0.0.1:${port}`);
  await promisify(execFile)('redis-cli', [
    ...['--cluster', 'create', ...hosts],
    ...['--cluster-replicas', '1', '--cluster-yes'],
  ]);
  await until(async () => (await Promise.all(servers.map(isWhole))).every(Boolean), {
    message: 'every node knows all slots',
  });
  return {
    url: `redis://${hosts.slice(0, 3).join(',')}`,
    findMaster: (key) =>
      until(() => findSlotMaster(servers, key), { message: `a node has the slot of ${key}` }),
    untilWhole: () => untilFollowing(servers, 3),
    stop: async () => void (await Promise.all(servers.map((server) => server.stop()))),
  };
}

/** A master and its replica, watched by three sentinels. */
export async function startSentinels(): Promise<RedisGroup & { readonly hosts: string }> {
  const first = await startOwnRedis();
  const second = await startOwnRedis(['--replicaof', '127.0.0.1', String(first.port)]);
  const servers = [first, second];
  await until(() =>
    asks(second, async (redis) =>
      (await redis.info('replication')).includes('master_link_status:up'),
    ),
  );
  const folder = await mkdtemp(path.join(tmpdir(), 'sluice-sentinels-'));
  await chmod(folder, 0o755);
  const sentinels = await Promise.all(
    [1, 2, 3].map((number) => startSentinel(path.join(folder, `${number}.conf`), first.port)),
  );
  const [asked] = sentinels;
  if (!asked) throw new Error('there is no sentinel');
  const masterPort = () =>
    asks(asked, async (redis) => {
      const place = (await redis.call('SENTINEL', 'get-master-addr-by-name', 'sluice')) as string[];
      return Number(place[1]);
    });
  await until(() =>
    asks(asked, async (redis) =>
      String(await redis.call('SENTINEL', 'ckquorum', 'sluice')).startsWith('OK 3'),
    ),
  );
  const hosts = sentinels.map(({ port }) => `127.0.0.1:${port}`).join(',');
  return {
    hosts,
    url: `redis+sentinel://${hosts}/sluice`,
    async findMaster() {
      const port = await masterPort();
      const master = servers.find((server) => server.port === port);
      if (!master) throw new Error(`no server of this test is at port ${port}`);
      return master;
    },
    untilWhole: () => untilFollowing(servers, 1),
    async stop() {
      for (const { process } of sentinels) process.kill('SIGKILL');
      await Promise.all(servers.map((server) => server.stop()));
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function startSentinel(
  file: string,
  masterPort: number,
): Promise<{ readonly port: number; readonly process: TestProcess }> {
  const { program } = inject('redis');
  if (program === null) throw new Error('There is no redis-server on the PATH.');
  const port = await findFreePort();
  await writeFile(
    file,
    `port ${port}
bind 127.0.0.1
sentinel monitor sluice 127.0.0.1 ${masterPort} 2
sentinel down-after-milliseconds sluice ${silentMs}
sentinel failover-timeout sluice 3000
`,
  );
  const process = startProcess(program, [file, '--sentinel']);
  await until(() => asks({ port }, async (redis) => (await redis.ping()) === 'PONG'));
  return { port, process };
}

/** Asks one server, by a connection of its own. */
async function asks<T>(
  { port }: { readonly port: number },
  question: (redis: Redis) => Promise<T>,
): Promise<T> {
  const redis = new Redis(port, '127.0.0.1', {
    maxRetriesPerRequest: 0,
    retryStrategy: null,
    commandTimeout: 1_000,
  });
  redis.on('error', () => {});
  try {
    return await question(redis);
  } finally {
    redis.disconnect();
  }
}

const isWhole = (server: OwnRedisServer) =>
  asks(server, async (redis) =>
    /cluster_state:ok.*cluster_known_nodes:6/s.test(await redis.cluster('INFO')),
  );

async function untilFollowing(servers: readonly OwnRedisServer[], masters: number): Promise<void> {
  const roles = () =>
    Promise.all(servers.map((server) => asks(server, async (redis) => redis.info('replication'))));
  await until(
    async () => {
      const all = await roles();
      const isFollowing = (text: string) => text.includes('master_link_status:up');
      return (
        all.filter((text) => text.includes('role:master')).length === masters &&
        all.filter(isFollowing).length === servers.length - masters
      );
    },
    { message: 'each replica follows its master' },
  );
}

/** By the first server that answers and knows a master that answers too. */
async function findSlotMaster(
  servers: readonly OwnRedisServer[],
  key: string,
): Promise<OwnRedisServer | null> {
  for (const server of servers) {
    const port = await asks(server, async (redis) => {
      const slot = Number(await redis.cluster('KEYSLOT', key));
      const ranges = await redis.cluster('SLOTS');
      return ranges.find(([from, to]) => from <= slot && slot <= to)?.[2]?.[1];
    }).catch(() => null);
    const master = servers.find((other) => other.port === port);
    if (master && (await isWhole(master).catch(() => false))) return master;
  }
  return null;
}
