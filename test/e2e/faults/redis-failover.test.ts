import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  backfill,
  createS3Export,
  insertEvents,
  readRuns,
  retireExports,
  untilEnded,
} from '../../support/exported-events.ts';
import { type Installation, startInstallation } from '../../support/installation.ts';
import { expectInvariants } from '../../support/invariants.ts';
import { casesOf, isNightly } from '../../support/nightly.ts';
import { ownRedisAvailable } from '../../support/redis.ts';
import { type RedisGroup, startRedisCluster, startSentinels } from '../../support/redis-groups.ts';
import { until } from '../../support/until.ts';

const day = { start: '2024-03-01T00:00:00Z', end: '2024-03-02T00:00:00Z' };
const hours = 24;
const rows = 480;

const groups = casesOf(
  [{ kind: 'a cluster', start: startRedisCluster }],
  [{ kind: 'sentinels', start: startSentinels }],
);

describe.skipIf(!ownRedisAvailable()).each(groups)('Redis by $kind', ({ start }) => {
  let group: RedisGroup;
  let installation: Installation;
  beforeAll(async () => {
    group = await start();
    installation = await startInstallation({ workers: 2, env: { REDIS_URL: group.url } });
    const team = installation.tenant.projectIds[0];
    await insertEvents(installation.pool, { team, rows, ...day });
  });
  afterAll(async () => {
    await installation?.close();
    await group?.stop();
  });

  const isReady = async () => (await installation.client.get('/readyz')).body.status === 'ok';

  test.each(casesOf<'SIGSTOP' | 'SIGKILL'>(['SIGSTOP'], ['SIGKILL']))(
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

describe.runIf(isNightly && ownRedisAvailable())('from one server to a cluster', () => {
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
    await s3.faults.add({
      match: { operation: 'PutObject' },
      times: Number.POSITIVE_INFINITY,
      effect: { delayMs: 300 },
    });
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
