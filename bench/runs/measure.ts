import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import type pg from 'pg';
import { backfill, type MadeExport, type Range } from '../service/calls.ts';
import { watchIdle } from '../service/idle.ts';
import { type PerProcess, perRun, sumOf, takeCpu } from '../service/cpu.ts';
import type { BareTaken, BareWork } from './bare-work.ts';

/** What runs took that were asked for at once. */
export interface RunsTaken {
  readonly runs: number;
  readonly runsPerSecond: number;
  readonly statements: number;
  /** Requests to the store. */
  readonly requests: number;
  /** The share of time in which no core was busy. */
  readonly idle: number;
  /** Milliseconds a run. */
  readonly cpu: PerProcess;
  /** From claim to end, in milliseconds. */
  readonly p50: number;
  readonly p99: number;
  /** The statements that took the most time of the database, each on its own line. */
  readonly costly: string;
}

/** One kind of run on one queue. */
export interface KindTaken {
  /** By a worker that has just started, of exports that never ran. */
  readonly cold: RunsTaken;
  /** The same exports, afterwards. */
  readonly warm: RunsTaken;
  /** Runs per second of the bare loop, and its CPU per run in milliseconds. */
  readonly bare: {
    readonly runsPerSecond: number;
    readonly cpu: PerProcess;
  };
  /** Runs per second of the bare loop, if each of its runs is a job of the same queue. */
  readonly bareJobsPerSecond: number;
  /** Wall time of the warm runs over that of the bare loop. */
  readonly ratio: number;
}

export interface KindOptions {
  readonly pool: pg.Pool;
  readonly exports: readonly MadeExport[];
  readonly cold: Range;
  readonly warm: Range;
  /** Of each backfill; null: the installation's own. */
  readonly concurrency: number | null;
  /** Process ids. */
  readonly watched: PerProcess;
  readonly countRequests: () => Promise<number>;
  readonly bare: ChildProcess;
  readonly bareWork: Omit<BareWork, 'asJobs'>;
}

/** Measures the service, then the bare loop beside the idle service. */
export async function measureKind(options: KindOptions): Promise<KindTaken> {
  const cold = await measureRuns(options, options.cold);
  const warm = await measureRuns(options, options.warm);
  const bare = await measureBare(options, false);
  const jobs = await measureBare(options, true);
  return {
    ...{ cold, warm, bare },
    bareJobsPerSecond: jobs.runsPerSecond,
    ratio: bare.runsPerSecond / warm.runsPerSecond,
  };
}

async function measureRuns(options: KindOptions, range: Range): Promise<RunsTaken> {
  const { pool, exports, concurrency, watched, countRequests } = options;
  await pool.query('select pg_stat_statements_reset()');
  const requestsBefore = await countRequests();
  const endIdle = watchIdle();
  const ours = await takeCpu(watched, () => backfill(pool, exports, range, concurrency));
  const idle = endIdle();
  const exportIds = exports.map(({ id }) => id);
  const { rows } = await pool.query<Record<string, number>>(
    `select count(*)::int as runs, (count(*) filter (where status <> 'Completed'))::int as others,
            percentile_cont(0.5) within group (order by extract(epoch from finished_at - started_at) * 1000) as p50,
            percentile_cont(0.99) within group (order by extract(epoch from finished_at - started_at) * 1000) as p99,
            (select sum(calls)::int from pg_stat_statements where query !~ 'pg_stat_statements') as calls
       from runs where export_id = any ($1) and data_interval_start >= $2 and data_interval_end <= $3`,
    [exportIds, range.start_at, range.end_at],
  );
  const { runs = 0, others = 0, p50 = 0, p99 = 0, calls = 0 } = rows[0] ?? {};
  if (others > 0)
    throw new Error(`${others} runs are not completed: ${await whyNot(pool, exportIds)}`);
  return {
    runs,
    runsPerSecond: runs / ours.seconds,
    statements: calls / runs,
    requests: ((await countRequests()) - requestsBefore) / runs,
    cpu: perRun(ours.cpu, runs),
    ...{ idle, p50, p99 },
    costly: await listCostly(pool, runs),
  };
}

/** How long the bare loop is measured at least, in as many passes as that takes. */
const bareMs = 2_000;

async function measureBare(options: KindOptions, asJobs: boolean): Promise<KindTaken['bare']> {
  // Its first pass opens connections, and its code is compiled then, as ours was before.
  await passBare(options, asJobs);
  const passes = [await passBare(options, asJobs)];
  while (wallOf(passes) < bareMs) passes.push(await passBare(options, asJobs));
  const runs = passes.length * options.bareWork.ids.length;
  const cpu = sumOf(passes.map((pass) => pass.cpu));
  const seconds = wallOf(passes) / 1_000;
  return { runsPerSecond: runs / seconds, cpu: perRun(cpu, runs) };
}

/** Lets the bare loop do all its work once. */
async function passBare({ pool, watched, bare, bareWork }: KindOptions, asJobs: boolean) {
  await pool.query(
    `insert into bare_runs select id, 'Starting' from unnest($1::int[]) id
     on conflict (id) do update set status = 'Starting'`,
    [bareWork.ids],
  );
  let wallMs = Number.NaN;
  const { cpu } = await takeCpu({ ...watched, api: 0, worker: bare.pid ?? 0 }, async () => {
    bare.send({ ...bareWork, asJobs });
    const dead = new AbortController();
    const die = () => dead.abort(new Error('the bare loop ended'));
    bare.once('exit', die);
    const [taken] = (await once(bare, 'message', { signal: dead.signal })) as [BareTaken];
    bare.off('exit', die);
    wallMs = taken.wallMs;
  });
  return { wallMs, cpu };
}

function wallOf(passes: readonly { readonly wallMs: number }[]): number {
  return passes.reduce((sum, { wallMs }) => sum + wallMs, 0);
}

async function whyNot(pool: pg.Pool, exportIds: readonly string[]): Promise<string> {
  const { rows } = await pool.query(
    `select status, error_code, latest_error from runs where export_id = any ($1) and status <> 'Completed' limit 3`,
    [exportIds],
  );
  return JSON.stringify(rows);
}

async function listCostly(pool: pg.Pool, runs: number): Promise<string> {
  const { rows } = await pool.query<Record<string, number> & { query: string }>(
    `select calls::int, total_plan_time as plan, total_exec_time as exec, left(regexp_replace(query, '\\s+', ' ', 'g'), 90) as query
       from pg_stat_statements where query !~ 'pg_stat_statements' order by total_plan_time + total_exec_time desc limit 25`,
  );
  const shown = (value = 0) => (value / runs).toFixed(2).padStart(6);
  return rows
    .map(
      ({ calls, plan, exec, query }) => `${shown(calls)} ${shown(plan)} ${shown(exec)}  ${query}`,
    )
    .join('\n');
}
