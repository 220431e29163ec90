import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { inject, test } from 'vitest';
import { deployedMalloc } from '../support/deployed-malloc.ts';
import { startDnsServer } from '../support/dns-server.ts';
import { backfill, createS3Export, insertEvents, projectPath } from '../support/exported-events.ts';
import { type Installation, startInstallation } from '../support/installation.ts';
import { peakMib, projectRoot, startProcess, type TestProcess } from '../support/processes.ts';
import { until } from '../support/until.ts';
import { type Answered, startAttacker } from './attacker.ts';
import { startHostileStores } from './hostile-stores.ts';

/** What the victim saw in one phase, in ms. */
interface Seen {
  /** From the request for a run to its end. */
  readonly runs: readonly number[];
  readonly calls: readonly number[];
  /** Calls that failed, and runs that did not complete. */
  readonly faults: readonly string[];
}

const rowsPerRun = 3_000;
const firstHour = Date.parse('2024-03-01T00:00:00Z');
const hourMs = 3_600_000;
/** Until the caches of processes and database know the victim. */
const warmUpRuns = 5;
/** Each run needs a request: together with the calls, these must stay below its rate limit, however short the runs are. */
const restBetweenRunsMs = 400;
/** Half of its rate limit. */
const callEveryMs = 250;

/** A tenant that exports one hour after the other, and calls the API at a steady rate. */
class Victim {
  readonly #installation: Installation;
  readonly #exportId: string;
  #hour = 0;

  private constructor(installation: Installation, exportId: string) {
    this.#installation = installation;
    this.#exportId = exportId;
  }

  static async open(installation: Installation): Promise<Victim> {
    const victim = new Victim(installation, await createS3Export(installation));
    for (let run = 0; run < warmUpRuns; run += 1) await victim.#run();
    return victim;
  }

