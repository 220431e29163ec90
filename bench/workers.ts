import type { ChildProcess } from 'node:child_process';
import { Console } from 'node:console';
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { availableParallelism, tmpdir } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import pg from 'pg';
import { startEmbeddedPostgres } from '../src/state/embedded-postgres/start.ts';
import { openDatabase } from '../src/state/store/database/database.ts';
import { createTenant } from '../test/support/tenants.ts';
import { post, untilBackfilled } from './service/calls.ts';
import { cpuSeconds, end, Processes, postmasterOf, s3Credentials } from './service/processes.ts';

/**
 * Throughput by the number of worker processes: small runs of several organizations to an S3 that takes its
 * time for every request. Each worker has few slots, so that waiting is the limit and not this machine's cores.
 * Ends by itself in less than four minutes.
 *
 *   npm run bench:workers -- [--workers 1,2,4,8] [--slots 1] [--runs 24] [--delay 50] [--queue redis|postgres]
 */
const { values } = parseArgs({
  options: {
    workers: { type: 'string', default: '1,2,4,8' },
    slots: { type: 'string', default: '1' },
    /** For each worker. */
    runs: { type: 'string', default: '24' },
    /** Milliseconds that each answer of the store waits. */
    delay: { type: 'string', default: '50' },
    queue: { type: 'string', default: 'redis' },
  },
});
const hourMs = 3_600_000;
const begin = Date.parse('2024-03-01T00:00:00Z');
const rowsPerRun = 10;
/** Of four or more slots one is always left to other organizations. */
const organizations = 8;
const stages = values.workers.split(',').map(Number);
/** Hours that each organization exports in each stage; the first hours warm up. */
const hoursOf = (workers: number) => Math.ceil((workers * Number(values.runs)) / organizations);
const warmUpHours = 1;
/** No stage begins later, in milliseconds since the start: all of it ends within four minutes. */
const lastStartMs = 150_000;

const out = new Console(process.stdout);
const dataDir = await mkdtemp(path.join(tmpdir(), 'sluice-bench-'));
const postgres = await startEmbeddedPostgres({ dataDir, settings: { max_connections: '300' } });
const pool = new pg.Pool({ connectionString: postgres.url, max: 3 });
const processes = new Processes();
try {
  const redis = values.queue === 'redis' ? await processes.startRedis() : null;
  const endpoint = await startSlowStore();
  const postmaster = await postmasterOf(pool);
  const env = {
    ...process.env,
    DATABASE_URL: postgres.url,
    REDIS_URL: redis?.url ?? '',
    ENCRYPTION_KEYS: `bench:${randomBytes(32).toString('base64')}`,
    LOG_LEVEL: 'error',
    PORT: '0',
    RATE_LIMIT_PER_MINUTE: '1000000',
    ALLOWED_PRIVATE_ENDPOINTS: '127.0.0.1',
    WORKER_CONCURRENCY: values.slots,
    // Small runs wait for slots too: how many wait at a time is what is varied.
    WORKER_SMALL_RUNS: '0',
    DATABASE_POOL_SIZE: '8',
    BACKFILL_CONCURRENCY: '99',
    MAX_RUNS_PER_TENANT: '100',
  };
  const { named: api } = await processes.start('main/api.js', [], env, /^ready (http\S+)/m);
  const exports = await makeExports(api, endpoint);
  const table: Record<string, object> = {};
  let hour = 0;
  let single = 0;
  for (const workers of stages) {
    // On a busy machine the largest numbers are left out.
    if (performance.now() > lastStartMs) break;
    const started = await Promise.all(
      Array.from({ length: workers }, () =>
        processes.start('main/worker.js', [], env, /^ready worker/m),
      ),
    );
    await measure(exports, hour, warmUpHours);
    hour += warmUpHours;
    const cpuBefore = await cpuSecondsOf(started);
    const serverBefore = await cpuSeconds(postmaster);
    const { seconds, runs, ...more } = await measure(exports, hour, hoursOf(workers));
    hour += hoursOf(workers);
    const cpu = (await cpuSecondsOf(started)) - cpuBefore;
    const serverCpu = (await cpuSeconds(postmaster)) - serverBefore;
    const perSecond = runs / seconds;
    if (single === 0) single = perSecond / workers;
    table[`${workers}`] = {
      slots: workers * Number(values.slots),
      runs,
      'runs/s': round(perSecond),
      'times 1 worker': round(perSecond / single),
      'workers, cores': round(cpu / seconds),
      'Postgres, cores': round(serverCpu / seconds),
      ...more,
    };
    // Also if the rest is given up.
    out.log(JSON.stringify({ workers, ...table[`${workers}`] }));
    await Promise.all(started.map(({ child }) => end(child)));
  }
  out.log(
    `${availableParallelism()} cores, Node ${process.version}, queue in ${values.queue}, ${values.slots} slots per worker, ${values.delay} ms a request`,
  );
  out.table(table);
  out.log('What the tables are after that; HOT: updates that touched no index');
  out.table(await readTables());
} finally {
  await processes.endAll();
  await pool.end();
  await postgres.stop();
  await rm(dataDir, { recursive: true, force: true });
}

