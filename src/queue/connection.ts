import {
  type BackendFactory,
  createPostgresBackend,
  type IQueueBackend,
  type Job,
  Queue,
  type QueueBaseOptions,
  runMigrations,
  Worker,
  type WorkerOptions,
} from 'bullmq';
import { Redis, type RedisOptions } from 'ioredis';
import type { Pool } from 'pg';
import type { QueueName } from './catalogue.ts';

/** Which service carries the queues. */
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
  /**
   * Returns problems for the operator to fix: a Redis that may evict jobs.
   *
   * @throws if the backend is unreachable
   */
  inspect(): Promise<readonly string[]>;
  close(): Promise<void>;
}

export function connectQueues(
  backend: QueueBackend,
  onError: (error: Error) => void,
): QueueConnection {
  return backend.kind === 'redis'
    ? connectRedis(backend.url, onError)
    : connectPostgres(backend.pool);
}

function connectPostgres(pool: Pool): QueueConnection {
  const factory = createPostgresBackend as unknown as BackendFactory<IQueueBackend, Pool>;
  return {
    kind: 'postgres',
    async prepare() {
      const client = await pool.connect();
      try {
        await runMigrations(client);
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
    close: async () => {},
  };
}

function connectRedis(url: string, onError: (error: Error) => void): QueueConnection {
  const opened: Redis[] = [];
  const open = (
    options: Pick<RedisOptions, 'maxRetriesPerRequest' | 'enableOfflineQueue'>,
  ): Redis => {
    const redis = new Redis(url, {
      ...options,
      connectTimeout: 5_000,
      retryStrategy: (times: number) => Math.min(times * 100, 1_000),
    });
    redis.on('error', onError);
    opened.push(redis);
    return redis;
  };
  // If Redis is unreachable, a producer must fail at once: its runs are safe in Postgres.
  let producing: Redis | undefined;
  const producer = (): Redis => {
    producing ??= open({ maxRetriesPerRequest: 1, enableOfflineQueue: false });
    return producing;
  };
  return {
    kind: 'redis',
    prepare: async () => {},
    // BullMQ waits until Redis is reachable, so callers set a time limit with `within`.
    openQueue: (name) => new Queue(name, { connection: producer() }),
    openWorker: (name, processor, options) =>
      new Worker(name, processor, { ...options, connection: open({ maxRetriesPerRequest: null }) }),
    async inspect() {
      const policy = await producer().config('GET', 'maxmemory-policy');
      const value = Array.isArray(policy) ? String(policy[1]) : '';
      return value === '' || value === 'noeviction'
        ? []
        : [`Redis may evict jobs: set maxmemory-policy to noeviction (now: ${value})`];
    },
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
