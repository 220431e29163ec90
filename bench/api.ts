import { type ChildProcess, execFile, fork } from 'node:child_process';
import { Console } from 'node:console';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { availableParallelism, loadavg } from 'node:os';
import { fileURLToPath } from 'node:url';
import { parseArgs, promisify } from 'node:util';
import autocannon from 'autocannon';
import { buildApi } from '../src/service/api/build-api.ts';
import { openDatabase } from '../src/state/store/database/database.ts';
import { insertProject } from '../src/state/store/tenants/tenants.ts';
import { exportBody } from '../test/support/batch-export-bodies.ts';
import { createTenant } from '../test/support/tenants.ts';
import { testApiOptions } from '../test/support/test-api-options.ts';
import { boundless, type Scripts, type ServerOrder } from './api-server.ts';
import { recording } from './api-statements.ts';

/**
 * Requests a second of list, retrieve and create at 50 connections, beside a bare Fastify server
 * that sends Postgres the very statements that our API was seen to send, and answers with their
 * rows. Both are processes of their own with as many connections to Postgres, asked in turns; the
 * table shows medians. It makes a database on the server of `--database`, and drops it.
 *
 *   npm run bench:api -- --database postgres://… [--seconds 3] [--rounds 5] [--runs 10] [--only list]
 */
const { values } = parseArgs({
  options: {
    database: { type: 'string' },
    seconds: { type: 'string', default: '3' },
    rounds: { type: 'string', default: '5' },
    runs: { type: 'string', default: '10' },
    only: { type: 'string' },
  },
});
if (values.database === undefined) throw new Error('--database names the server to measure on');
const duration = Number(values.seconds);
const rounds = Number(values.rounds);
/** Creates go to so many projects, since one project has at most 1,000 exports by default. */
const creatingProjects = 100;
/** The minimum share of the bare server's requests per second. */
const bar = 0.8;

interface Server {
  readonly url: string;
  readonly process: ChildProcess;
}

async function start(order: ServerOrder): Promise<Server> {
  const child = fork(fileURLToPath(new URL('api-server.js', import.meta.url)), {
    serialization: 'advanced',
  });
  child.send(order);
  const [url] = await Promise.race([once(child, 'message'), failure(child)]);
  return { url, process: child };
}

async function failure(child: ChildProcess): Promise<never> {
  const [code] = await once(child, 'exit');
  throw new Error(`a server ended with ${code}`);
}

/** Milliseconds of CPU time so far. */
async function usageOf(server: Server): Promise<number> {
  server.process.send('usage');
  const [{ user, system }] = await once(server.process, 'message');
  return (user + system) / 1_000;
}

interface Target {
  readonly server: Server;
  /** Each connection requests them in turn, from another one on. */
  readonly paths: readonly string[];
  readonly method: 'GET' | 'POST';
}

async function measure({ server, paths, method }: Target, key: string, seconds: number) {
  const before = await usageOf(server);
  let clients = 0;
  const result = await autocannon({
    url: server.url,
    setupClient(client) {
      const first = clients % paths.length;
      clients += 1;
      client.setRequests(
        [...paths.slice(first), ...paths.slice(0, first)].map((path) => ({ path })),
      );
    },
    method,
    connections: 50,
    duration: seconds,
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    ...(method === 'POST' ? { body: JSON.stringify(exportBody()) } : {}),
  });
  if (result.non2xx + result.errors + result.timeouts > 0) {
    throw new Error(`${paths[0]}: ${result.non2xx} answers were not 2xx, ${result.errors} errors`);
  }
  const cpu = (await usageOf(server)) - before;
  return {
    perSecond: result.requests.total / result.duration,
    p99: result.latency.p99,
    cpuMs: cpu / result.requests.total,
  };
}

function median(figures: readonly number[]): number {
  return [...figures].sort((a, b) => a - b)[figures.length >> 1] ?? Number.NaN;
}

async function compare(ours: Target, bare: Target, key: string) {
  await measure(ours, key, 2);
  await measure(bare, key, 2);
  const seen: { ours: Measured; bare: Measured }[] = [];
  for (let round = 0; round < rounds; round += 1) {
    const first = await measure(ours, key, duration);
    seen.push({ ours: first, bare: await measure(bare, key, duration) });
  }
  const of = (side: 'ours' | 'bare', figure: keyof Measured) =>
    median(seen.map((round) => round[side][figure]));
  return {
    'ours /s': Math.round(of('ours', 'perSecond')),
    'bare /s': Math.round(of('bare', 'perSecond')),
    ratio: hundredths(median(seen.map((r) => r.ours.perSecond / r.bare.perSecond))),
    'ours p99 ms': of('ours', 'p99'),
    'bare p99 ms': of('bare', 'p99'),
    'ours CPU ms': hundredths(of('ours', 'cpuMs')),
    'bare CPU ms': hundredths(of('bare', 'cpuMs')),
    'CPU ratio': hundredths(of('bare', 'cpuMs') / of('ours', 'cpuMs')),
  };
}
type Measured = Awaited<ReturnType<typeof measure>>;

