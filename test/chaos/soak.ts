import { readdir, readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { expect, test } from 'vitest';
import { backfill, createS3Export, insertEvents, projectPath } from '../support/exported-events.ts';
import { type Installation, startInstallation, testedQueues } from '../support/installation.ts';
import { expectInvariants } from '../support/invariants.ts';
import { until } from '../support/until.ts';

const minutes = Number(process.env.SOAK_MINUTES ?? 10);
const samples = 20;
const range = { start: '2024-03-01T00:00:00Z', end: '2024-03-01T12:00:00Z' };

interface Sample {
  readonly minute: number;
  /** Of the API and of each worker. */
  readonly rssMib: readonly number[];
  readonly handles: readonly number[];
  readonly connections: number;
  readonly redisKeys: number | null;
  readonly runs: number;
}

test(
  `${minutes} minutes of work leave memory, handles, connections and Redis keys flat`,
  async () => {
    const queue = testedQueues().at(-1) ?? 'postgres';
    const installation = await startInstallation({ queue, workers: 2 });
    const { client, tenant, processes } = installation;
    const own = processes.slice(0, 3);
    const redis = installation.redis ? new Redis(installation.redis.url) : null;
    try {
      await insertEvents(installation.pool, { team: tenant.projectIds[0], rows: 20_000, ...range });
      const exports: string[] = [];
      for (const compression of [null, 'gzip', 'zstd']) {
        exports.push(
          await createS3Export(installation, {
            interval: 'every 5 minutes',
            end_at: null,
            config: { compression },
          }),
        );
      }
      const taken: Sample[] = [];
      const everyMs = (minutes * 60_000) / samples;
      const startedAt = performance.now();
      while (performance.now() - startedAt < minutes * 60_000) {
        const nextAt = startedAt + (taken.length + 1) * everyMs;
        while (performance.now() < nextAt) {
          await keepBusy(installation, exports);
          await client.get(`${projectPath(installation)}/batch_exports/`);
          await sleep(250);
        }
        taken.push(
          await sample(installation, own, redis, (performance.now() - startedAt) / 60_000),
        );
      }
      print(taken);
      await until(
        async () =>
          (
            await installation.sql`select from runs where status in ('Starting', 'Running')
              union all select from backfills where status = 'Running'`
          ).rowCount === 0,
        { timeoutMs: 120_000, message: 'nothing runs any more' },
      );
      expectFlat(taken);
      await expectInvariants(installation);
    } finally {
      redis?.disconnect();
      await installation.close();
    }
  },
  (minutes + 6) * 60_000,
);

async function keepBusy(installation: Installation, exports: readonly string[]): Promise<void> {
  for (const id of exports) {
    const { rowCount } = await installation.sql`select from backfills where export_id = ${id}
      and status = 'Running'`;
    if (rowCount === 0) await backfill(installation, id, range, { concurrency: 4 });
  }
}

async function sample(
  { pool }: Installation,
  own: Installation['processes'],
  redis: Redis | null,
  minute: number,
): Promise<Sample> {
  const { rows } = await pool.query<{ connections: number; runs: number }>(
    `select (select count(*)::int from pg_stat_activity where datname = current_database() and application_name like 'sluice%') as connections,
            (select count(*)::int from runs) as runs`,
  );
  return {
    minute,
    rssMib: await Promise.all(own.map(({ pid }) => readRssMib(pid))),
    handles: await Promise.all(
      own.map(async ({ pid }) => (await readdir(`/proc/${pid}/fd`)).length),
    ),
    connections: rows[0]?.connections ?? 0,
    redisKeys: redis ? await redis.dbsize() : null,
    runs: rows[0]?.runs ?? 0,
  };
}

async function readRssMib(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  return Math.round(Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1]) / 1024);
}

function print(taken: readonly Sample[]): void {
  console.table(
    taken.map(({ minute, rssMib, handles, connections, redisKeys, runs }) => ({
      minute: minute.toFixed(1),
      'api MiB': rssMib[0],
      'worker 1 MiB': rssMib[1],
      'worker 2 MiB': rssMib[2],
      handles: handles.join(' / '),
      connections,
      'Redis keys': redisKeys ?? '-',
      runs,
    })),
  );
}

/** The last third is no more than the middle one, but for what a measurement varies by. */
function expectFlat(taken: readonly Sample[]): void {
  const third = Math.floor(taken.length / 3);
  const peak = (part: readonly Sample[], of: (sample: Sample) => number) =>
    Math.max(...part.map(of));
  const compare = (name: string, of: (sample: Sample) => number, share: number, more: number) => {
    const before = peak(taken.slice(third, 2 * third), of);
    const after = peak(taken.slice(2 * third), of);
    expect(after, `${name}: ${before} in the middle, ${after} at the end`).toBeLessThanOrEqual(
      before * share + more,
    );
  };
  for (const index of [0, 1, 2]) {
    compare(`memory of process ${index}`, ({ rssMib }) => rssMib[index] ?? 0, 1.15, 15);
    compare(`handles of process ${index}`, ({ handles }) => handles[index] ?? 0, 1, 10);
  }
  compare('connections', ({ connections }) => connections, 1, 5);
  compare('Redis keys', ({ redisKeys }) => redisKeys ?? 0, 1.1, 50);
}
