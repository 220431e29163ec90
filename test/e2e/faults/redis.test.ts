import { Redis } from 'ioredis';
import { beforeAll, describe, expect, test } from 'vitest';
import {
  backfill,
  createS3Export,
  insertEvents,
  projectPath,
  readRuns,
  retireExports,
  untilEnded,
} from '../../support/exported-events.ts';
import { startInstallation } from '../../support/installation.ts';
import { expectInvariants } from '../../support/invariants.ts';
import { openLoudLines, readDependencyUp } from '../../support/outage-lines.ts';
import { ownRedisAvailable, type OwnRedisServer } from '../../support/redis.ts';
import { until } from '../../support/until.ts';
import { useStage } from '../../support/use-stage.ts';

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
