import { expect, it } from 'vitest';
import { connectQueues } from '../../../src/state/queue/connection.ts';
import { openProducer } from '../../../src/state/queue/producer.ts';
import { type Listening, SharedListener } from '../../../src/state/queue/postgres-backend.ts';
import { openQueuePool } from '../../../src/state/store/database/database.ts';
import { createEmptyDatabase } from '../../support/database.ts';
import { until } from '../../support/until.ts';

/** A pool over an empty database, which goes with it. */
async function openPool(maxConnections: number) {
  const database = await createEmptyDatabase();
  const { pool, close } = openQueuePool({
    connectionString: database.url,
    applicationName: 'test-queue',
    maxConnections,
    onError: () => {},
  });
  return {
    pool,
    async close() {
      await close();
      await database.drop();
    },
  };
}

it('the begin and end of a job in Postgres write no events, and its statements are parsed once per connection', async () => {
  // One listens, the other does all else.
  const { pool, close } = await openPool(2);
  const connection = connectQueues({ kind: 'postgres', pool }, () => {});
  // Also if many processes start at once, and again.
  await Promise.all([connection.prepare(), connection.prepare(), connection.prepare()]);
  const producer = openProducer(connection, () => {});
  const taken: string[] = [];
  const take = async ({ name }: { readonly name: string }) => void taken.push(name);
  const worker = connection.openWorker('sluice-runs', take, { concurrency: 4 });
  worker.on('error', () => {});
  for (const runId of ['r1', 'r2', 'r3'])
    await producer.addRuns([{ runId, deduplicationId: null }]);
  const runs = producer.queues.find(({ name }) => name === 'sluice-runs');
  await until(async () => taken.length === 3 && (await runs?.getJobCounts('active'))?.active === 0);
  const { rows: events } = await pool.query('select distinct event from event order by event');
  expect(events).toEqual([{ event: 'added' }, { event: 'waiting' }]);
  const { rows: parsed } = await pool.query(
    `select from pg_prepared_statements where statement like '%move_to_%'`,
  );
  expect(parsed.length).toBeGreaterThan(0);
  await worker.close();
  await producer.close();
  await close();
});

it('a queue or worker in Postgres whose first connection fails works once there is one', async () => {
  const { pool, close } = await openPool(10);
  await connectQueues({ kind: 'postgres', pool }, () => {}).prepare();
  let failures = 0;
  const connect = pool.connect.bind(pool) as (...given: unknown[]) => unknown;
  Object.assign(pool, {
    connect: (...given: unknown[]) => {
      if (failures === 0 || given.length > 0) return connect(...given);
      failures -= 1;
      return Promise.reject(new Error('timeout exceeded when trying to connect'));
    },
  });
  const errors: string[] = [];
  const connection = connectQueues({ kind: 'postgres', pool }, ({ message }) => {
    errors.push(message);
  });
  // One of each queue.
  failures = 3;
  const producer = openProducer(connection, () => {});
  await until(() => producer.add('dispatch-runs', {}).then(() => true));
  expect(failures).toBe(0);
  failures = 1;
  const taken: string[] = [];
  const take = async ({ name }: { readonly name: string }) => void taken.push(name);
  const worker = connection.openWorker('sluice-control', take, {});
  worker.on('error', () => {});
  expect(worker.getBackend()).toMatchObject({ maximumBlockTimeout: 5 });
  await until(() => taken.includes('dispatch-runs'), { message: 'the worker takes the job' });
  expect(errors).toHaveLength(4);
  await worker.close();
  await producer.close();
  await close();
});

it('queues that share a session to listen ask it one after another, also after a failure', async () => {
  const { pool, close } = await openPool(2);
  const active: number[] = [];
  let running = 0;
  pool.on('connect', (client) => {
    const query = client.query.bind(client) as (text: string) => Promise<unknown>;
    Object.assign(client, {
      query: async (text: string) => {
        running += 1;
        active.push(running);
        await query(text).finally(() => (running -= 1));
      },
    });
  });
  const listener = new SharedListener(pool, () => {});
  const queues = Array.from({ length: 3 }, () => {
    const queue = { close: async () => {}, emit: () => true } as unknown as Listening;
    listener.serve(queue);
    return queue;
  });
  const asked = await Promise.allSettled(
    ['listen a', 'listen', 'listen b'].map(async (text, at) => {
      const client = (await queues[at]?.getListenClient()) as {
        query(text: string): Promise<void>;
      };
      await client.query(text);
    }),
  );
  expect(asked.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
  expect(active).toEqual([1, 1, 1]);
  for (const queue of queues) await queue.close();
  await close();
});
