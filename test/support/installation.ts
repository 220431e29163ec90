import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Pool } from 'pg';
import { inject } from 'vitest';
import { type Database, openDatabase } from '../../src/state/store/database/database.ts';
import { type ApiAnswer, type ApiClient, createApiClient, type WireBody } from './api-client.ts';
import { createTestDatabase } from './database.ts';
import { type ForeignS3, openForeignS3 } from './foreign-s3.ts';
import { findNamedKeyViolations, recordMoves } from './invariants.ts';
import { type ProcessOptions, startBundled, startSluice, type TestProcess } from './processes.ts';
import { startRedisWithAcl } from './redis-acl.ts';
import type { OwnRedisServer } from './redis.ts';
import type { S3Quirks } from './s3-server/quirks.ts';
import { type SpawnedS3Server, spawnS3Server } from './s3-server/spawn.ts';
import { poolSqlOf, type PoolSqlTag } from './sql.ts';
import { planShop, shopVariable, writeShopModels } from './stranger-shop.ts';
import { createTenant, type Tenant } from './tenants.ts';
import { until } from './until.ts';

export type QueueKind = 'postgres' | 'redis';

export interface InstallationOptions {
  readonly queue?: QueueKind;
  /** Workers that are started with it; default 3. */
  readonly workers?: number;
  /** What API and workers are: the bundle (default), which starts faster, or the build itself. */
  readonly programs?: 'bundle' | 'build';
  /** For every process of it. */
  readonly env?: Readonly<Record<string, string>>;
  /** A server of the test's own, with an unused database; by default one cloned from the template. */
  readonly databaseUrl?: string;
  /** The address for the processes, if it is another one of the same database (a proxy). */
  readonly reachedAt?: (databaseUrl: string) => string;
  /** The S3 server's limits. */
  readonly s3?: {
    readonly minPartBytes?: number;
    readonly maxParts?: number;
    /** Default: `bucket` alone. */
    readonly buckets?: readonly string[];
    readonly quirks?: S3Quirks;
  };
  /**
   * Whether the test fails if a key that a current manifest names is written or deleted; default true.
   * False is for tests that break files by hand.
   */
  readonly checksNamedKeys?: boolean;
  /** A store of other make, of our `region`, instead of our S3 server; its `bucket` is emptied first. */
  readonly foreignS3?: ForeignS3;
}

/**
 * Sluice as it runs in production, each part a real process: API, workers, queue, database, S3. Its models are those of a stranger's shop
 * in another database, and `events` in ours.
 */
export interface Installation {
  readonly databaseUrl: string;
  /** For a test's own looks and rows. */
  readonly pool: Pool;
  readonly sql: PoolSqlTag;
  readonly db: Database;
  /** The database of the models besides `events`. */
  readonly shop: Pool;
  readonly s3: SpawnedS3Server;
  readonly checksNamedKeys: boolean;
  /** Null if the queue lives in Postgres. */
  readonly redis: OwnRedisServer | null;
  readonly tenant: Tenant;
  /** Of the tenant's key. It goes on over a restart of the API: the port stays. */
  readonly client: ApiClient;
  /** What the client, also with other keys, was answered. */
  readonly recording: Recording;
  /** The first project of each tenant, by the tenant's key. */
  readonly teamOfKey: ReadonlyMap<string, number>;
  /** Another tenant, whose rows no other tenant may see. */
  addTenant(): Promise<Tenant>;
  /** The environment that every process of it gets. */
  readonly env: Readonly<Record<string, string>>;
  /** What must never be seen outside: key, secret and password, by what they are. */
  readonly secrets: ReadonlyMap<string, string>;
  /** Every worker so far, the dead ones too. */
  readonly workers: readonly TestProcess[];
  /** Every process so far, the dead ones too. */
  readonly processes: readonly TestProcess[];
  startApi(env?: ProcessOptions['env']): Promise<TestProcess>;
  startWorker(env?: ProcessOptions['env']): Promise<TestProcess>;
  /** Ends the workers that still run, in order, also those that SIGSTOP has frozen. */
  stopWorkers(): Promise<void>;
  /** Ends the API too. */
  stopAll(): Promise<void>;
  close(): Promise<void>;
}

export const bucket = 'exports';
export const region = 'eu-central-1';

/** Short times, so that a test need not wait for what takes minutes in production. */
const shortTimes = {
  LEASE_SECONDS: '2',
  RETRY_BASE_SECONDS: '1',
  MAX_JITTER_SECONDS: '0',
  MIN_INTERVAL_MINUTES: '1',
  UPLOAD_PART_MIB: '5',
  UPLOAD_STALL_SECONDS: '3',
  RATE_LIMIT_PER_MINUTE: '100000',
};

