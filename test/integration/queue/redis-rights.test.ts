import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it, test } from 'vitest';
import { createLogger, screenLines } from '../../../src/foundation/telemetry/logger.ts';
import { Outages } from '../../../src/foundation/telemetry/outages.ts';
import { queueNames } from '../../../src/state/queue/catalogue.ts';
import { connectQueues, type QueueConnection } from '../../../src/state/queue/connection.ts';
import { openProducer } from '../../../src/state/queue/producer.ts';
import { findFreePort } from '../../support/free-port.ts';
import { ownRedisAvailable, startOwnRedis } from '../../support/redis.ts';
import { documentedAcl, startRedisWithAcl } from '../../support/redis-acl.ts';
import { until } from '../../support/until.ts';
import { readinessOf } from '../../../src/main/readiness.ts';

describe.skipIf(!ownRedisAvailable())('the rights of the user of Redis', () => {
  let redis: Awaited<ReturnType<typeof startRedisWithAcl>>;
  let admin: Redis;
  let connection: QueueConnection;

  beforeAll(async () => {
    redis = await startRedisWithAcl();
    admin = new Redis(redis.url);
    connection = connectQueues({ kind: 'redis', url: redis.limitedUrl }, () => {});
    await until(() => connection.inspect().then(() => true));
  });
  afterAll(async () => {
    await connection.close();
    admin.disconnect();
    await redis.stop();
  });

  const give = (...rules: readonly string[]) =>
    admin.acl('SETUSER', 'sluice', 'reset', ...documentedAcl.slice(1), ...rules);

  test('are those of docs/operate.md', async () => {
    await give();
    expect(await connection.inspect()).toEqual([]);
  });

  test.each(
    'info eval evalsha multi bzpopmin zadd hset xadd lpush hgetall time del rpoplpush zrangebyscore hincrby lrem'.split(
      ' ',
    ),
  )('are named if the command %s is missing', async (command) => {
    await give(`-${command}`);
    const says = expect.stringContaining(`the command ${command.toUpperCase()}. Allow it`);
    expect(await connection.inspect()).toEqual([says]);
    expect(await connection.findRefusal()).toEqual(says);
  });

  test('are named if a category is missing', async () => {
    await give('-@write');
    expect(await connection.findRefusal()).toMatch(/does not allow its user the command \w+/);
  });

  test('are named if the keys are others', async () => {
    for (const pattern of ['~other:*', `~bull:${queueNames.runs}:*`]) {
      await give('resetkeys', pattern);
      expect(await connection.inspect(), pattern).toEqual([expect.stringContaining('~bull:*')]);
    }
  });

  test('that are missing are one line per minute, not thousands', async () => {
    await give('-info');
    const lines: string[] = [];
    let now = 0;
    const logger = createLogger('info', {}, { write: (text) => void lines.push(text) });
    const outages = new Outages(
      logger,
      [
        {
          ...{ name: 'redis', setting: 'REDIS_URL', effect: 'Nothing is lost.' },
          probe: () => connection.inspect(),
          refusal: () => connection.findRefusal(),
        },
      ],
      () => now,
    );
    screenLines(logger, outages);
    let errors = 0;
    const onError = (error: Error) => {
      errors += 1;
      logger.warn({ err: error }, 'a connection failed');
    };
    const producer = openProducer(connection, onError);
    const worker = connection.openWorker(queueNames.control, async () => {}, { runRetryDelay: 1 });
    worker.on('error', onError);
    await until(() => errors > 3 && lines.length > 0);
    for (const passed of [0, 59_000, 60_000]) {
      now = passed;
      await outages.look();
      expect(lines, String(passed)).toHaveLength(passed < 60_000 ? 1 : 2);
    }
    expect(lines[0]).toContain('REDIS_URL: Redis does not allow its user the command INFO');
    expect(lines[0]).not.toContain('unreachable');
    await give();
    await outages.look();
    expect(lines.at(-1)).toContain('Redis is reachable again');
    outages.close();
    await worker.close(true);
    await producer.close();
  });
});

it.skipIf(!ownRedisAvailable())(
  'a Redis that refuses scripts is reported, makes the process unready, and is asked with pauses',
  async () => {
    const redis = await startOwnRedis([
      ...['--user', 'default', 'on', 'nopass', '~*', '&*', '+@all', '-@scripting'],
    ]);
    const connection = connectQueues({ kind: 'redis', url: redis.url }, () => {});
    const faults = await until(() => connection.inspect());
    expect(faults).toEqual([expect.stringContaining('does not allow its user the command EVAL')]);
    const producer = openProducer(connection, () => {});
    const foundation = { context: { db: { query: async () => [] } }, queues: connection, producer };
    const check = readinessOf(
      foundation as unknown as Parameters<typeof readinessOf>[0],
      () => null,
    );
    expect(await check()).toMatchObject({
      status: 'unavailable',
      checks: { queue: expect.stringContaining('the command EVAL') },
    });
    let errors = 0;
    const worker = connection.openWorker(queueNames.runs, async () => {}, { runRetryDelay: 1 });
    worker.on('error', () => (errors += 1));
    const observer = new Redis(redis.url);
    const refused = async () =>
      Number(
        /cmdstat_evalsha:.*rejected_calls=(\d+)/.exec(await observer.info('commandstats'))?.[1] ??
          0,
      );
    await until(async () => (await refused()) > 0);
    const [before, since] = [await refused(), performance.now()];
    await until(() => performance.now() - since > 1_500);
    expect((await refused()) - before).toBeLessThan(10);
    observer.disconnect();
    await worker.close(true);
    expect(errors).toBeLessThan(10);
    await producer.close();
    await connection.close();
    await redis.stop();
  },
);

it.skipIf(!ownRedisAvailable())('a node of a cluster is reported', async () => {
  const port = String(await findFreePort());
  const redis = await startOwnRedis(['--cluster-enabled', 'yes', '--cluster-port', port]);
  const connection = connectQueues({ kind: 'redis', url: redis.url }, () => {});
  expect(await until(() => connection.inspect())).toEqual([
    expect.stringMatching(/leads to a node of a cluster: name one server/),
  ]);
  await connection.close();
  await redis.stop();
});

it.skipIf(!ownRedisAvailable())('a database that Redis does not have is reported', async () => {
  const redis = await startOwnRedis([]);
  const inspect = async (database: number) => {
    const url = `${redis.url.replace(/\/\d*$/, '')}/${database}`;
    const connection = connectQueues({ kind: 'redis', url }, () => {});
    const faults = await until(() => connection.inspect());
    await connection.close();
    return faults;
  };
  expect(await inspect(99)).toEqual([expect.stringMatching(/refuses database 99 \(ERR DB index/)]);
  expect(await inspect(3)).toEqual([]);
  await redis.stop();
});