const hundredths = (figure: number): number => Math.round(figure * 100) / 100;

/** Fills the database, and sees what our API asks of it. */
async function prepare(databaseUrl: string) {
  const db = openDatabase({
    connectionString: databaseUrl,
    applicationName: 'bench-api',
    maxConnections: 5,
    onError: () => {},
  });
  const tenant = await createTenant(db);
  const [measured] = tenant.projectIds;
  const projects: number[] = [];
  while (projects.length < creatingProjects) {
    const { organizationId } = tenant;
    projects.push((await insertProject(db, { organizationId, name: 'Bench' })).id);
  }
  const seen = recording(db);
  const options = testApiOptions(seen.db, databaseUrl, { rateLimit: boundless });
  const api = await buildApi(options);
  const exportsOf = (project: number) => `/api/projects/${project}/batch_exports`;
  const ask = async (method: 'GET' | 'POST', url: string) => {
    seen.take();
    const headers = { authorization: `Bearer ${tenant.key}` };
    const payload = method === 'POST' ? { payload: exportBody() } : {};
    const answer = await api.inject({ method, url, headers, ...payload });
    if (answer.statusCode >= 300) throw new Error(`${method} ${url}: ${answer.body}`);
    return { script: seen.take(), id: String(answer.json().id) };
  };
  // The first requests reserve what later ones use: the statements of a later one are taken.
  let { id } = await ask('POST', exportsOf(measured));
  for (let n = 1; n < 20; n += 1) ({ id } = await ask('POST', exportsOf(measured)));
  await db.query(
    `insert into runs (export_id, team_id, status, data_interval_start, data_interval_end, finished_at)
     select e.id, e.team_id, 'Completed', now() - n * interval '1 hour', now() - (n - 1) * interval '1 hour', now()
       from batch_exports e, generate_series(1, $1::int) n`,
    [values.runs],
  );
  const list = `${exportsOf(measured)}?limit=10`;
  const one = `${exportsOf(measured)}/${id}`;
  const listed = await ask('GET', list);
  const retrieved = await ask('GET', one);
  // Not a small number, which may be the value of another parameter too.
  const createdIn = Math.max(...projects);
  const created = await ask('POST', exportsOf(createdIn));
  const scripts: Scripts = {
    list: listed.script,
    retrieve: retrieved.script,
    create: created.script,
    createdId: created.id,
    createdIn,
  };
  await db.query('vacuum analyze');
  await api.close();
  await db.close();
  return { key: tenant.key, scripts, list, one, projects, create: projects.map(exportsOf) };
}

async function asAdmin(statement: string): Promise<void> {
  const admin = openDatabase({
    connectionString: values.database ?? '',
    applicationName: 'bench-api',
    maxConnections: 1,
    onError: () => {},
  });
  await admin.query(statement).finally(() => admin.close());
}

const name = `bench_api_${randomBytes(4).toString('hex')}`;
await asAdmin(`create database ${name}`);
const servers: Server[] = [];
try {
  const url = new URL(values.database);
  url.pathname = `/${name}`;
  const env = { ...process.env, DATABASE_URL: url.href };
  await promisify(execFile)(process.execPath, ['dist/clients/cli/sluice.js', 'migrate'], { env });
  const { key, scripts, list, one, projects, create } = await prepare(url.href);
  const ours = await start({ databaseUrl: url.href, bare: null });
  servers.push(ours);
  const bare = await start({ databaseUrl: url.href, bare: scripts });
  servers.push(bare);
  const out = new Console(process.stdout);
  const load = loadavg()[0]?.toFixed(2);
  out.log(`${availableParallelism()} cores, load average ${load}, Node ${process.version}`);
  const table: Record<string, Awaited<ReturnType<typeof compare>>> = {};
  for (const [route, method, paths, barePaths] of [
    ['list', 'GET', [list], ['/list']],
    ['retrieve', 'GET', [one], ['/retrieve']],
    ['create', 'POST', create, projects.map((project) => `/create/${project}`)],
  ] as const) {
    if (route !== (values.only ?? route)) continue;
    const beside = { server: bare, paths: barePaths, method };
    table[route] = await compare({ server: ours, paths, method }, beside, key);
  }
  out.table(table);
  process.exitCode = Object.values(table).every(({ ratio }) => ratio >= bar) ? 0 : 1;
} finally {
  for (const server of servers) {
    server.process.send('close');
    await once(server.process, 'exit');
  }
  await asAdmin(`drop database ${name} with (force)`);
}