/** Starts all of it and a tenant with a key. */
export async function startInstallation(options: InstallationOptions = {}): Promise<Installation> {
  const { queue = 'postgres', workers = 3, programs = 'bundle', foreignS3 } = options;
  const start = programs === 'bundle' ? startBundled : startSluice;
  // Another make of store records nothing.
  const checksNamedKeys = foreignS3 === undefined && (options.checksNamedKeys ?? true);
  const credentials = foreignS3?.credentials ?? {
    accessKeyId: `AKIACANARY${randomBytes(5).toString('hex').toUpperCase()}`,
    secretAccessKey: `canary-secret-${randomBytes(12).toString('hex')}`,
  };
  const planned = planShop();
  const [own, shop, s3, redis, folder] = await Promise.all([
    options.databaseUrl === undefined ? createTestDatabase() : null,
    planned.open(),
    foreignS3
      ? openForeignS3(foreignS3, bucket)
      : spawnS3Server({ buckets: [bucket], credentials, region, ...options.s3 }),
    queue === 'redis' ? startRedisWithAcl() : null,
    mkdtemp(path.join(tmpdir(), 'sluice-installation-')),
  ]);
  const databaseUrl = own?.url ?? options.databaseUrl ?? '';
  // Commands that run in this process read it here.
  process.env[shopVariable] = planned.url;
  const encryptionKey = randomBytes(32).toString('base64');
  const reachedAt = options.reachedAt?.(databaseUrl) ?? databaseUrl;
  const env: Record<string, string> = {
    DATABASE_URL: reachedAt,
    REDIS_URL: redis?.limitedUrl ?? '',
    ENCRYPTION_KEYS: `test:${encryptionKey}`,
    ALLOWED_PRIVATE_ENDPOINTS: '127.0.0.1',
    LOG_LEVEL: 'debug',
    MODELS_FILE: await writeShopModels(folder),
    [shopVariable]: planned.url,
    ...shortTimes,
    ...options.env,
  };
  const pool = new Pool({ connectionString: databaseUrl, max: 5 });
  pool.on('error', () => {});
  const db = openDatabase({
    connectionString: databaseUrl,
    applicationName: 'test',
    maxConnections: 4,
    onError: () => {},
  });
  const processes: TestProcess[] = [];
  const workersStarted: TestProcess[] = [];
  let port = '0';

  const startApi: Installation['startApi'] = async (extra = {}) => {
    const api = start('main/api.js', [], { env: { ...env, PORT: port, ...extra } });
    processes.push(api);
    const line = await api.waitForLine(/^ready http/, 240_000);
    port = new URL(line.replace(/^ready /, '')).port;
    return api;
  };
  const startWorker: Installation['startWorker'] = async (extra = {}) => {
    const worker = start('main/worker.js', [], { env: { ...env, ...extra } });
    processes.push(worker);
    workersStarted.push(worker);
    await until(() => worker.output().includes('worker started') || worker.hasExited(), {
      timeoutMs: 120_000,
      message: () => `a worker starts:\n${worker.output()}`,
    });
    return worker;
  };
  const stop = async (all: readonly TestProcess[]) => {
    const left = all.filter((process) => !process.hasExited());
    for (const process of left) {
      // One that was stopped takes no other signal.
      process.kill('SIGCONT');
      process.kill('SIGTERM');
    }
    await Promise.all(left.map((process) => process.waitForExit(40_000)));
  };

  const api = startApi();
  // One migrates for all; together they would only wait for each other. A clone of the template is migrated.
  if (own === null) await api;
  await Promise.all([api, ...Array.from({ length: workers }, () => startWorker())]);
  await pool.query(recordMoves);
  const teamOfKey = new Map<string, number>();
  const secrets = new Map([
    ['the secret access key', credentials.secretAccessKey],
    ['the access key id', credentials.accessKeyId],
    ['the encryption key', encryptionKey],
    ['the password of the database', new URL(databaseUrl).password],
  ]);
  const addTenant = async () => {
    const made = await createTenant(db);
    teamOfKey.set(made.key, made.projectIds[0]);
    secrets.set(`the API key of team ${made.projectIds[0]}`, made.key);
    return made;
  };
  const tenant = await addTenant();
  const { client, recording } = createRecordingClient(`http://127.0.0.1:${port}`, tenant.key);
  return {
    databaseUrl,
    pool,
    sql: poolSqlOf(pool),
    db,
    shop,
    s3,
    checksNamedKeys,
    redis,
    tenant,
    client,
    recording,
    teamOfKey,
    addTenant,
    env,
    secrets,
    workers: workersStarted,
    processes,
    startApi,
    startWorker,
    stopWorkers: () => stop(workersStarted),
    stopAll: () => stop(processes),
    async close() {
      await stop(processes).finally(async () => {
        const violations = await findNamedKeyViolations({ checksNamedKeys, s3 }).catch(
          (error: unknown) => [String(error)],
        );
        await db.close();
        await pool.end();
        await own?.drop();
        await planned.drop();
        await rm(folder, { recursive: true });
        await redis?.stop();
        await s3.close();
        if (violations.length > 0) throw new Error(violations.join('\n'));
      });
    },
  };
}