  /** Runs and calls for this time, and waits for the last ones. */
  async live(forMs: number): Promise<Seen> {
    const runs: number[] = [];
    const faults: string[] = [];
    const endsAt = performance.now() + forMs;
    const running = async () => {
      while (performance.now() < endsAt) {
        try {
          runs.push(await this.#run());
        } catch (error) {
          faults.push(String(error));
        }
        await sleep(restBetweenRunsMs);
      }
    };
    const calling = this.#startCalls(forMs);
    await running();
    const called = await calling;
    return { runs, calls: called.calls, faults: [...faults, ...called.faults] };
  }

  /** One interval with rows of its own, as an hour that has just ended. */
  async #run(): Promise<number> {
    const { pool, tenant } = this.#installation;
    const start = firstHour + this.#hour * hourMs;
    this.#hour += 1;
    const range = {
      start: new Date(start).toISOString(),
      end: new Date(start + hourMs).toISOString(),
    };
    await insertEvents(pool, { team: tenant.projectIds[0], rows: rowsPerRun, ...range });
    const id = await backfill(this.#installation, this.#exportId, range);
    const find = async () => {
      const { rows } = await pool.query<{ status: string; rows: number; ms: number }>(
        // Both times are PostgreSQL's.
        `select r.status, r.records_completed::int as rows,
                extract(epoch from r.finished_at - b.created_at)::float8 * 1000 as ms
           from runs r join backfills b on b.id = r.backfill_id
          where b.id = $1 and r.finished_at is not null`,
        [id],
      );
      return rows[0] ?? null;
    };
    const run = await until(find, { timeoutMs: 300_000, message: "the victim's run ends" });
    if (run.status !== 'Completed' || run.rows !== rowsPerRun) {
      throw new Error(`run ${run.status} with ${run.rows} rows`);
    }
    return run.ms;
  }

  async #startCalls(forMs: number): Promise<Pick<Seen, 'calls' | 'faults'>> {
    const { client, tenant } = this.#installation;
    const options = {
      baseUrl: client.baseUrl,
      key: tenant.key,
      project: projectPath(this.#installation),
      exportId: this.#exportId,
      everyMs: callEveryMs,
      forMs,
    };
    const caller = startProcess(process.execPath, [
      path.join(projectRoot, 'test/attack/caller.mjs'),
      JSON.stringify(options),
    ]);
    return JSON.parse(await caller.waitForLine(/^\{"calls"/, forMs + 120_000));
  }
}

/** What happened to the processes while it watched. */
interface Watched {
  /** Peaks, in MiB, from the start of each process. */
  readonly apiPeaks: readonly number[];
  readonly workerPeaks: readonly number[];
  /** Processes of ours that ended. */
  readonly exited: readonly string[];
  /** Signs that PostgreSQL restarted, as a whole or after the crash of a backend. */
  readonly databaseRestarts: readonly string[];
}

interface Watch {
  /** Ends it. Call it before the processes are stopped. */
  finish(): Promise<Watched>;
}

async function startWatch(installation: Installation): Promise<Watch> {
  const restarts: string[] = [];
  // A crash of any backend ends all connections, while the postmaster goes on.
  const witness = new Client({ connectionString: installation.databaseUrl });
  witness.on('error', (error) => restarts.push(`a connection was ended: ${error.message}`));
  await witness.connect();
  const startedAt = await postmasterStart(installation);
  const peaks = new Map<number, number>();
  const look = setInterval(() => {
    for (const { pid } of installation.processes) {
      const peak = peakMib(pid);
      if (peak !== null) peaks.set(pid, peak);
    }
  }, 1_000);
  return {
    async finish() {
      clearInterval(look);
      const peakOf = ({ pid }: TestProcess) => peakMib(pid) ?? peaks.get(pid) ?? Number.NaN;
      const workers = new Set(installation.workers);
      const now = await postmasterStart(installation);
      if (now !== startedAt) restarts.push(`the server started at ${now}`);
      const found = restarts.slice();
      await witness.end();
      return {
        apiPeaks: installation.processes.filter((one) => !workers.has(one)).map(peakOf),
        workerPeaks: installation.workers.map(peakOf),
        exited: installation.processes
          .filter((one) => one.hasExited())
          .map((one) => `process ${one.pid}: ${one.output().slice(-300)}`),
        databaseRestarts: found,
      };
    },
  };
}

async function postmasterStart({ sql }: Installation): Promise<string> {
  const { rows } = await sql<{ at: string }>`select pg_postmaster_start_time()::text as at`;
  return rows[0]?.at ?? '';
}

declare module 'vitest' {
  interface ProvidedContext {
    /** Whole run: minutes beside the attacker, and the beginning of the attacks' names. */
    attackRun: { readonly minutes: number; readonly keys: number; readonly only: string };
  }
}

/** The smallest value that so large a share of all values does not exceed. */
function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? Number.NaN;
}

interface Bar {
  readonly name: string;
  readonly measured: string;
  readonly allowed: string;
  readonly passed: boolean;
}

/** Compares the unrounded number. NaN, of nothing measured, misses. */
function atMost(name: string, measured: number, limit: number, unit: string): Bar {
  const show = (value: number) => `${value.toFixed(1)} ${unit}`;
  return { name, measured: show(measured), allowed: `≤ ${show(limit)}`, passed: measured <= limit };
}

function none(name: string, found: readonly string[]): Bar {
  const measured = found.length === 0 ? 'none' : `${found.length}: ${found.slice(0, 3).join('; ')}`;
  return { name, measured, allowed: 'none', passed: found.length === 0 };
}

const { minutes, keys, only } = inject('attackRun');
const workerMemoryMb = 512;
const apiLimitMib = 400;

/** Values of production, in place of the short ones of other tests. */
const production = {
  LEASE_SECONDS: '60',
  RETRY_BASE_SECONDS: '10',
  UPLOAD_STALL_SECONDS: '30',
  MIN_INTERVAL_MINUTES: '5',
  RATE_LIMIT_PER_MINUTE: '480',
  WORKER_MEMORY_MB: String(workerMemoryMb),
  WORKER_CONCURRENCY: '4',
  LOG_LEVEL: 'info',
};

test('a tenant is not hurt by the attacks of another', async () => {
  const dns = await startDnsServer(() => 'silent');
  const stores = await startHostileStores();
  let installation: Installation | null = null;
  try {
    installation = await startInstallation({
      queue: 'redis',
      workers: 2,
      env: {
        ...deployedMalloc,
        ...production,
        NODE_OPTIONS: `--import=${projectRoot}/test/attack/silent-dns.mjs`,
        ATTACK_DNS: dns.address,
      },
    });
    const watch = await startWatch(installation);
    const victim = await Victim.open(installation);
    // Long enough for a 95th percentile that one run does not decide.
    const aloneMs = Math.max(45_000, minutes * 12_000);
    console.log(`The victim alone: ${aloneMs / 1_000} s.`);
    const alone = await victim.live(aloneMs);
    console.log(`The victim beside the attacker: ${minutes} min.`);
    const endpoints = stores.map(({ endpoint }) => endpoint);
    const attacker = await startAttacker(installation, endpoints, { keys, only });
    const attacked = await victim.live(minutes * 60_000);
    const answered = await attacker.stop();
    const failed = await installation.sql<{ status: string; error: string }>`select status,
      latest_error as error from runs where team_id = any (${installation.tenant.projectIds})
      and status in ('Failed', 'FailedRetryable')`;
    const runs = failed.rows.map(({ status, error }) => `${status} ${error}`);
    report(alone, attacked, await watch.finish(), answered, runs);
  } finally {
    await installation?.close().catch((error: unknown) => console.log(String(error)));
    for (const store of stores) await store.close();
    await dns.close();
  }
});

function report(
  alone: Seen,
  attacked: Seen,
  watched: Watched,
  answered: Answered,
  failedRuns: readonly string[],
): void {
  const ms = (values: readonly number[], share: number) =>
    `${percentile(values, share).toFixed(1)} ms`;
  const line = (values: readonly number[]) => ({
    samples: values.length,
    ...{ p50: ms(values, 0.5), p95: ms(values, 0.95), p99: ms(values, 0.99) },
    largest: ms(values, 1),
  });
  for (const [attack, counts] of answered) console.log(attack, Object.fromEntries(counts));
  console.table({
    'runs alone': line(alone.runs),
    'runs attacked': line(attacked.runs),
    'API calls alone': line(alone.calls),
    'API calls attacked': line(attacked.calls),
  });
  const bars = barsOf(alone, attacked, watched, failedRuns, answered);
  console.table(bars);
  const missed = bars.filter(({ passed }) => !passed);
  if (missed.length > 0) {
    throw new Error(
      `${missed.length} bars are missed: ${missed.map(({ name }) => name).join('; ')}`,
    );
  }
}

function barsOf(
  alone: Seen,
  attacked: Seen,
  watched: Watched,
  failedRuns: readonly string[],
  answered: Answered,
): readonly Bar[] {
  const slowed = (share: number) =>
    atMost(
      `run p${share * 100}: twice its time alone`,
      percentile(attacked.runs, share),
      2 * percentile(alone.runs, share),
      'ms',
    );
  const errors = [...answered].flatMap(([name, counts]) =>
    [...counts].filter(([what]) => what === '500').map(([, count]) => `${name}: ${count}`),
  );
  return [
    slowed(0.5),
    slowed(0.95),
    atMost('API p99', percentile(attacked.calls, 0.99), 250, 'ms'),
    atMost('API memory, peak', Math.max(...watched.apiPeaks), apiLimitMib, 'MiB'),
    atMost('worker memory, peak', Math.max(...watched.workerPeaks), workerMemoryMb, 'MiB'),
    none('processes that ended', watched.exited),
    none('restarts of PostgreSQL', watched.databaseRestarts),
    none('runs of the victim that failed', failedRuns),
    none('faults that the victim saw', [...alone.faults, ...attacked.faults]),
    none('answers of 500', errors),
  ];
}
