import { type Job, Queue, type QueueBaseOptions, Worker, type WorkerOptions } from 'bullmq';
import type { Redis } from 'ioredis';
import type { Pool } from 'pg';
import type { QueueName } from './catalogue.ts';
import { createBackendFactory, preparePostgres, SharedListener } from './postgres-backend.ts';
import { findRefusal, inspectRedis, openRedis, type RedisUse, RestingWorker } from './redis.ts';

export type QueueBackend =
  | { readonly kind: 'redis'; readonly url: string }
  | { readonly kind: 'postgres'; readonly pool: Pool };

type Processor = (job: Job) => Promise<void>;

/** The only code that differs between the two backends. */
export interface QueueConnection {
  readonly kind: 'redis' | 'postgres';
  /** Creates or migrates the backend's own schema. Many processes may call it at once. */
  prepare(): Promise<void>;
  openQueue(name: QueueName): Queue;
  openWorker(name: QueueName, processor: Processor, options: Partial<WorkerOptions>): Worker;
  /** Problems for the operator to fix: a Redis that may evict jobs, or no single server. @throws if it is unreachable */
  inspect(): Promise<readonly string[]>;
  /** Why no job can ever pass through the backend, for the operator; null if jobs can. @throws if it is unreachable */
  findRefusal(): Promise<string | null>;
  close(): Promise<void>;
}

export function connectQueues(
  backend: QueueBackend,
  onError: (error: Error) => void,
): QueueConnection {
  return backend.kind === 'redis'
    ? connectRedis(backend.url, onError)
    : connectPostgres(backend.pool, onError);
}

function connectPostgres(pool: Pool, onError: (error: Error) => void): QueueConnection {
  const listener = new SharedListener(pool, onError);
  const factory = createBackendFactory(pool, listener, onError);
  // Each queue and each worker listens to the pool's errors.
  pool.setMaxListeners(0);
  return {
    kind: 'postgres',
    async prepare() {
      const client = await pool.connect();
      try {
        await preparePostgres(client);
      } finally {
        client.release();
      }
    },
    openQueue: (name) =>
      new Queue(name, { connection: pool } as QueueBaseOptions<Pool>, factory) as unknown as Queue,
    openWorker: (name, processor, options) =>
      new Worker(
        name,
        processor,
        { ...options, connection: pool } as WorkerOptions<Pool>,
        factory,
      ) as unknown as Worker,
    async inspect() {
      await pool.query('select 1');
      return [];
    },
    findRefusal: async () => null,
    close: async () => {},
  };
}

function connectRedis(url: string, onError: (error: Error) => void): QueueConnection {
  const opened: Redis[] = [];
  const open = (use: RedisUse) => {
    const redis = openRedis(url, use);
    redis.on('error', onError);
    opened.push(redis);
    return redis;
  };
  // If Redis is unreachable, a producer must fail at once: its runs are safe in Postgres.
  let producing: Redis | undefined;
  const producer = () => {
    producing ??= open('producer');
    return producing;
  };
  return {
    kind: 'redis',
    prepare: async () => {},
    // BullMQ waits until Redis is reachable, so callers set a time limit with `within`.
    openQueue: (name) => new Queue(name, { connection: producer() }),
    openWorker: (name, processor, options) =>
      new RestingWorker(name, processor, { ...options, connection: open('worker') }),
    inspect: () => inspectRedis(producer()),
    findRefusal: () => findRefusal(producer()),
    async close() {
      for (const redis of opened) redis.disconnect();
    },
  };
}

/** Rejects after `ms` and ignores what `promise` does later. */
export async function within<T>(ms: number, promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const expired = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`the queue did not answer within ${ms} ms`)), ms);
  });
  promise.catch(() => {});
  try {
    return await Promise.race([promise, expired]);
  } finally {
    clearTimeout(timer);
  }
}
