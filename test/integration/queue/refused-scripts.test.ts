import { Redis } from 'ioredis';
import { expect, it } from 'vitest';
import { parseRedisAddress } from '../../../src/foundation/domain/redis-address.ts';
import { readinessOf } from '../../../src/main/readiness.ts';
import { queueNames } from '../../../src/state/queue/catalogue.ts';
import { connectQueues } from '../../../src/state/queue/connection.ts';
import { openProducer } from '../../../src/state/queue/producer.ts';
import { ownRedisAvailable, startOwnRedis } from '../../support/redis.ts';
import { until } from '../../support/until.ts';

it.skipIf(!ownRedisAvailable())(
  'a Redis that refuses scripts is reported, makes the process unready, and is asked with pauses',
  async () => {
    const redis = await startOwnRedis([
      ...['--user', 'default', 'on', 'nopass', '~*', '&*', '+@all', '-@scripting'],
    ]);
    const address = parseRedisAddress(redis.url);
    const connection = connectQueues({ kind: 'redis', address }, () => {});
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
    worker.on('error', () => {
      errors += 1;
    });
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

it.skipIf(!ownRedisAvailable())('a database that Redis does not have is reported', async () => {
  const redis = await startOwnRedis([]);
  const inspect = async (database: number) => {
    const address = parseRedisAddress(`${redis.url.replace(/\/\d*$/, '')}/${database}`);
    const connection = connectQueues({ kind: 'redis', address }, () => {});
    const faults = await until(() => connection.inspect());
    await connection.close();
    return faults;
  };
  expect(await inspect(99)).toEqual([expect.stringMatching(/refuses database 99 \(ERR DB index/)]);
  expect(await inspect(3)).toEqual([]);
  await redis.stop();
});
