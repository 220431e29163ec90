import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, type Pool } from 'pg';
import { stringify } from 'yaml';
import { eventsTableSql } from '../../../src/rows/sources/postgres/events-table.ts';
import { canaryOf } from '../../support/canaries.ts';
import { createS3Export } from '../../support/exported-events.ts';
import {
  bucket,
  type Installation,
  type QueueKind,
  startInstallation,
} from '../../support/installation.ts';
import { poolSqlOf } from '../../support/sql.ts';
import { people } from './erase.ts';
import { type Replication, startReplication } from '../../support/standby.ts';
import { startTcpProxy, type TcpProxy } from '../../support/tcp-proxy.ts';

/** Rows of the past, in intervals of five minutes. */
export const past = { start: '2024-03-01T00:00:00Z', end: '2024-03-01T01:00:00Z' };
export const settleTimeoutSeconds = 2;
/** A second bucket of the store. */
export const elsewhere = 'elsewhere';
export const maxAttempts = 10;

export interface Counts {
  kills: number;
  freezes: number;
  restarts: number;
  /** Transactions that ended after the run of their minute had completed. */
  outlived: number;
  /** How often `sluice verify` has read an export to its end. */
  verified: number;
  /** How often an export was moved to another place. */
  moved: number;
}

/** An export of the storm: what it reads, and what the storm may change about it. */
export interface StormExport {
  readonly name: string;
  readonly id: string;
  readonly model: 'events' | 'moves';
  readonly changes: 'format' | 'prefix' | 'manifest';
}

/** All of it: the installation, what is around it, and what has been done to it. */
export interface World {
  readonly installation: Installation;
  readonly replication: Replication;
  /** Between our processes and their database. */
  readonly proxy: TcpProxy;
  readonly seed: number;
  readonly exports: readonly StormExport[];
  readonly counts: Counts;
  /** Rows that were deleted from `events`, by uuid. */
  readonly deleted: Set<string>;
  /** Deliveries of rows that left the source afterwards: `export: key`. Each must stay in the files of its export. */
  readonly pruned: Set<string>;
  /** The rows of each person who is to be erased, by uuid. */
  readonly people: Map<string, readonly string[]>;
  /** Rows that `sluice erase` has proven to be gone: `export uuid`. */
  readonly erased: Set<string>;
  /** How often it did not, by the last line that it printed. */
  readonly unerased: Map<string, number>;
  /** What should never be: a worker that ended by itself, an answer that no client should get. */
  readonly surprises: string[];
  /** What `sluice verify` has called broken in the storm. */
  readonly alarms: Set<string>;
  /** Why it could verify nothing when it last could not. */
  unverified: string;
  /**
   * Whether a worker may freeze or a request be late: not while the store keeps to no condition, since
   * only the lease keeps two workers apart then.
   */
  mayFreeze: boolean;
  close(): Promise<void>;
}

const moves = {
  name: 'moves',
  relation: 'public.moves',
  source: 'STANDBY_URL',
  settle_url: 'PRIMARY_URL',
  tenant_column: 'team_id',
  interval_column: 'arrived_at',
  key_columns: ['id'],
  columns: [
    { name: 'id', type: 'uuid' },
    { name: 'label', type: 'text' },
    { name: 'amount', type: 'numeric' },
    { name: 'arrived_at', type: 'timestamptz' },
  ],
};

const createMoves = `
  create table moves (
    id uuid primary key, team_id int not null, label text, amount numeric,
    arrived_at timestamptz not null default now());
  create index on moves (team_id, arrived_at)`;

