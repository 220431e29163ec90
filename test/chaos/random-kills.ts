import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { canaryOf } from '../support/canaries.ts';
import { backfill, createS3Export, projectPath } from '../support/exported-events.ts';
import {
  bucket,
  type Installation,
  startInstallation,
  testedQueues,
} from '../support/installation.ts';
import { expectInvariants } from '../support/invariants.ts';
import type { TestProcess } from '../support/processes.ts';
import { until } from '../support/until.ts';

const kills = Number(process.env.KILLS ?? 200);
const workerCount = 3;
/** So many rows of the past, in five-minute intervals. */
const past = { start: '2024-03-01T00:00:00Z', end: '2024-03-01T12:00:00Z' };
const limitMs = 18 * 60_000;

/** mulberry32 */
function randomOf(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Rows that arrive now, as clients send them: the live intervals have something to export. */
async function keepGrowing({ pool, tenant }: Installation, signal: AbortSignal): Promise<void> {
  const team = tenant.projectIds[0];
  while (!signal.aborted) {
    await pool.query(
      `insert into events (uuid, team_id, event, distinct_id, properties)
       select gen_random_uuid(), $1, 'live', 'user ' || n, jsonb_build_object('canary', $2::text) from generate_series(1, 20) n`,
      [team, canaryOf(team)],
    );
    await sleep(200, undefined, { signal }).catch(() => {});
  }
}

test(
  `${kills} random kill -9 of workers and the API lose no row and double none`,
  async () => {
    const seed = Number(process.env.SEED ?? Math.floor(Math.random() * 2 ** 31));
    console.log(`random kills: seed ${seed} (again with SEED=${seed})`);
    const random = randomOf(seed);
    const queue =
      process.env.QUEUE === 'postgres' ? 'postgres' : (testedQueues().at(-1) ?? 'postgres');
    const installation = await startInstallation({ queue, workers: 0 });
    const { client, pool, tenant } = installation;
    const team = tenant.projectIds[0];
    const growing = new AbortController();
    try {
      // Half of it in large rows: these runs have parts, and are killed between them.
      await insertPast(installation, 60_000, 400);
      await insertPast(installation, 12_000, 5_000);
      const live = await createS3Export(installation, {
        name: 'live',
        interval: 'every 1 minutes',
        end_at: null,
      });
      const packed = await createS3Export(installation, {
        name: 'packed',
        interval: 'every 5 minutes',
        end_at: null,
        config: { compression: 'gzip', max_file_size_mb: 1 },
      });
      const plain = await createS3Export(installation, { name: 'plain', end_at: null });
      const exports = [live, packed, plain];
      const growth = keepGrowing(installation, growing.signal);

      // Those that are up; each that is killed is replaced, and the others are not waited for.
      const up: TestProcess[] = [];
      const starting = new Set<Promise<unknown>>();
      const replace = () => {
        const started = installation.startWorker().then((worker) => up.push(worker));
        starting.add(started);
        void started.finally(() => starting.delete(started));
      };
      for (let n = 0; n < workerCount; n += 1) replace();
      let api = installation.processes[0];
      const startedAt = performance.now();
      for (let killed = 0; killed < kills; killed += 1) {
        expect(performance.now() - startedAt, 'the kills take too long').toBeLessThan(limitMs);
        await ensureBackfills(installation, [packed, plain]);
        while (up.length === 0) await Promise.race(starting);
        await sleep(100 + 900 * random());
        if (random() < 0.05) {
          api?.kill('SIGKILL');
          await api?.waitForExit();
          api = await installation.startApi();
        } else {
          const [victim] = up.splice(Math.floor(random() * up.length), 1);
          victim?.kill('SIGKILL');
          replace();
        }
      }
      await Promise.all(starting);
      growing.abort();
      await growth;
      await settle(installation, exports);

      for (const id of exports)
        await client.post(`${projectPath(installation)}/batch_exports/${id}/pause/`);
      await settle(installation, exports);
      const { rows: counted } = await pool.query<{ runs: number; crashes: number }>(
        `select count(*)::int as runs, sum(crashes)::int as crashes from runs`,
      );
      const verified = await expectInvariants(installation);
      const uploads = await installation.s3.uploads(bucket);
      const { rows: due } = await pool.query<{ rows: number }>(
        `select sum(n)::int as rows from receipts r, lateral (
         select count(*) as n from events e where e.team_id = $1
            and e.inserted_at >= r.data_interval_start and e.inserted_at < r.data_interval_end) c`,
        [team],
      );
      const lost = (due[0]?.rows ?? 0) - verified.rows;
      console.log(
        `random kills on ${queue}: ${kills} kills, ${counted[0]?.runs} runs (${counted[0]?.crashes} attempts killed), ` +
          `${verified.rows} rows, ${Math.max(0, lost)} lost, ${Math.max(0, -lost)} doubled ` +
          `(and ${uploads.length} uploads left)`,
      );
      expect(lost).toBe(0);
      expect(uploads).toEqual([]);
      expect(verified.rows).toBeGreaterThan(72_000);
    } finally {
      growing.abort();
      await installation.close();
    }
  },
  20 * 60_000,
);

async function insertPast({ pool, tenant }: Installation, rows: number, bytes: number) {
  const team = tenant.projectIds[0];
  await pool.query(
    `insert into events (uuid, team_id, event, distinct_id, properties, inserted_at)
     select gen_random_uuid(), $1, 'past', 'user ' || n,
            jsonb_build_object('canary', $2::text, 'pad', repeat(md5(n::text), $3)),
            $4::timestamptz + ($5::timestamptz - $4::timestamptz) * (n::float8 / $6)
       from generate_series(0, $6::int - 1) n`,
    [team, canaryOf(team), Math.round(bytes / 32), past.start, past.end, rows],
  );
}

/** There is always a backfill under way: when one has ended, the same range is exported again. */
async function ensureBackfills(installation: Installation, exports: readonly string[]) {
  for (const id of exports) {
    const { rows } = await installation.pool.query(
      `select from backfills where export_id = $1 and status = 'Running'`,
      [id],
    );
    if (rows.length === 0) await backfill(installation, id, past, { concurrency: 3 });
  }
}

/** Waits until nothing runs. No kill of a worker is proof against a run: none is set aside. */
async function settle({ pool }: Installation, exports: readonly string[]): Promise<void> {
  await until(
    async () => {
      const { rows: live } = await pool.query(
        `select from runs where status in ('Starting', 'Running')
         union all select from backfills where status = 'Running'`,
      );
      return live.length === 0;
    },
    { timeoutMs: 240_000, everyMs: 500, message: 'nothing runs any more' },
  );
  const { rows: setAside } = await pool.query(
    `select id from runs where export_id = any ($1) and error_code = 'run.crashed'`,
    [exports],
  );
  expect(setAside).toEqual([]);
}
