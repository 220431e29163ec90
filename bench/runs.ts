import { randomBytes } from 'node:crypto';
import { parseArgs } from 'node:util';
import pg from 'pg';
import { openDatabase } from '../src/state/store/database/database.ts';
import { createTenant } from '../test/support/tenants.ts';
import { describeMachine } from './datapath/report.ts';
import { lineOf, replaceLines } from './document.ts';
import { createBareRuns } from './runs/bare-work.ts';
import { type KindTaken, measureKind } from './runs/measure.ts';
import { headOf, type Kind, printRuns, type ShapeTaken } from './runs/report.ts';
import { measureAlone } from './runs/service-times.ts';
import { printSizes } from './runs/sizes.ts';
import { createExports, type Tenant } from './service/calls.ts';
import { Processes, s3Credentials } from './service/processes.ts';
import { startServer } from './service/server.ts';
import { nameOf, parseShape, type Shape, startService } from './service/shape.ts';

/**
 * What small runs cost, in the shapes in which users run Sluice: PostgreSQL with its defaults, one API and one worker (or one
 * process that is both), Redis if the queue is there, and an S3 of its own process, all on this machine. Backfills of empty
 * intervals to NoOp, and of 100 rows each to S3 as gzipped JSON Lines with a manifest; each beside a bare loop of what no
 * exporter can leave out. Each kind by a worker that has just started (cold), then twice as many runs of the same exports (warm).
 *
 *   npm run bench:runs -- [--postgres 15,18] [--shape all-in-one,processes] [--organizations 50] [--exports 100] [--runs 1000]
 *                         [--concurrency n] [--places n] [--only empty|rows] [--statements] [--sizes] [--write]
 *
 * --exports are all, of all organizations. --concurrency is that of each backfill, and --places are those of a worker for
 * small runs; without them the installation uses its defaults. --statements also prints what the database took for each
 * statement, --sizes what the runs left in its tables, --write puts the lines into docs/internals/benchmarks.md.
 */
const { values } = parseArgs({
  options: {
    organizations: { type: 'string', default: '50' },
    exports: { type: 'string', default: '100' },
    runs: { type: 'string', default: '1000' },
    concurrency: { type: 'string' },
    places: { type: 'string' },
    postgres: { type: 'string', default: '15,18' },
    shape: { type: 'string', default: 'all-in-one,processes' },
    only: { type: 'string', default: '' },
    statements: { type: 'boolean', default: false },
    sizes: { type: 'boolean', default: false },
    write: { type: 'boolean', default: false },
  },
});
const organizations = Number(values.organizations);
const exportCount = Number(values.exports);
const hours = Math.ceil(Number(values.runs) / exportCount);
const allHours = 3 * hours;
/** Runs at a time of the bare loop: the default of a worker. */
const barePlaces = values.places ?? '24';
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

const setting = values.places === undefined ? 'default settings' : `${values.places} small runs`;
const sizes = `${hours * exportCount} cold and ${2 * hours * exportCount} warm runs of each kind, ${exportCount} exports of ${organizations} organizations, ${setting}; ${describeMachine()}`;
for (const shape of values.shape.split(',').map(parseShape)) {
  for (const major of values.postgres.split(',')) {
    const taken = await measureShape(shape, major);
    const installation = nameOf(shape, major);
    const of = { server: [`- ${taken.server}; ${sizes}`], ...printRuns(installation, taken) };
    process.stdout.write(`\n${of.server.join('')}\n`);
    for (const table of ['runs', 'loops'] as const) {
      process.stdout.write(`\n${[lineOf(headOf[table]), ...of[table]].join('\n')}\n`);
      if (values.write) await replaceLines(table, `| ${installation} |`, of[table]);
    }
    if (values.statements) printCostly(taken);
    if (values.write) await replaceLines('runs', `- PostgreSQL ${major}`, of.server);
  }
}

function printCostly(taken: ShapeTaken): void {
  for (const { kind } of kinds) {
    for (const time of ['cold', 'warm'] as const) {
      const costly = taken[kind]?.[time].costly;
      const what = `${kind}, ${time}: calls, ms to plan and to execute, per run`;
      if (costly) process.stdout.write(`\n${what}\n${costly}\n`);
    }
  }
}

