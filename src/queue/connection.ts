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

/** The one switch between the two backends; all else is the same code. */
export interface QueueConnection {
  readonly kind: 'redis' | 'postgres';
  /** Makes or updates the backend's own schema. Safe from many processes at once. */
  prepare(): Promise<void>;
  openQueue(name: QueueName): Queue;
  openWorker(name: QueueName, processor: Processor, options: Partial<WorkerOptions>): Worker;
  /**
   * What an operator should mend: a Redis that may evict jobs.
   *
   * @throws where the backend is away
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
  // A producer must answer at once where Redis is away: what it would ring for is in Postgres.
  let producing: Redis | undefined;
  const producer = (): Redis => {
    producing ??= open({ maxRetriesPerRequest: 1, enableOfflineQueue: false });
    return producing;
  };
  return {
    kind: 'redis',
    prepare: async () => {},
    // It waits until Redis is there; what is asked meanwhile has a time limit of its own.
    openQueue: (name) => new Queue(name, { connection: producer() }),
    openWorker: (name, processor, options) =>
      new Worker(name, processor, { ...options, connection: open({ maxRetriesPerRequest: null }) }),
    async inspect() {
      const policy = await producer().config('GET', 'maxmemory-policy');
      const value = Array.isArray(policy) ? String(policy[1]) : '';
      return value === '' || value === 'noeviction'
        ? []
        : [`Redis may evict jobs: set maxmemory-policy to noeviction (it is ${value})`];
    },
    async close() {
      for (const redis of opened) redis.disconnect();
    },
  };
}

/** Rejects after `ms`; what `promise` does later is of no interest. */
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