export async function openWorld(seed: number, queue: QueueKind, rows: number): Promise<World> {
  const folder = await mkdtemp(path.join(tmpdir(), 'sluice-storm-'));
  const modelsFile = path.join(folder, 'models.yaml');
  await writeFile(modelsFile, stringify({ models: [moves] }));
  const replication = await startReplication({
    max_connections: '300',
    max_prepared_transactions: '50',
    wal_keep_size: '1GB',
  });
  const proxy = await startTcpProxy({ target: { port: replication.primary.port } });
  const proxied = (databaseUrl: string) => {
    const url = new URL(databaseUrl);
    url.port = String(proxy.port);
    return url.href;
  };
  const primary = new Client({ connectionString: replication.primary.url });
  await primary.connect();
  // Before the API starts, which offers the model only if there is the table.
  await primary.query(eventsTableSql).finally(() => primary.end());
  const installation = await startInstallation({
    queue,
    workers: 0,
    databaseUrl: replication.primary.url,
    s3: { buckets: [bucket, elsewhere] },
    reachedAt: proxied,
    env: {
      MODELS_FILE: modelsFile,
      ALLOWED_PRIVATE_ENDPOINTS: '127.0.0.1,localhost',
      STANDBY_URL: replication.standbyUrl,
      PRIMARY_URL: proxied(replication.primary.url),
      SETTLE_TIMEOUT_SECONDS: String(settleTimeoutSeconds),
      RETRY_MAX_ATTEMPTS: String(maxAttempts),
      DATABASE_POOL_SIZE: '8',
      WORKER_CONCURRENCY: '8',
      WORKER_MEMORY_MB: '1024',
      BACKFILL_CONCURRENCY: '5',
      MAX_RUNS_PER_TENANT: '40',
    },
  });
  await installation.pool.query(createMoves);
  await insertPast(installation, rows, 400);
  // Intervals of several parts: workers die between them.
  await insertPast(installation, Math.round(rows / 10), 5_000, '2024-03-01T00:10:00Z');
  await insertMoves(installation.pool, installation.tenant.projectIds[0], 1_000, past.start);
  await insertPeople(installation);
  const exports = await createExports(installation);
  return {
    installation,
    replication,
    proxy,
    seed,
    exports,
    counts: { kills: 0, freezes: 0, restarts: 0, outlived: 0, verified: 0, moved: 0 },
    deleted: new Set(),
    pruned: new Set(),
    people: new Map(),
    erased: new Set(),
    unerased: new Map(),
    surprises: [],
    alarms: new Set(),
    unverified: '',
    mayFreeze: true,
    async close() {
      try {
        await installation.close();
      } finally {
        await proxy.close();
        await replication.stop();
        await rm(folder, { recursive: true, force: true });
      }
    },
  };
}

async function createExports(installation: Installation): Promise<readonly StormExport[]> {
  const live = { end_at: null, interval: 'every 1 minutes' };
  const packed = { end_at: null, interval: 'every 5 minutes' };
  const wanted = [
    { name: 'live', model: 'events', changes: 'format', settings: live },
    {
      name: 'packed',
      model: 'events',
      changes: 'format',
      settings: { ...packed, config: { max_file_size_mb: 1 } },
    },
    {
      name: 'moving',
      model: 'events',
      changes: 'prefix',
      settings: { ...packed, config: { prefix: '{batch_export_id}/a', compression: 'gzip' } },
    },
    { name: 'bare', model: 'events', changes: 'manifest', settings: packed },
    { name: 'standby', model: 'moves', changes: 'format', settings: live },
  ] as const;
  const exports: StormExport[] = [];
  for (const { name, model, changes, settings } of wanted) {
    const id = await createS3Export(installation, { name, model, ...settings });
    exports.push({ name, id, model, changes });
  }
  return exports;
}

async function insertPast(
  { pool, tenant }: Installation,
  rows: number,
  bytes: number,
  end = past.end,
): Promise<void> {
  const team = tenant.projectIds[0];
  await pool.query(
    `insert into events (uuid, team_id, event, distinct_id, properties, inserted_at)
     select gen_random_uuid(), $1, 'past "' || n || E'",\\n', 'user ' || n,
            jsonb_build_object('n', n, 'canary', $2::text, 'pad', repeat(md5(n::text), $3)),
            $4::timestamptz + ($5::timestamptz - $4::timestamptz) * (n::float8 / $6)
       from generate_series(0, $6::int - 1) n`,
    [team, canaryOf(team), Math.round(bytes / 32), past.start, end, rows],
  );
}

/** Three rows of each; what prunes rows leaves those that are like live ones. */
async function insertPeople({ pool, tenant }: Installation): Promise<void> {
  const team = tenant.projectIds[0];
  await pool.query(
    `insert into events (uuid, team_id, event, distinct_id, properties, inserted_at)
     select gen_random_uuid(), $1, 'live, of a person', 'person ' || n, jsonb_build_object('canary', $2::text),
            $3::timestamptz + n * at * interval '20 s'
       from generate_series(1, $4::int) n, generate_series(1, 3) at`,
    [team, canaryOf(team), past.start, people],
  );
}

export async function insertMoves(
  pool: Pool,
  team: number,
  rows: number,
  at: string | null,
): Promise<void> {
  await poolSqlOf(pool)`
    insert into moves select gen_random_uuid(), ${team}, 'move, "' || n || '"', n / 7.0,
            coalesce(${at}::timestamptz, now()) from generate_series(1, ${rows}) n`;
}

/** Tries again until the database, or the API, is there. */
export async function persistently<T>(work: () => Promise<T>, timeoutMs = 60_000): Promise<T> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (performance.now() > deadline) throw error;
      await sleep(200);
    }
  }
}

/** Repeats `step` until the signal comes. What the storm itself breaks is no failure of an actor. */
export async function act(
  signal: AbortSignal,
  pauseMs: () => number,
  step: () => Promise<void>,
): Promise<void> {
  while (!signal.aborted) {
    await sleep(pauseMs(), undefined, { signal }).catch(() => {});
    if (signal.aborted) return;
    await step().catch(() => {});
  }
}
