import { randomBytes } from 'node:crypto';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { readConfig } from '../../../src/foundation/config/config.ts';
import { openFoundation } from '../../../src/main/foundation.ts';
import {
  type JobHandlers,
  type JobName,
  jobs,
  queueNames,
} from '../../../src/state/queue/catalogue.ts';
import { connectQueues, type QueueConnection } from '../../../src/state/queue/connection.ts';
import { type Consumer, openConsumer } from '../../../src/state/queue/consumer.ts';
import { openProducer, type Producer } from '../../../src/state/queue/producer.ts';
import { createTestDatabase } from '../../support/database.ts';
import { queueBackends, type TestQueueBackend } from '../../support/queue-backends.ts';
import { ownRedisAvailable, startOwnRedis } from '../../support/redis.ts';
import { until } from '../../support/until.ts';

interface Delivery {
  readonly name: JobName;
  readonly data: unknown;
}

/** A promise that the test settles. */
function gate() {
  let open = () => {};
  const opened = new Promise<void>((resolve) => (open = resolve));
  return { opened, open: () => open() };
}

const entry = (id: string) => ({ runId: id, deduplicationId: id });

for (const lane of queueBackends) {
  describe.skipIf(!lane.available())(`the queue in ${lane.name}`, () => {
    let backend: TestQueueBackend;
    let connection: QueueConnection;
    let producer: Producer;
    const consumers: Consumer[] = [];

    beforeAll(async () => {
      backend = await lane.open();
      connection = await backend.connect();
      producer = openProducer(connection, () => {});
    });
    afterEach(async () => {
      for (const consumer of consumers.splice(0)) await consumer.close();
      await backend.loseEverything();
    });
    afterAll(async () => {
      await producer.close();
      await backend.stop();
    });

    /** Takes jobs, noting each; `handle` may hold it. */
    function consume(
      deliveries: Delivery[],
      handle: (delivery: Delivery) => Promise<void> = async () => {},
      runConcurrency = 4,
      failed: string[] = [],
    ): Consumer {
      const take = (name: JobName) => async (data: unknown) => {
        const delivery = { name, data };
        deliveries.push(delivery);
        await handle(delivery);
      };
      const handlers = Object.fromEntries(
        (Object.keys(jobs) as JobName[]).map((name) => [name, take(name)]),
      );
      const consumer = openConsumer(connection, handlers as unknown as JobHandlers, {
        runConcurrency,
        takesSmallRuns: true,
        onError: () => {},
        onJobFailed: (name) => failed.push(name),
      });
      consumers.push(consumer);
      return consumer;
    }

    const queueOf = (wanted: string) => {
      const found = producer.queues.find(({ name }) => name === wanted);
      if (!found) throw new Error(`there is no queue ${wanted}`);
      return found;
    };
    const countOf = (deliveries: readonly Delivery[], name: JobName) =>
      deliveries.filter((delivery) => delivery.name === name).length;

    it('delivers each job with its ids to one of the workers', async () => {
      const deliveries: Delivery[] = [];
      consume(deliveries);
      consume(deliveries);
      await producer.add('advance-backfill', { backfillId: 'b' });
      await producer.addRuns([
        { runId: 'r1', deduplicationId: 'r1.0' },
        { runId: 'r2', deduplicationId: 'r2.0' },
      ]);
      await until(() => deliveries.length >= 3);
      expect(deliveries).toHaveLength(3);
      expect(deliveries).toEqual(
        expect.arrayContaining([
          { name: 'advance-backfill', data: { backfillId: 'b' } },
          { name: 'execute-run', data: { runId: 'r1' } },
          { name: 'execute-run', data: { runId: 'r2' } },
        ]),
      );
      const runs = queueOf(queueNames.runs);
      await until(async () => (await runs.getJobCounts('active')).active === 0);
      // In Postgres the end of each job would look at all that are kept.
      const kept = lane.name === 'Postgres' ? 0 : 2;
      expect(await runs.getJobCounts('completed')).toEqual({ completed: kept });
    });

    it('holds one verification of an export and a day', async () => {
      const [day, next] = ['2024-03-01T03:00:00.000000Z', '2024-03-02T03:00:00.000000Z'] as const;
      const asked = [
        { exportId: 'a', dueAt: day },
        { exportId: 'b', dueAt: day },
        { exportId: 'a', dueAt: next },
      ];
      for (let times = 0; times < 3; times += 1) await producer.addVerifications(asked);
      expect(await queueOf(queueNames.verify).getJobCounts('waiting')).toEqual({ waiting: 3 });
      const deliveries: Delivery[] = [];
      consume(deliveries);
      await until(() => deliveries.length === 3);
      expect(deliveries.map(({ data }) => data)).toEqual(asked);
    });

    it('holds a notification once while it waits, and accepts a new one once the job runs', async () => {
      const entries = [{ runId: 'r', deduplicationId: 'r.0' }];
      for (let times = 0; times < 5; times += 1) await producer.addRuns(entries);
      const deliveries: Delivery[] = [];
      const { opened, open } = gate();
      consume(deliveries, () => opened, 1);
      await until(() => deliveries.length === 1);
      const runs = queueOf(queueNames.runs);
      // The queue hears beside the handler that the job runs.
      await until(async () => {
        await producer.addRuns(entries);
        return (await runs.getWaitingCount()) === 1;
      });
      await producer.addRuns(entries);
      expect(await runs.getWaitingCount()).toBe(1);
      open();
      await until(() => deliveries.length === 2);
      await producer.addRuns([entry('last')]);
      await until(() => deliveries.length === 3);
      expect(deliveries.at(-1)?.data).toEqual({ runId: 'last' });
    });

    it('enqueues a run without an id for repeats each time that it is asked to, in the order given', async () => {
      const entries = ['r1', 'r2', 'r3'].map((runId) => ({ runId, deduplicationId: null }));
      await producer.addRuns(entries);
      await producer.addRuns(entries.slice(0, 1));
      const deliveries: Delivery[] = [];
      consume(deliveries, async () => {}, 1);
      await until(() => deliveries.length === 4);
      expect(deliveries.map(({ data }) => data)).toEqual(
        ['r1', 'r2', 'r3', 'r1'].map((runId) => ({ runId })),
      );
    });

    it('delivers small runs in groups, and one that is enqueued again by itself', async () => {
      const ids = Array.from({ length: 30 }, (_, n) => `s${n}`);
      const first = ids.map((runId) => ({ runId, deduplicationId: null, small: true }));
      await producer.addRuns([
        ...first,
        { runId: 'again', deduplicationId: 'again.1', small: true },
      ]);
      const deliveries: Delivery[] = [];
      consume(deliveries);
      await until(() => deliveries.length === 3);
      const grouped = deliveries.filter(({ name }) => name === 'execute-small-runs');
      const groups = grouped.map(({ data }) => (data as { runs: { runId: string }[] }).runs);
      expect(groups.map(({ length }) => length)).toEqual([15, 15]);
      const delivered = groups.flat().map(({ runId }) => runId);
      expect(new Set(delivered)).toEqual(new Set(ids));
      expect(deliveries).toContainEqual({ name: 'execute-small-run', data: { runId: 'again' } });
    });

    it('delays no short job behind a run', async () => {
      const deliveries: Delivery[] = [];
      const { opened, open } = gate();
      consume(deliveries, ({ name }) => (name === 'execute-run' ? opened : Promise.resolve()), 1);
      await producer.addRuns([entry('r1'), entry('r2')]);
      await until(() => deliveries.length === 1);
      await producer.add('dispatch-runs', {});
      await until(() => countOf(deliveries, 'dispatch-runs') === 1);
      expect(countOf(deliveries, 'execute-run')).toBe(1);
      open();
      await until(() => countOf(deliveries, 'execute-run') === 2);
    });

    it('continues after a handler that throws, and names the job', async () => {
      const deliveries: Delivery[] = [];
      const failed: string[] = [];
      consume(deliveries, async () => Promise.reject(new Error('broken')), 4, failed);
      await producer.add('dispatch-runs', {});
      await until(() => failed.length === 1);
      await producer.addRuns([entry('r')]);
      await until(() => failed.length === 2);
      expect(failed).toEqual(['dispatch-runs', 'execute-run']);
    });

    it('fails a job whose data is not that of its kind, without a call of its handler', async () => {
      const deliveries: Delivery[] = [];
      const failed: string[] = [];
      consume(deliveries, async () => {}, 4, failed);
      await queueOf(queueNames.runs).add('execute-run', { id: 5 });
      await until(() => failed.length === 1);
      expect([failed, deliveries]).toEqual([['execute-run'], []]);
    });

    it('waits for its running jobs when it closes, and takes no other', async () => {
      const deliveries: Delivery[] = [];
      const { opened, open } = gate();
      const consumer = consume(deliveries, () => opened, 1);
      await producer.addRuns([entry('r1'), entry('r2')]);
      await until(() => deliveries.length === 1);
      let closed = false;
      const closing = consumer.close().then(() => (closed = true));
      expect(closed).toBe(false);
      open();
      await closing;
      expect(deliveries).toHaveLength(1);
      consume(deliveries);
      await until(() => deliveries.length === 2);
      expect(deliveries.map((delivery) => delivery.data)).toContainEqual({ runId: 'r2' });
    });

    it('schedules the recurring jobs once each, however many workers ensure them, and again after it lost everything', async () => {
      // As an earlier worker did that began at another time.
      const control = queueOf(queueNames.control);
      await control.upsertJobScheduler('tick', { every: 1_000, offset: 500 }, { name: 'tick' });
      await Promise.all(Array.from({ length: 4 }, () => producer.ensureRecurring()));
      const deliveries: Delivery[] = [];
      consume(deliveries);
      // Workers that start in the same instant may bring a job's very first turn more than once.
      const names = ['tick', 'sweep', 'apply-retention'] as const;
      await until(() => names.every((name) => countOf(deliveries, name) >= 1));
      deliveries.length = 0;
      const startedAt = performance.now();
      await until(
        async () => {
          await producer.ensureRecurring();
          return countOf(deliveries, 'tick') >= 3;
        },
        { everyMs: 100 },
      );
      const seconds = (performance.now() - startedAt) / 1_000;
      expect(countOf(deliveries, 'tick')).toBeLessThanOrEqual(seconds + 2);
      // What of the first turn came late.
      expect(countOf(deliveries, 'apply-retention')).toBeLessThanOrEqual(3);
      // Shortly after each whole second.
      expect(((await control.getJobScheduler('tick'))?.next ?? 0) % 1_000).toBe(50);

      await backend.loseEverything();
      deliveries.length = 0;
      await until(() => producer.ensureRecurring().then(() => true));
      await until(() => countOf(deliveries, 'tick') >= 2, { timeoutMs: 60_000 });
    });
  });
}

