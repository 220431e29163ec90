import { type ChildProcess, spawn } from 'node:child_process';
import { Console } from 'node:console';
import { randomBytes } from 'node:crypto';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { availableParallelism, tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import pg from 'pg';
import { startEmbeddedPostgres } from '../src/state/embedded-postgres/start.ts';
import { hashApiKey, mintApiKey } from '../src/foundation/security/api-keys.ts';
import { measureApi } from './service/api-times.ts';

/**
 * How fast ticks are decided, by two real workers beside a real API, all on this machine:
 * many exports that are due in the same second, then ten times as many whose hour is run through in
 * a minute. Bounded to a few minutes.
 *
 *   npm run bench:scheduler -- [--burst 10000] [--spread 100000] [--seconds 60] [--redis redis://…]
 */
const { values } = parseArgs({
  options: {
    burst: { type: 'string', default: '10000' },
    spread: { type: 'string', default: '100000' },
    seconds: { type: 'string', default: '60' },
    redis: { type: 'string', default: '' },
  },
});
const cores = availableParallelism();
const week = 7 * 86_400_000;

const dataDir = await mkdtemp(path.join(tmpdir(), 'sluice-bench-'));
const postgres = await startEmbeddedPostgres({ dataDir });
const pool = new pg.Pool({ connectionString: postgres.url, max: 3 });
const children: ChildProcess[] = [];
try {
  const env = {
    ...process.env,
    DATABASE_URL: postgres.url,
    ...(values.redis ? { REDIS_URL: values.redis } : {}),
    ENCRYPTION_KEYS: `bench:${randomBytes(32).toString('base64')}`,
    LOG_LEVEL: 'warn',
    PORT: '0',
    RATE_LIMIT_PER_MINUTE: '1000000',
    // The runs wait for their time, so that it is the schedule that is measured.
    MAX_JITTER_SECONDS: '3600',
  };
  // It brings the schema up to date.
  const api = await startProcess('api', env, /^ready (http\S+)/m);
  const { key, teams } = await makeTenants(50);
  const url = `${api}/api/projects/${teams[0]}/batch_exports/`;
  for (let worker = 0; worker < 2; worker += 1) await startProcess('worker', env, /^ready worker/m);
  const quiet = await measureApi(url, key, sleep(5_000));
  const burst = await measure(Number(values.burst), 0, teams, url, key);
  const spread = await measure(
    Number(values.spread),
    Number(values.seconds) * 1_000,
    teams,
    url,
    key,
  );
  const out = new Console(process.stdout);
  out.log(
    `\n${cores} cores, Node ${process.version}, queue in ${values.redis ? 'Redis' : 'Postgres'}, 2 workers, 1 API`,
  );
  out.table({
    'nothing due': { 'API p50 ms': quiet.p50, 'API p99 ms': quiet.p99 },
    'in one second': burst,
    [`spread over ${values.seconds} s`]: spread,
  });
} finally {
  for (const child of children) child.kill('SIGTERM');
  await Promise.all(
    children.map((child) => child.exitCode ?? new Promise((end) => child.once('exit', end))),
  );
  await pool.end();
  await postgres.stop();
  await rm(dataDir, { recursive: true, force: true });
}

async function makeTenants(count: number): Promise<{ key: string; teams: number[] }> {
  const key = mintApiKey();
  const { rows } = await pool.query<{ id: number }>(
    `with o as (insert into organizations (name) values ('Bench') returning id),
          k as (insert into api_keys (organization_id, name, hash, scopes) select id, 'bench', $2, '{*}' from o)
     insert into projects (organization_id, name) select id, 'Project ' || n from o, generate_series(1, $1) n returning id`,
    [count, hashApiKey(key)],
  );
  return { key, teams: rows.map((row) => row.id) };
}

async function startProcess(
  role: 'api' | 'worker',
  env: NodeJS.ProcessEnv,
  ready: RegExp,
): Promise<string> {
  const file = path.resolve(import.meta.dirname, '../../main', `${role}.js`);
  const child = spawn(process.execPath, [file], { env, stdio: ['ignore', 'pipe', 'inherit'] });
  children.push(child);
  let output = '';
  for await (const chunk of child.stdout.iterator({ destroyOnReturn: false })) {
    output += String(chunk);
    const match = ready.exec(output);
    if (match) {
      child.stdout.resume();
      return match[1] ?? '';
    }
  }
  throw new Error(`the ${role} ended: ${output}`);
}

/** Makes `count` weekly exports that come due over `overMs` from a moment ahead, and watches. */
async function measure(
  count: number,
  overMs: number,
  teams: readonly number[],
  url: string,
  key: string,
) {
  await pool.query('truncate ticks, outbox, receipts, runs, upload_places cascade');
  await pool.query('delete from batch_exports');
  const startsAt = Math.ceil((await readNow()) / 1_000 + 5 + count / 10_000) * 1_000;
  await pool.query(
    `insert into batch_exports (team_id, name, destination_type, destination_config, "interval", schedule, next_tick_at)
     select ($1::int[])[1 + n % cardinality($1::int[])], 'Export ' || n, 'NoOp', '{}', 'week',
            jsonb_build_object('cadences', '[{"since":null,"cadence":{"interval":"week","timezone":"UTC","offsetDay":0,"offsetHour":0}}]'::jsonb,
              'gates', jsonb_build_array(jsonb_build_object('since', at - $4, 'pausedSince', null, 'startAt', null, 'endAt', null)),
              'openIntervalStart', at - $4, 'nextTickAt', at), to_timestamp(at / 1000.0)
       from generate_series(0, $2::int - 1) n, lateral (select $3::bigint + (n::bigint * $5::bigint / $2 / 1000) * 1000 as at) t`,
    [teams, count, startsAt, week, overMs],
  );
  await pool.query('vacuum analyze batch_exports');
  const late = (await readNow()) - startsAt;
  if (late > 0) throw new Error(`making the exports took ${late} ms too long`);
  await sleep(Math.max(0, -late - 200));
  const cpuBefore = await postgresCpuSeconds();
  let worstLagMs = 0;
  const decided = (async () => {
    for (;;) {
      const { rows } = await pool.query<{ due: number; left: number; lag: number }>(
        `select (extract(epoch from greatest(clock_timestamp() - min(next_tick_at), interval '0')) * 1000)::int as lag,
                count(*)::int as left from batch_exports where next_tick_at < to_timestamp($1 / 1000.0)`,
        [startsAt + overMs + 1_000],
      );
      const [row] = rows;
      if (!row || row.left === 0) return;
      worstLagMs = Math.max(worstLagMs, row.lag);
      await sleep(100);
    }
  })();
  const apiTimes = await measureApi(url, key, decided);
  const endedAt = await readNow();
  const cpu = (await postgresCpuSeconds()) - cpuBefore;
  const { rows } = await pool.query<{ ticks: number; runs: number; doubles: number }>(
    `select (select count(*)::int from ticks) as ticks, count(*)::int as runs,
            (count(*) - count(distinct (export_id, data_interval_start, data_interval_end)))::int as doubles from runs`,
  );
  const [counts] = rows;
  const seconds = (endedAt - startsAt) / 1_000;
  return {
    exports: count,
    'all decided after s': round(seconds),
    'worst lag s': round(worstLagMs / 1_000),
    ticks: counts?.ticks,
    runs: counts?.runs,
    doubles: counts?.doubles,
    'API requests': apiTimes.requests,
    'API p50 ms': apiTimes.p50,
    'API p99 ms': apiTimes.p99,
    'Postgres cores': round(cpu / seconds),
    'Postgres ms/tick': round((cpu * 1_000) / count),
  };
}

async function readNow(): Promise<number> {
  const { rows } = await pool.query<{ now: string }>(
    `select floor(extract(epoch from clock_timestamp()) * 1000)::bigint as now`,
  );
  return Number(rows[0]?.now);
}

/** CPU time of the server and all its processes so far, the ended ones too. Linux only, else NaN. */
async function postgresCpuSeconds(): Promise<number> {
  const { rows } = await pool.query<{ pid: number }>('select pg_backend_pid() as pid');
  const backend = await readStat(String(rows[0]?.pid));
  if (!backend) return Number.NaN;
  let ticks = 0;
  for (const pid of await readdir('/proc')) {
    const stat = /^\d+$/.test(pid) ? await readStat(pid) : null;
    if (stat?.parent === backend.parent) ticks += stat.own;
    if (pid === backend.parent && stat) ticks += stat.own + stat.ended;
  }
  return ticks / 100;
}

/** proc(5): the fields after the name, which is in brackets. */
async function readStat(pid: string) {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => null);
  const fields = text?.slice(text.lastIndexOf(')') + 2).split(' ');
  if (!fields) return null;
  const sum = (from: number) => Number(fields[from]) + Number(fields[from + 1]);
  return { parent: fields[1] ?? '', own: sum(11), ended: sum(13) };
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}
