import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import pg from 'pg';
import { startEmbeddedPostgres } from '../src/state/embedded-postgres/start.ts';
import { openDatabase } from '../src/state/store/database.ts';
import { createTenant } from '../test/support/tenants.ts';
import { describeMachine } from './datapath/report.ts';
import { replaceSection } from './document.ts';
import { createBareRuns } from './runs/bare-work.ts';
import { type KindTaken, measureKind } from './runs/measure.ts';
import { printRuns, type QueueTaken } from './runs/report.ts';
import { measureAlone } from './runs/service-times.ts';
import { printSizes } from './runs/sizes.ts';
import { backfill, createExports } from './service/calls.ts';
import { Processes, postmasterOf, s3Credentials } from './service/processes.ts';

/**
 * What small runs cost: one worker process beside an API, Postgres, Redis and an S3 of its own process, all on
 * this machine. Backfills of empty intervals to NoOp, and of 100 rows each to S3 as gzipped JSON Lines with a
 * manifest, on both queues; each beside a bare loop of what no exporter can leave out.
 *
 *   npm run bench:runs -- [--runs 2400] [--exports 4] [--places 48] [--queue postgres|redis|both]
 *                         [--only empty|rows] [--statements] [--sizes] [--write]
 *
 * --statements also prints what the database took for each statement, --sizes what the runs left in its tables, --write
 * puts the table into docs/benchmarks.md.
 */
const { values } = parseArgs({
  options: {
    runs: { type: 'string', default: '2400' },
    exports: { type: 'string', default: '4' },
    places: { type: 'string', default: '48' },
    queue: { type: 'string', default: 'both' },
    only: { type: 'string', default: '' },
    statements: { type: 'boolean', default: false },
    sizes: { type: 'boolean', default: false },
    write: { type: 'boolean', default: false },
  },
});
const exportsPerKind = Number(values.exports);
const places = Number(values.places);
const hours = Math.ceil(Number(values.runs) / exportsPerKind);
/** Enough for connections, prepared statements and the code to be warm. */
const warmHours = Math.ceil(120 / exportsPerKind);
const rowsPerRun = 100;
const aloneHours = 60;
const hourMs = 3_600_000;
const start = Date.parse('2024-03-01T00:00:00Z');
const rangeOf = (from: number, to: number) => ({
  start_at: new Date(start + from * hourMs).toISOString(),
  end_at: new Date(start + to * hourMs).toISOString(),
});
const kinds = [
  { kind: 'empty', toS3: false },
  { kind: 'rows', toS3: true },
] as const;

const queues = values.queue === 'both' ? (['postgres', 'redis'] as const) : [values.queue];
const taken: QueueTaken[] = [];
for (const queue of queues) taken.push(await measureQueue(queue));
const about = `${hours * exportsPerKind} runs of each kind by ${exportsPerKind} exports, ${places} places for small runs; ${describeMachine()}`;
const table = printRuns(about, taken);
process.stdout.write(`\n${table}\n`);
if (values.statements) {
  for (const { queue, ...of } of taken) {
    for (const { kind } of kinds) {
      const costly = of[kind]?.costly;
      if (costly)
        process.stdout.write(
          `\n${kind}, queue in ${queue}: calls, ms to plan and to execute, per run\n${costly}\n`,
        );
    }
  }
}
if (values.write) await replaceSection('runs', table);