describe.skipIf(!ownRedisAvailable())('an unreachable Redis', () => {
  it('fails the producer at once, keeps nothing waiting, and is used again when it is back', async () => {
    const redis = await startOwnRedis();
    const connection = connectQueues({ kind: 'redis', url: redis.url }, () => {});
    const producer = openProducer(connection, () => {});
    await until(() => producer.add('dispatch-runs', {}).then(() => true));
    await redis.kill();
    // Redis comes back only after these: they do not wait for it.
    await expect(producer.add('dispatch-runs', {})).rejects.toThrow();
    await expect(producer.addRuns([entry('r')])).rejects.toThrow();
    await expect(connection.inspect()).rejects.toThrow();
    await redis.restart();
    await until(() => producer.addRuns([entry('r')]).then(() => true));
    await producer.close();
    await connection.close();
    await redis.stop();
  });

  it('drops a notification of the API without an error', async () => {
    const redis = await startOwnRedis();
    const database = await createTestDatabase();
    const foundation = await openFoundation(
      readConfig({
        DATABASE_URL: database.url,
        REDIS_URL: redis.url,
        ENCRYPTION_KEYS: `test:${randomBytes(32).toString('base64')}`,
        LOG_LEVEL: 'silent',
      }),
      'api',
    );
    await redis.kill();
    const { doorbell } = foundation.context;
    expect(() => doorbell.runsWaiting()).not.toThrow();
    expect(() => doorbell.backfillWaiting('b')).not.toThrow();
    // An unhandled rejection would fail the file by now.
    await expect(foundation.producer.add('dispatch-runs', {})).rejects.toThrow();
    await foundation.close();
    await database.drop();
    await redis.stop();
  });

  it('that may evict jobs is reported with its policy', async () => {
    const redis = await startOwnRedis(['--maxmemory-policy', 'allkeys-lru']);
    const connection = connectQueues({ kind: 'redis', url: redis.url }, () => {});
    const faults = await until(() => connection.inspect());
    expect(faults).toEqual([expect.stringContaining('allkeys-lru')]);
    await connection.close();
    await redis.stop();
  });
});
