import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { Console } from 'node:console';
import { randomBytes } from 'node:crypto';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { availableParallelism, tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import pg from 'pg';
import { startEmbeddedPostgres } from '../src/embedded-postgres/start.ts';
import { createTenant } from '../test/support/tenants.ts';
import { openDatabase } from '../src/store/database.ts';

/**
 * What small runs cost: one worker process beside an API, Postgres, Redis and an S3 of its own process, all on
 * this machine. Backfills of empty intervals to NoOp, and of 100 rows each to S3 as gzipped JSON Lines with a
 * manifest, on both queues.
 *
 *   npm run bench:runs -- [--runs 600] [--exports 6] [--concurrency 4] [--queue postgres|redis|both]
 */
const { values } = parseArgs({
  options: {
    runs: { type: 'string', default: '600' },
    exports: { type: 'string', default: '6' },
    concurrency: { type: 'string', default: '4' },
    queue: { type: 'string', default: 'both' },
  },
});
const exportsPerKind = Number(values.exports);
const hours = Math.ceil(Number(values.runs) / exportsPerKind);
const rowsPerRun = 100;
const hourMs = 3_600_000;
const start = Date.parse('2024-03-01T00:00:00Z');
const range = {
  start_at: new Date(start).toISOString(),
  end_at: new Date(start + hours * hourMs).toISOString(),
};
const credentials = { id: 'AKIABENCH0000000001', secret: 'bench-secret' };
const ticksPerSecond = Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }));
const build = path.resolve(import.meta.dirname, '../..');

const out = new Console(process.stdout);
out.log(
  `${availableParallelism()} cores, Node ${process.version}, ${hours} hours × ${exportsPerKind} exports`,
);
const queues = values.queue === 'both' ? (['postgres', 'redis'] as const) : [values.queue];
for (const queue of queues) out.table(await measureQueue(queue));

async function measureQueue(queue: string) {
  const children: ChildProcess[] = [];
  const dataDir = await mkdtemp(path.join(tmpdir(), 'sluice-bench-'));
  const settings = { shared_preload_libraries: 'pg_stat_statements', max_connections: '200' };
  const postgres = await startEmbeddedPostgres({ dataDir, settings });
  const pool = new pg.Pool({ connectionString: postgres.url, max: 3 });
  try {
    await pool.query('create extension pg_stat_statements');
    const redis = queue === 'redis' ? await startRedis(children) : null;
    const s3 = await startS3(children);
    const env = {
      ...process.env,
      DATABASE_URL: postgres.url,
      REDIS_URL: redis ?? '',
      ENCRYPTION_KEYS: `bench:${randomBytes(32).toString('base64')}`,
      LOG_LEVEL: 'warn',
      PORT: '0',
      RATE_LIMIT_PER_MINUTE: '1000000',
      RATE_LIMIT_PER_HOUR: '10000000',
      ALLOWED_PRIVATE_ENDPOINTS: '127.0.0.1',
      WORKER_CONCURRENCY: '16',
      MAX_RUNS_PER_TENANT: '100',
    };
    const [url] = await startProcess(children, 'main/api.js', [], env, /^ready (http\S+)/m);
    const [, worker] = await startProcess(children, 'main/worker.js', [], env, /^ready worker/m);
    const db = openDatabase({
      connectionString: postgres.url,
      applicationName: 'bench',
      maxConnections: 2,
      onError: () => {},
    });
    const { key, projectIds } = await createTenant(db);
    await db.close();
    const api = `${url}/api/projects/${projectIds[0]}/batch_exports/`;
    const measure = { pool, worker, api, key };
    const noOp = { type: 'NoOp', config: {} };
    const toS3 = {
      type: 'S3',
      config: {
        bucket_name: 'exports',
        region: 'us-east-1',
        prefix: '{batch_export_id}/',
        endpoint_url: s3,
        aws_access_key_id: credentials.id,
        aws_secret_access_key: credentials.secret,
        file_format: 'JSONLines',
        compression: 'gzip',
      },
    };
    const empty = await measureKind(measure, noOp);
    await fillEvents(pool, projectIds[0]);
    const rows = await measureKind(measure, toS3);
    return {
      [`empty to NoOp, queue in ${queue}`]: empty,
      [`${rowsPerRun} rows to S3, queue in ${queue}`]: rows,
    };
  } finally {
    for (const child of children.toReversed()) await end(child);
    await pool.end();
    await postgres.stop();
    await rm(dataDir, { recursive: true, force: true });
  }
}

async function fillEvents(pool: pg.Pool, team: number): Promise<void> {
  await pool.query(
    `insert into events (uuid, team_id, event, distinct_id, properties, timestamp, created_at, inserted_at)
     select gen_random_uuid(), $1, 'event', 'user ' || n % 97, jsonb_build_object('n', n), at, at, at
       from generate_series(0, $2::int - 1) n, lateral (select $3::timestamptz + n * $4 * interval '1 ms' as at) t`,
    [team, hours * rowsPerRun, range.start_at, hourMs / rowsPerRun],
  );
  await pool.query('vacuum analyze events');
}