/** The queues that this machine can test; the Redis lane needs a `redis-server` of its own to hurt. */
export function testedQueues(): readonly QueueKind[] {
  return inject('redis').program === null ? ['postgres'] : ['postgres', 'redis'];
}

/** What the API has answered to whom, and what it has promised by a 2xx. */
interface Recording {
  readonly answers: readonly { readonly key: string | null; readonly text: string }[];
  /**
   * I6: asks again for each resource that was created, changed or deleted with a 2xx.
   *
   * @returns what is not as it was answered
   */
  findLostWrites(): Promise<readonly string[]>;
}

/** What a resource was last answered to be; null: it was deleted. */
type Known = Partial<WireBody> | null;

interface Promised {
  readonly client: ApiClient;
  known: Known;
  readonly backfillIds: string[];
}

/** Fields that only the client sets and changes. */
const settings = ['name', 'interval', 'start_at', 'end_at', 'dsl_query', 'timezone'] as const;

/** A client that remembers every answer, also those to the same service with another key. */
function createRecordingClient(
  baseUrl: string,
  key: string,
): { readonly client: ApiClient; readonly recording: Recording } {
  const answers: { key: string | null; text: string }[] = [];
  const promised = new Map<string, Promised>();

  const wrap = (inner: ApiClient, ofKey: string | null): ApiClient => {
    const keep = async (method: string, path: string, asked: Promise<ApiAnswer>) => {
      const answer = await asked;
      const headers = [...answer.headers].map(([name, value]) => `${name}: ${value}`);
      answers.push({ key: ofKey, text: [...headers, answer.text].join('\n') });
      if (answer.status >= 200 && answer.status < 300) note(inner, method, path, answer.body);
      return answer;
    };
    return {
      baseUrl,
      send: (method, path, request) => keep(method, path, inner.send(method, path, request)),
      get: (path, request) => keep('GET', path, inner.get(path, request)),
      post: (path, body, request) => keep('POST', path, inner.post(path, body, request)),
      patch: (path, body, request) => keep('PATCH', path, inner.patch(path, body, request)),
      put: (path, body, request) => keep('PUT', path, inner.put(path, body, request)),
      delete: (path, request) => keep('DELETE', path, inner.delete(path, request)),
      withKey: (other) => wrap(inner.withKey(other), other),
    };
  };

  const note = (client: ApiClient, method: string, path: string, body: WireBody) => {
    const match = /^(\/api\/.+\/batch_exports)(?:\/([0-9a-f-]{36}))?(?:\/(\w+))?\/?$/.exec(path);
    if (!match || method === 'GET') return;
    const [, list, id = body.id, verb] = match;
    const url = `${list}/${id}/`;
    const entry = promised.get(url) ?? { client, known: {}, backfillIds: [] };
    promised.set(url, entry);
    entry.known = method === 'DELETE' ? null : body;
    if (verb === 'backfill') entry.backfillIds.push(String(body.backfill_id));
  };

  const checkOne = async (url: string, { client, known, backfillIds }: Promised) => {
    const { status, body } = await client.get(url);
    if (known === null) return status === 404 ? [] : [`${url} was deleted and answers ${status}`];
    if (status !== 200) return [`${url} was written and answers ${status}`];
    const lost = settings
      .filter((name) => known[name] !== undefined && known[name] !== body[name])
      .map((name) => `${url}: ${name} was ${known[name]} and is ${body[name]}`);
    if (known.paused !== body.paused && body.paused_reason === null) {
      lost.push(`${url}: paused was ${known.paused} and is ${body.paused}`);
    }
    for (const id of backfillIds) {
      const answer = await client.get(`${url}backfills/${id}/`);
      if (answer.status !== 200) lost.push(`backfill ${id} answers ${answer.status}`);
    }
    return lost;
  };

  return {
    client: wrap(createApiClient(baseUrl, key), key),
    recording: {
      answers,
      async findLostWrites() {
        const lost: string[] = [];
        for (const [url, entry] of promised) lost.push(...(await checkOne(url, entry)));
        return lost;
      },
    },
  };
}
