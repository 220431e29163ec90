import { Redis } from 'ioredis';
import { Pool } from 'pg';
import { connectQueues, type QueueConnection } from '../../src/state/queue/connection.ts';
import { openQueuePool } from '../../src/state/store/database/database.ts';
import { createEmptyDatabase } from './database.ts';
import { ownRedisAvailable } from './redis.ts';
import { startRedisWithAcl } from './redis-acl.ts';
import { poolSqlOf } from './sql.ts';
import { until } from './until.ts';

/** A queue backend of one test file's own. */
export interface TestQueueBackend {
  /** The settings for the processes of a lane. */
  readonly env: { readonly DATABASE_URL?: string; readonly REDIS_URL?: string };
  /** A connection as a process of ours opens it. Closed with the backend at the latest. */
  connect(): Promise<QueueConnection>;
  /** Takes all its data away, and says nothing. */
  loseEverything(): Promise<void>;
  stop(): Promise<void>;
}

export interface QueueBackendLane {
  readonly name: 'Postgres' | 'Redis';
  readonly available: () => boolean;
  /** @param databaseUrl of a queue in Postgres; by default a database of its own */
  open(databaseUrl?: string): Promise<TestQueueBackend>;
}

/** Both backends: `describe.each(queueBackends)`. A lane whose server is not there is skipped. */
export const queueBackends: readonly QueueBackendLane[] = [
  { name: 'Postgres', available: () => true, open: openPostgresBackend },
  { name: 'Redis', available: ownRedisAvailable, open: openRedisBackend },
];

async function openPostgresBackend(databaseUrl?: string): Promise<TestQueueBackend> {
  const database = databaseUrl === undefined ? await createEmptyDatabase() : null;
  const url = databaseUrl ?? database?.url ?? '';
  const closers: (() => Promise<void>)[] = [];
  return {
    env: { DATABASE_URL: url },
    async connect() {
      const queuePool = openQueuePool({
        connectionString: url,
        applicationName: 'test-queue',
        maxConnections: 10,
        onError: () => {},
      });
      closers.push(() => queuePool.close());
      const connection = connectQueues({ kind: 'postgres', pool: queuePool.pool }, () => {});
      await connection.prepare();
      return connection;
    },
    loseEverything: () => truncateQueue(url),
    async stop() {
      for (const close of closers) await close();
      await database?.drop();
    },
  };
}

async function truncateQueue(url: string): Promise<void> {
  const pool = new Pool({ connectionString: url, max: 1 });
  const { rows } = await poolSqlOf(pool)<{ name: string }>`
    select format('bullmq.%I', tablename) as name from pg_tables
      where schemaname = 'bullmq' and tablename not like '%migration%'`;
  const truncate = () => pool.query(`truncate ${rows.map((row) => row.name).join(', ')} cascade`);
  // The queue's own transactions lock these tables in another order.
  const isDeadlock = (error: unknown) => (error as { code?: string }).code === '40P01';
  await until(() =>
    truncate().then(
      () => true,
      (error: unknown) => {
        if (isDeadlock(error)) return false;
        throw error;
      },
    ),
  );
  await pool.end();
}

async function openRedisBackend(): Promise<TestQueueBackend> {
  const redis = await startRedisWithAcl();
  const admin = new Redis(redis.url);
  const connections: QueueConnection[] = [];
  return {
    env: { REDIS_URL: redis.limitedUrl },
    async connect() {
      const connection = connectQueues({ kind: 'redis', url: redis.limitedUrl }, () => {});
      connections.push(connection);
      return connection;
    },
    async loseEverything() {
      await admin.flushall();
    },
    async stop() {
      for (const connection of connections) await connection.close();
      admin.disconnect();
      await redis.stop();
    },
  };
}