interface Measured {
  readonly pool: pg.Pool;
  readonly worker: ChildProcess;
  readonly api: string;
  readonly key: string;
}

/** Backfills all exports at once; a first one of each warms up connections, plans and the store. */
async function measureKind({ pool, worker, api, key }: Measured, destination: object) {
  const post = async (url: string, body: object) => {
    const answer = await fetch(url, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    if (!answer.ok) throw new Error(`${url}: ${answer.status} ${await answer.text()}`);
    return (await answer.json()) as { id: string };
  };
  const ids: string[] = [];
  for (let n = 0; n < exportsPerKind; n += 1) {
    const made = {
      name: `Export ${n}`,
      interval: 'hour',
      end_at: '2030-01-01T00:00:00Z',
      destination,
    };
    ids.push((await post(api, made)).id);
  }
  const backfillAll = async (wanted: object) => {
    const concurrency = Number(values.concurrency);
    for (const id of ids) await post(`${api}${id}/backfill/`, { ...wanted, concurrency });
    for (let left = 1; left > 0; await sleep(50)) {
      const { rows } = await pool.query<{ left: number }>(
        `select count(*)::int as left from backfills where status = 'Running'`,
      );
      left = rows[0]?.left ?? 0;
    }
  };
  await backfillAll({ ...range, end_at: new Date(start + 2 * hourMs).toISOString() });
  await pool.query('select pg_stat_statements_reset()');
  const cpuBefore = await cpuSeconds(worker);
  const began = performance.now();
  await backfillAll(range);
  const seconds = (performance.now() - began) / 1_000;
  const cpu = (await cpuSeconds(worker)) - cpuBefore;
  const { rows } = await pool.query<Record<string, number>>(
    `select count(*)::int as runs, (count(*) filter (where status <> 'Completed'))::int as others,
            percentile_cont(0.5) within group (order by extract(epoch from finished_at - started_at) * 1000) as p50,
            percentile_cont(0.99) within group (order by extract(epoch from finished_at - started_at) * 1000) as p99,
            (select sum(calls)::int from pg_stat_statements where query !~ 'pg_stat_statements') as calls
       from runs where export_id = any ($1) and created_at > now() - $2 * interval '1 s'`,
    [ids, seconds + 1],
  );
  const { runs = 0, others = 0, p50 = 0, p99 = 0, calls = 0 } = rows[0] ?? {};
  if (others > 0) throw new Error(`${others} runs are not completed`);
  return {
    runs,
    'runs/s': round(runs / seconds),
    'worker CPU ms/run': round((cpu * 1_000) / runs),
    // All that Postgres is asked: our tables, the source, ticks, and the queue if it is there.
    'statements/run': round(calls / runs),
    'claim to end p50 ms': round(p50),
    'p99 ms': round(p99),
  };
}

async function startS3(children: ChildProcess[]): Promise<string> {
  const [endpoint = ''] = await startProcess(
    children,
    'bench/test/support/s3-server/main.js',
    [
      '--bucket=exports',
      `--access-key-id=${credentials.id}`,
      `--secret-access-key=${credentials.secret}`,
      '--region=us-east-1',
    ],
    process.env,
    /"endpoint":"([^"]+)"/,
  );
  return endpoint;
}

async function startRedis(children: ChildProcess[]): Promise<string> {
  const port = await new Promise<number>((found) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() => found(typeof address === 'object' ? (address?.port ?? 0) : 0));
    });
  });
  const options = ['--save', '', '--bind', '127.0.0.1', '--maxmemory-policy', 'noeviction'];
  const child = spawn('redis-server', ['--port', String(port), ...options], { stdio: 'ignore' });
  children.push(child);
  return `redis://127.0.0.1:${port}`;
}

async function startProcess(
  children: ChildProcess[],
  program: string,
  options: readonly string[],
  env: NodeJS.ProcessEnv,
  ready: RegExp,
): Promise<[string, ChildProcess]> {
  const file = path.join(build, program);
  const child = spawn(process.execPath, [file, ...options], {
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  children.push(child);
  let output = '';
  for await (const chunk of child.stdout.iterator({ destroyOnReturn: false })) {
    output += String(chunk);
    const match = ready.exec(output);
    if (!match) continue;
    child.stdout.resume();
    return [match[1] ?? '', child];
  }
  throw new Error(`${program} ended: ${output}`);
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null) return;
  const ended = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGTERM');
  await ended;
}

/** CPU time of a process so far. Linux only. */
async function cpuSeconds({ pid }: ChildProcess): Promise<number> {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8');
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) / ticksPerSecond;
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
