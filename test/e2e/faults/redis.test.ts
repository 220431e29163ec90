import { execFile } from 'node:child_process';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { Redis } from 'ioredis';
import { beforeAll, describe, expect, inject, test } from 'vitest';
import {
  backfill,
  createS3Export,
  insertEvents,
  projectPath,
  readRuns,
  retireExports,
  slowDown,
  untilEnded,
} from '../../support/exported-events.ts';
import { findFreePort } from '../../support/free-port.ts';
import { startInstallation } from '../../support/installation.ts';
import { expectInvariants } from '../../support/invariants.ts';
import { openLoudLines, readDependencyUp } from '../../support/outage-lines.ts';
import { startProcess, type TestProcess } from '../../support/processes.ts';
import { ownRedisAvailable, type OwnRedisServer, startOwnRedis } from '../../support/redis.ts';
import { until } from '../../support/until.ts';
import { useStage } from '../../support/use-stage.ts';

/** Several servers. If one ends, another takes over. */
interface RedisGroup {
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
async function startRedisCluster(): Promise<RedisGroup> {
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
async function startSentinels(): Promise<RedisGroup & { readonly hosts: string }> {
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

const days = { start: '2024-03-01T00:00:00Z', end: '2024-03-02T16:00:00Z' };
const hours = 40;
const rows = 800;

const backAgain = (lines: readonly string[]) =>
  lines.filter((line) => line.includes('REDIS_URL: Redis is reachable again'));

describe.skipIf(!ownRedisAvailable())('Redis', () => {
  const installation = useStage(() => startInstallation({ queue: 'redis', workers: 2 }));
  let server: OwnRedisServer;
  beforeAll(async () => {
    if (!installation.redis) throw new Error('the installation has no Redis');
    server = installation.redis;
    const team = installation.tenant.projectIds[0];
    await insertEvents(installation.pool, { team, rows, ...days });
  });

  async function readiness(): Promise<string> {
    const { status, body } = await installation.client.get('/readyz');
    expect(status).toBe(200);
    return String(body.status);
  }

  async function asAdmin(work: (redis: Redis) => Promise<unknown>): Promise<void> {
    const redis = new Redis(server.url);
    await work(redis);
    redis.disconnect();
  }

  test('FLUSHALL with 80 runs queued and active: all runs end, none twice', async () => {
    const exports = [await createS3Export(installation), await createS3Export(installation)];
    for (const id of exports) await backfill(installation, id, days, { concurrency: hours });
    const countEnded = async () => {
      const runs = (await Promise.all(exports.map((id) => readRuns(installation, id)))).flat();
      return runs.filter(({ status }) => status === 'Completed').length;
    };
    for (const after of [5, 25, 50]) {
      await until(async () => (await countEnded()) >= after, { timeoutMs: 90_000 });
      await asAdmin((redis) => redis.flushall());
    }
    for (const id of exports) {
      const runs = await untilEnded(installation, id, { count: hours, timeoutMs: 90_000 });
      expect(runs).toHaveLength(hours);
      expect(runs.every(({ status }) => status === 'Completed')).toBe(true);
    }
    expect(await expectInvariants(installation)).toMatchObject({
      intervals: 2 * hours,
      rows: 2 * rows,
    });
  });

  test('unreachable for a while: the API answers 2xx throughout, readiness says degraded, all runs end', async () => {
    const loudLines = openLoudLines(installation);
    await server.kill();
    await until(async () => (await readiness()) === 'degraded');
    expect(await readDependencyUp(installation, 'redis')).toBe(0);
    const exportId = await createS3Export(installation, { name: 'made without a queue' });
    const day = { start: '2024-03-01T00:00:00Z', end: '2024-03-02T00:00:00Z' };
    await backfill(installation, exportId, day);
    const path = `${projectPath(installation)}/batch_exports/`;
    for (const _ of Array.from({ length: 20 })) {
      expect((await installation.client.get(path)).status).toBe(200);
    }
    await server.restart();
    const runs = await untilEnded(installation, exportId, { count: 24 });
    expect(runs.map(({ status }) => status)).toEqual(Array.from({ length: 24 }, () => 'Completed'));
    await until(async () => (await readiness()) === 'ok');
    expect(await readDependencyUp(installation, 'redis')).toBe(1);
    await until(() => backAgain(loudLines()).length === installation.processes.length, {
      message: 'each process says once that Redis is back',
    });
    // One line per 30 s and process: the outage was shorter.
    const others = loudLines().filter((line) => !backAgain([line]).includes(line));
    expect(others, others.join('\n')).toHaveLength(installation.processes.length);
    for (const line of others) expect(line).toContain('REDIS_URL: Redis is unreachable');
    await expectInvariants(installation);
    await retireExports(installation);
  });

  test('without noeviction: a loud warning in the log, readiness degraded, runs continue', async () => {
    await asAdmin((redis) => redis.config('SET', 'maxmemory-policy', 'allkeys-lru'));
    await until(async () => (await readiness()) === 'degraded');
    const worker = await installation.startWorker();
    await until(
      () => /"level":"(warn|error)".*maxmemory-policy to noeviction/.test(worker.output()),
      { message: () => `the log warns: ${worker.output().slice(0, 2_000)}` },
    );
    const exportId = await createS3Export(installation, { name: 'over an evicting Redis' });
    await backfill(installation, exportId);
    expect(await untilEnded(installation, exportId)).toMatchObject([{ status: 'Completed' }]);
    await asAdmin((redis) => redis.config('SET', 'maxmemory-policy', 'noeviction'));
    await until(async () => (await readiness()) === 'ok');
    await expectInvariants(installation);
    await retireExports(installation);
  });
});

describe('failover', () => {
  const day = { start: '2024-03-01T00:00:00Z', end: '2024-03-02T00:00:00Z' };
  const hours = 24;
  const rows = 480;

  const groups = [
    { kind: 'a cluster', start: startRedisCluster },
    { kind: 'sentinels', start: startSentinels },
  ];

  describe.skipIf(!ownRedisAvailable()).each(groups)('Redis by $kind', ({ start }) => {
    const group = useStage<RedisGroup>(start);
    const installation = useStage(() =>
      startInstallation({ workers: 2, env: { REDIS_URL: group.url } }),
    );
    beforeAll(async () => {
      const team = installation.tenant.projectIds[0];
      await insertEvents(installation.pool, { team, rows, ...day });
    });

    const isReady = async () => (await installation.client.get('/readyz')).body.status === 'ok';

    test.each(['SIGSTOP', 'SIGKILL'] as const)(
      'the master that holds the runs gets %s: another takes over, all runs end, none twice',
      async (signal) => {
        await group.untilWhole();
        await until(isReady, { message: 'the service is ready' });
        const exportId = await createS3Export(installation, { name: `over ${signal}` });
        await backfill(installation, exportId, day, { concurrency: 6 });
        const countEnded = async () =>
          (await readRuns(installation, exportId)).filter(({ status }) => status === 'Completed')
            .length;
        await until(async () => (await countEnded()) >= 2);
        const key = '{sluice-runs}';
        const master = await group.findMaster(key);
        process.kill(master.pid(), signal);
        await until(async () => (await group.findMaster(key)) !== master, {
          message: 'another server is the master',
        });
        const runs = await untilEnded(installation, exportId, { count: hours, timeoutMs: 90_000 });
        expect(runs.map(({ status }) => status)).toEqual(runs.map(() => 'Completed'));
        expect(runs).toHaveLength(hours);
        await until(isReady, { message: 'the service is ready again' });
        expect(await expectInvariants(installation)).toMatchObject({ intervals: hours, rows });
        await retireExports(installation);
        if (signal === 'SIGSTOP') process.kill(master.pid(), 'SIGCONT');
      },
    );
  });

  describe.skipIf(!ownRedisAvailable())('from one server to a cluster', () => {
    test('jobs that wait under the old name are not lost: their runs are enqueued again', async () => {
      const cluster = await startRedisCluster();
      const installation = await startInstallation({
        queue: 'redis',
        workers: 1,
        // Without slots of their own, small runs wait in the queue of all.
        env: { WORKER_CONCURRENCY: '1', WORKER_SMALL_RUNS: '0', LEASE_SECONDS: '5' },
      });
      const { redis, s3, tenant, pool } = installation;
      await insertEvents(pool, { team: tenant.projectIds[0], rows, ...day });
      await slowDown(installation, 'PutObject', 300);
      const exportId = await createS3Export(installation);
      await backfill(installation, exportId, day, { concurrency: 6 });
      const old = new Redis(redis?.url ?? '');
      await until(async () => (await old.llen('bull:sluice-runs:wait')) > 0);
      for (const process of installation.processes) process.kill('SIGKILL');
      await Promise.all(installation.processes.map((process) => process.waitForExit()));
      expect(await old.llen('bull:sluice-runs:wait')).toBeGreaterThan(0);
      old.disconnect();
      await s3.faults.clear();
      await installation.startApi({ REDIS_URL: cluster.url });
      await installation.startWorker({ REDIS_URL: cluster.url, WORKER_CONCURRENCY: '4' });
      const runs = await untilEnded(installation, exportId, { count: hours, timeoutMs: 90_000 });
      expect(runs.map(({ status }) => status)).toEqual(runs.map(() => 'Completed'));
      expect(await expectInvariants(installation)).toMatchObject({ intervals: hours, rows });
      await installation.close();
      await cluster.stop();
    });
  });
});