async function measureShape(shape: Shape, major: string): Promise<ShapeTaken> {
  const processes = new Processes();
  const postgres = await startServer(major);
  const pool = new pg.Pool({ connectionString: postgres.adminUrl, max: 3 });
  // `end` does not wait for the sockets, which see the server stop.
  pool.on('error', () => {});
  try {
    await pool.query('create extension pg_stat_statements');
    await pool.query(createBareRuns);
    const redis = shape === 'processes' ? await processes.startRedis() : null;
    const s3 = await processes.startS3();
    const env = serviceEnv(postgres.url, redis?.url ?? '');
    const service = await startService(processes, shape, env);
    const bareOptions = [
      ...[postgres.adminUrl, s3.endpoint, s3Credentials.id, s3Credentials.secret],
      ...[barePlaces, redis?.url ?? ''],
    ];
    const bare = await processes.start(
      'bench/bench/runs/bare-loop.js',
      bareOptions,
      process.env,
      /^ready/m,
      true,
    );
    const tenants = await makeTenants(postgres.url, service.api);
    await fillEvents(pool, tenants);
    const results: Partial<Record<Kind, KindTaken>> = {};
    let aloneMs = Number.NaN;
    for (const { kind, toS3 } of kinds) {
      if (values.only !== '' && values.only !== kind) continue;
      const range = toS3 ? 0 : -allHours;
      const made = await createExports(tenants, exportCount, destinationOf(toS3, s3.endpoint));
      await service.renewWorker();
      const ids = Array.from({ length: Math.min(1_000, hours * exportCount) }, (_, id) => id);
      const of = await measureKind({
        ...{ pool, exports: made, bare: bare.child },
        cold: rangeOf(range, range + hours),
        warm: rangeOf(range + hours, range + allHours),
        concurrency: values.concurrency === undefined ? null : Number(values.concurrency),
        watched: {
          ...service.pids(),
          postgres: postgres.pid,
          redis: redis?.child.pid ?? 0,
          s3: s3.child.pid ?? 0,
        },
        countRequests: () => countRequests(s3.control),
        bareWork: {
          ...{ ids, toS3, hours: allHours, start: start + range * hourMs },
          teams: tenants.map(({ team }) => team),
        },
      });
      results[kind] = of;
      process.stdout.write(describe(kind, `${shape}, ${postgres.about}`, of));
      const [first] = made;
      const after = rangeOf(-allHours - aloneHours, -allHours);
      if (!toS3 && first) aloneMs = await measureAlone(pool, first, after);
    }
    if (values.sizes) process.stdout.write(`\n${shape}\n\n${await printSizes(pool)}\n`);
    return { shape, server: postgres.about, aloneMs, ...results };
  } finally {
    await processes.endAll();
    await pool.end();
    await postgres.stop();
  }
}

/** The default settings, but for what only the benchmark needs. */
function serviceEnv(url: string, redisUrl: string): NodeJS.ProcessEnv {
  return {
    ...process.env,
    DATABASE_URL: url,
    REDIS_URL: redisUrl,
    ENCRYPTION_KEYS: `bench:${randomBytes(32).toString('base64')}`,
    LOG_LEVEL: 'error',
    RATE_LIMIT_PER_MINUTE: '1000000',
    ALLOWED_PRIVATE_ENDPOINTS: '127.0.0.1',
    ...(values.places !== undefined && {
      WORKER_SMALL_RUNS: values.places,
      WORKER_MEMORY_MB: '2048',
      MAX_RUNS_PER_TENANT: '1000',
    }),
  };
}

async function makeTenants(url: string, api: string): Promise<readonly Tenant[]> {
  const db = openDatabase({
    connectionString: url,
    applicationName: 'bench',
    maxConnections: 2,
    onError: () => {},
  });
  const made: Tenant[] = [];
  for (let n = 0; n < organizations; n += 1) {
    const { key, projectIds } = await createTenant(db);
    const [team] = projectIds;
    made.push({ team, key, exports: `${api}/api/projects/${team}/batch_exports/` });
  }
  await db.close();
  return made;
}

async function countRequests(control: string): Promise<number> {
  const answer = await fetch(`${control}/requests`);
  return ((await answer.json()) as readonly unknown[]).length;
}

/** A line as soon as it is there: the table comes last. */
function describe(kind: string, where: string, { cold, warm, ...of }: KindTaken): string {
  const lines = Object.entries({ cold, warm }).map(([time, taken]) => {
    const ms = Object.entries(taken.cpu).map(([name, each]) => `${name} ${each.toFixed(1)}`);
    return `${kind}, ${time}, ${where}: ${taken.runsPerSecond.toFixed(1)} runs/s, ${taken.statements.toFixed(1)} statements, ${taken.requests.toFixed(1)} requests, CPU ms ${ms.join(', ')}, claim to end ${taken.p50.toFixed(0)} ms, idle ${(100 * taken.idle).toFixed(0)}%\n`;
  });
  return `${lines.join('')}${kind}, warm: ratio ${of.ratio.toFixed(2)}, of a bare job ${(of.bare.runsPerSecond / of.bareJobsPerSecond).toFixed(2)}\n`;
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

/** Rows for the hours of the runs with rows. */
async function fillEvents(pool: pg.Pool, tenants: readonly Tenant[]): Promise<void> {
  await pool.query(
    `insert into events (uuid, team_id, event, distinct_id, properties, timestamp, created_at, inserted_at)
     select gen_random_uuid(), team, 'event', 'user ' || n % 97, jsonb_build_object('n', n), at, at, at
       from unnest($1::int[]) team, generate_series(0, $2::bigint - 1) n,
            lateral (select $3::timestamptz + n * $4 * interval '1 ms' as at) t`,
    [
      tenants.map(({ team }) => team),
      allHours * rowsPerRun,
      rangeOf(0, 0).start_at,
      hourMs / rowsPerRun,
    ],
  );
  await pool.query('vacuum analyze events');
}
