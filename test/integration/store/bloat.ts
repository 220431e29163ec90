import { afterAll, beforeAll, expect, it } from 'vitest';
import { reportWorker } from '../../../src/state/store/runs/workers.ts';
import { startBackfill } from '../../../src/service/use-cases/backfills/start-backfill.ts';
import { dispatchRuns } from '../../../src/service/admission/admission.ts';
import { hourMs, openRunSide, type RunSide } from '../../support/run-side.ts';
import { advanceBackfill } from '../../support/run-verbs.ts';

/**
 * What 100,000 runs leave in the tables, beside autovacuum as the migrations set it. Nightly only:
 * autovacuum looks around once a minute, so that fewer runs would show nothing.
 */
const runs = Number(process.env.BLOAT_RUNS ?? 100_000);
const exports = 20;
const lanes = 8;

/** They are empty or small when no run is in progress, however many there were. */
const passing = [
  'outbox',
  'upload_places',
  'workers',
  'batch_exports',
  'backfills',
  'leftover_files',
];
/** They keep a row for each run until retention. */
const lasting = ['runs', 'receipts', 'ticks', 'log_entries'];

const mib = 1_048_576;

let side: RunSide;
let backfills: string[];

beforeAll(async () => {
  side = await openRunSide({ maxRunsPerExport: 100, maxRunsPerTenant: 1_000 });
  await reportWorker(side.db, 'bloat', 100);
  const end = Date.parse('2024-01-01T00:00:00Z');
  backfills = await Promise.all(
    Array.from({ length: exports }, async () => {
      const batchExport = await side.createExport();
      const { backfillId } = await startBackfill(side.context, batchExport, {
        startAt: end - (runs / exports) * hourMs,
        endAt: end,
        order: 'oldest_first',
        reprocess: 'all',
        concurrency: 20,
      });
      return backfillId;
    }),
  );
});
afterAll(() => side?.stop());

async function sizes(): Promise<ReadonlyMap<string, number>> {
  const rows = await side.sql<{ name: string; bytes: number }>`
    select name, pg_total_relation_size(name::regclass)::int8 as bytes
      from unnest(${[...passing, ...lasting]}::text[]) name`;
  return new Map(rows.map(({ name, bytes }) => [name, bytes]));
}

/** Dispatches, claims and completes until no backfill is left. */
async function completeAll(): Promise<number> {
  const queue: string[] = [];
  let completed = 0;
  let isDone = false;
  const lane = async (): Promise<void> => {
    for (let id = queue.shift(); id !== undefined; id = queue.shift()) {
      const run = await side.claim(id);
      expect(await side.complete(run)).toBe(true);
      completed += 1;
    }
  };
  while (!isDone) {
    await reportWorker(side.db, 'bloat', 100);
    for (const id of backfills) await advanceBackfill(side.context, id);
    await dispatchRuns(side.context, async (entries) => {
      queue.push(...entries.map(({ runId }) => runId));
    });
    isDone = queue.length === 0;
    await Promise.all(Array.from({ length: lanes }, lane));
  }
  return completed;
}

// A claim and an end move a run in the index of its status, so only the updates between them can be HOT.
it('runs that have ended leave little but their own rows', async () => {
  expect(await completeAll()).toBe(runs);
  const before = await sizes();
  const shares = await side.sql<{ name: string; hot: number }>`
    select relname as name, (n_tup_hot_upd / greatest(1, n_tup_upd)::float8)::float8 as hot
       from pg_stat_user_tables where relname = any (${[...passing, ...lasting]})`;
  for (const name of [...passing, ...lasting]) await side.db.query(`vacuum full ${name}`);
  const after = await sizes();
  const table = [...before].map(([name, bytes]) => ({
    name,
    MiB: Math.round((bytes / mib) * 10) / 10,
    'times its rows': Math.round((bytes / Math.max(1, after.get(name) ?? 1)) * 100) / 100,
    'HOT share': Math.round((shares.find((row) => row.name === name)?.hot ?? 0) * 100) / 100,
  }));
  console.table(table);
  for (const { name, MiB, ...rest } of table) {
    if (passing.includes(name)) expect(MiB, name).toBeLessThan(16);
    else expect(rest['times its rows'], name).toBeLessThan(2);
  }
});