async function cpuSecondsOf(workers: readonly { readonly child: ChildProcess }[]): Promise<number> {
  const each = await Promise.all(workers.map(({ child }) => cpuSeconds(child.pid ?? 0)));
  return each.reduce((sum, seconds) => sum + seconds, 0);
}

/** Of the tables that runs write: rows, updates, and pages beside those that the rows need. */
async function readTables(): Promise<Record<string, object>> {
  const { rows } = await pool.query<{
    name: string;
    rows: number;
    updates: number;
    hot: number;
    kib: number;
  }>(
    `select relname as name, n_live_tup::int as rows, n_tup_upd::int as updates, n_tup_hot_upd::int as hot,
            (pg_total_relation_size(relid) / 1024)::int as kib
       from pg_stat_user_tables
      where relname in ('runs', 'batch_exports', 'backfills', 'outbox', 'receipts', 'upload_places', 'workers')
      order by relname`,
  );
  return Object.fromEntries(
    rows.map(({ name, rows: live, updates, hot, kib }) => [
      name,
      { rows: live, updates, 'HOT share': round(hot / Math.max(1, updates)), KiB: kib },
    ]),
  );
}

interface MadeExport {
  readonly url: string;
  readonly key: string;
}

async function startSlowStore(): Promise<string> {
  const { endpoint, control } = await processes.startS3();
  const slow = { match: {}, times: null, effect: { delayMs: Number(values.delay) } };
  const answer = await fetch(`${control}/faults`, { method: 'POST', body: JSON.stringify(slow) });
  if (!answer.ok) throw new Error(`the store did not slow down: ${answer.status}`);
  return endpoint;
}

/** One export of each of several organizations, whose table has rows in every hour that is measured. */
async function makeExports(api: string, endpoint: string): Promise<readonly MadeExport[]> {
  const db = openDatabase({
    connectionString: postgres.url,
    applicationName: 'bench',
    maxConnections: 2,
    onError: () => {},
  });
  const hours = stages.map((workers) => warmUpHours + hoursOf(workers));
  const allHours = hours.reduce((sum, each) => sum + each, 0);
  const made: MadeExport[] = [];
  for (let n = 0; n < organizations; n += 1) {
    const { key, projectIds } = await createTenant(db);
    await pool.query(
      `insert into events (uuid, team_id, event, distinct_id, properties, timestamp, created_at, inserted_at)
       select gen_random_uuid(), $1, 'event', 'user ' || n % 97, jsonb_build_object('n', n), at, at, at
         from generate_series(0, $2::int - 1) n, lateral (select $3::timestamptz + n * $4 * interval '1 ms' as at) t`,
      [projectIds[0], allHours * rowsPerRun, instant(0), hourMs / rowsPerRun],
    );
    const url = `${api}/api/projects/${projectIds[0]}/batch_exports/`;
    const destination = {
      type: 'S3',
      config: {
        bucket_name: 'exports',
        region: 'us-east-1',
        prefix: '{batch_export_id}/',
        endpoint_url: endpoint,
        aws_access_key_id: s3Credentials.id,
        aws_secret_access_key: s3Credentials.secret,
        file_format: 'JSONLines',
        compression: 'gzip',
      },
    };
    const wanted = {
      name: `Export ${n}`,
      interval: 'hour',
      end_at: '2024-12-31T00:00:00Z',
      destination,
    };
    const { id } = await post(key, url, wanted);
    made.push({ url: `${url}${id}/backfill/`, key });
  }
  await db.close();
  await pool.query('vacuum analyze events');
  return made;
}

/** Backfills the same hours of all exports at once. */
async function measure(exports: readonly MadeExport[], firstHour: number, hours: number) {
  const { rows: before } = await pool.query<{ now: string }>(
    'select clock_timestamp()::text as now',
  );
  const range = { start_at: instant(firstHour), end_at: instant(firstHour + hours) };
  for (const { key, url } of exports) await post(key, url, { ...range, concurrency: 100 });
  await untilBackfilled(pool);
  const { rows } = await pool.query<{
    runs: number;
    others: number;
    seconds: number;
    p50: number;
    connections: number;
  }>(
    `select count(*)::int as runs, (count(*) filter (where status <> 'Completed'))::int as others,
            extract(epoch from max(finished_at) - min(started_at))::float8 as seconds,
            percentile_cont(0.5) within group (order by extract(epoch from finished_at - started_at) * 1000) as p50,
            (select count(*)::int from pg_stat_activity where application_name like 'sluice-%') as connections
       from runs where created_at >= $1::timestamptz`,
    [before[0]?.now],
  );
  const { runs = 0, others = 0, seconds = 0, p50 = 0, connections = 0 } = rows[0] ?? {};
  if (others > 0) throw new Error(`${others} runs are not completed`);
  return { runs, seconds, 'claim to end p50 ms': round(p50), connections };
}

function instant(hour: number): string {
  return new Date(begin + hour * hourMs).toISOString();
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}