async function measureQueue(queue: string): Promise<QueueTaken> {
  const processes = new Processes();
  const dataDir = await mkdtemp(path.join(tmpdir(), 'sluice-bench-'));
  const settings = {
    shared_preload_libraries: 'pg_stat_statements',
    'pg_stat_statements.track_planning': 'on',
    max_connections: '200',
  };
  const postgres = await startEmbeddedPostgres({ dataDir, settings });
  const pool = new pg.Pool({ connectionString: postgres.url, max: 3 });
  // `end` does not wait for the sockets, which see the server stop.
  pool.on('error', () => {});
  try {
    await pool.query('create extension pg_stat_statements');
    await pool.query(createBareRuns);
    const redis = queue === 'redis' ? await processes.startRedis() : null;
    const s3 = await processes.startS3();
    const env = {
      ...process.env,
      DATABASE_URL: postgres.url,
      REDIS_URL: redis?.url ?? '',
      ENCRYPTION_KEYS: `bench:${randomBytes(32).toString('base64')}`,
      LOG_LEVEL: 'error',
      PORT: '0',
      RATE_LIMIT_PER_MINUTE: '1000000',
      RATE_LIMIT_PER_HOUR: '10000000',
      ALLOWED_PRIVATE_ENDPOINTS: '127.0.0.1',
      // As many at a time as the bare loop.
      WORKER_SMALL_RUNS: String(places),
      WORKER_MEMORY_MB: '2048',
      MAX_RUNS_PER_TENANT: '1000',
    };
    const api = await processes.start('main/api.js', [], env, /^ready (http\S+)/m);
    const worker = await processes.start('main/worker.js', [], env, /^ready worker/m);
    const bareOptions = [
      postgres.url,
      s3.endpoint,
      s3Credentials.id,
      s3Credentials.secret,
      String(places),
      redis?.url ?? '',
    ];
    const bare = await processes.start(
      'bench/bench/runs/bare-loop.js',
      bareOptions,
      process.env,
      /^ready/m,
      true,
    );
    const db = openDatabase({
      connectionString: postgres.url,
      applicationName: 'bench',
      maxConnections: 2,
      onError: () => {},
    });
    const { key, projectIds } = await createTenant(db);
    await db.close();
    const [team] = projectIds;
    const service = { pool, api: `${api.named}/api/projects/${team}/batch_exports/`, key };
    const watched = {
      worker: worker.child.pid ?? 0,
      postgres: await postmasterOf(pool),
      redis: redis?.child.pid ?? 0,
      s3: s3.child.pid ?? 0,
    };
    // Three times as many wait in the queue: it is never empty.
    const concurrency = Math.ceil((4 * places) / exportsPerKind);
    const results: Partial<Record<'empty' | 'rows', KindTaken>> = {};
    let aloneMs = Number.NaN;
    for (const { kind, toS3 } of kinds) {
      if (values.only !== '' && values.only !== kind) continue;
      if (toS3) await fillEvents(pool, team);
      const exportIds = await createExports(
        service,
        exportsPerKind,
        destinationOf(toS3, s3.endpoint),
      );
      const warmRange = rangeOf(-warmHours, 0);
      await backfill(service, exportIds, warmRange, concurrency);
      const ids = Array.from({ length: Math.min(1_000, hours * exportsPerKind) }, (_, id) => id);
      const of = await measureKind({
        service,
        exportIds,
        range: rangeOf(0, hours),
        concurrency,
        watched,
        bare: bare.child,
        bareWork: { ids, start, team, toS3, hours },
      });
      results[kind] = of;
      process.stdout.write(`${describe(kind, queue, of)}\n`);
      const [first = ''] = exportIds;
      const after = rangeOf(hours, hours + aloneHours);
      if (!toS3) aloneMs = await measureAlone(service, first, after);
    }
    if (values.sizes) process.stdout.write(`\nqueue in ${queue}\n\n${await printSizes(pool)}\n`);
    return { queue, aloneMs, ...results };
  } finally {
    await processes.endAll();
    await pool.end();
    await postgres.stop();
    await rm(dataDir, { recursive: true, force: true });
  }
}

/** A line as soon as it is there: the table comes last. */
function describe(
  kind: string,
  queue: string,
  { runsPerSecond, cpu, ratio, bare, bareJobsPerSecond }: KindTaken,
): string {
  const ms = Object.entries(cpu).map(([name, each]) => `${name} ${each.toFixed(1)}`);
  return `${kind}, queue in ${queue}: ${runsPerSecond.toFixed(1)} runs/s, CPU ms ${ms.join(', ')}, ratio ${ratio.toFixed(2)}, of a bare job ${(bare.runsPerSecond / bareJobsPerSecond).toFixed(2)}`;
}

function destinationOf(toS3: boolean, endpoint: string) {
  if (!toS3) return { type: 'NoOp', config: {} };
  return {
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
}

/** Rows for all hours, also those that warm up. */
async function fillEvents(pool: pg.Pool, team: number): Promise<void> {
  await pool.query(
    `insert into events (uuid, team_id, event, distinct_id, properties, timestamp, created_at, inserted_at)
     select gen_random_uuid(), $1, 'event', 'user ' || n % 97, jsonb_build_object('n', n), at, at, at
       from generate_series(0, $2::bigint - 1) n, lateral (select $3::timestamptz + n * $4 * interval '1 ms' as at) t`,
    [team, (hours + warmHours) * rowsPerRun, rangeOf(-warmHours, 0).start_at, hourMs / rowsPerRun],
  );
  await pool.query('vacuum analyze events');
}
