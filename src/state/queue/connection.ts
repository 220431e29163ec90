import { type Job, Queue, type QueueBaseOptions, Worker, type WorkerOptions } from 'bullmq';
import type { Pool } from 'pg';
import type { RedisAddress } from '../../foundation/domain/redis-address.ts';
import type { QueueName } from './catalogue.ts';
import { createBackendFactory, preparePostgres, SharedListener } from './postgres-backend.ts';
import {
  findRefusal,
  inspectRedis,
  openRedis,
  prefixOf,
  type RedisUse,
  RestingWorker,
} from './redis.ts';

export type QueueBackend =
  | { readonly kind: 'redis'; readonly address: RedisAddress }
  | { readonly kind: 'postgres'; readonly pool: Pool };

type Processor = (job: Job) => Promise<void>;

/** The only code that differs between the two backends. */
export interface QueueConnection {
  readonly kind: 'redis' | 'postgres';
  /** Creates or migrates the backend's own schema. Many processes may call it at once. */
  prepare(): Promise<void>;
  openQueue(name: QueueName): Queue;
  openWorker(name: QueueName, processor: Processor, options: Partial<WorkerOptions>): Worker;
  /** Problems for the operator to fix: a Redis that may evict jobs, or is of another kind. @throws if it is unreachable */
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
    ? connectRedis(backend.address, onError)
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

function connectRedis(address: RedisAddress, onError: (error: Error) => void): QueueConnection {
  const opened: ReturnType<typeof openRedis>[] = [];
  let lastError: Error | null = null;
  const open = (use: RedisUse) => {
    const redis = openRedis(address, use);
    redis.on('error', (error: Error) => {
      lastError = error;
      onError(error);
    });
    opened.push(redis);
    return redis;
  };
  // If Redis is unreachable, a producer must fail at once: its runs are safe in Postgres.
  let producing: ReturnType<typeof openRedis> | undefined;
  const producer = () => {
    producing ??= open('producer');
    return producing;
  };
  return {
    kind: 'redis',
    prepare: async () => {},
    // BullMQ waits until Redis is reachable, so callers set a time limit with `within`.
    openQueue: (name) =>
      new Queue(name, { connection: producer(), prefix: prefixOf(address, name) }),
    openWorker: (name, processor, options) =>
      new RestingWorker(name, processor, {
        ...options,
        connection: open('worker'),
        prefix: prefixOf(address, name),
      }),
    inspect: () => inspectRedis(producer(), address, lastError),
    findRefusal: () => findRefusal(producer(), address),
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
