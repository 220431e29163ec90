import { afterAll, beforeAll, expect, it } from 'vitest';
import { dispatchWaiting } from '../../../src/service/admission/dispatch-runs.ts';
import type { Database } from '../../../src/state/store/database/database.ts';
import { forgetUpload, noteUpload, recordUpload } from '../../../src/state/store/files/uploads.ts';
import { renewLeases } from '../../../src/state/store/runs/leases.ts';
import { findRunNeeds } from '../../../src/state/store/runs/run-needs.ts';
import { reportWorker } from '../../../src/state/store/runs/workers.ts';
import {
  claim,
  complete,
  createExportOfThePast,
  emptyCommit,
  openRunSide,
  openTestPool,
  type RunSide,
} from '../../support/run-side.ts';
import { beginCommit } from '../../support/run-verbs.ts';

let side: RunSide;
/** One connection, so that it keeps the plans of all statements. */
let db: Database;
let exportId: string;

beforeAll(async () => {
  side = await openRunSide();
  db = openTestPool(side.url, 1);
  exportId = (await createExportOfThePast(side)).id;
  await reportWorker(side.db, 'one', 4, 24);
});
afterAll(async () => {
  await db?.close();
  await side?.stop();
});

/** Runs of the n-th interval before this one wait: of one export, or of all. */
async function addWaiting(interval: number, ofAll = false): Promise<void> {
  await side.db.query(
    `with made as (
       insert into runs (export_id, team_id, data_interval_start, data_interval_end)
       select e.id, e.team_id, at, at + interval '1 hour'
         from batch_exports e, lateral (select date_trunc('hour', now()) - $1 * interval '1 hour' as at) t
        where e.id = $2 or $3
       returning *
     )
     insert into outbox (run_id, team_id, export_id, data_interval_start, available_at, ready, small)
     select id, team_id, export_id, data_interval_start, now(), true, true from made`,
    [interval, exportId, ofAll],
  );
}

type Read = Readonly<Record<string, number>>;

/** From the dispatcher to the end. @returns how many rows of our tables were looked at */
async function execute(): Promise<Read> {
  const before = await countRead();
  const context = { ...side.context, db };
  const chosen: string[] = [];
  await dispatchWaiting(context, async (entries) => {
    chosen.push(...entries.map(({ runId }) => runId));
  });
  const [runId = ''] = chosen;
  await findRunNeeds(db, [runId]);
  const run = await claim({ db }, runId);
  expect(await renewLeases(db, [run], 60_000)).toEqual(new Set([runId]));
  expect(await noteUpload(db, run, 'file')).toBe('new');
  expect(await recordUpload(db, run, { key: 'file', uploadId: 'upload' }, true)).toBe(true);
  await forgetUpload(db, runId, { key: 'file', uploadId: 'upload' });
  expect(await beginCommit(db, run, 60_000, {}, emptyCommit)).toBe(true);
  expect(await complete(context, run)).toBe(true);
  const after = await countRead();
  return Object.fromEntries(
    Object.entries(after).map(([table, read]) => [table, read - (before[table] ?? 0)]),
  );
}

async function countRead(): Promise<Read> {
  await db.query(`select pg_stat_force_next_flush()`);
  const rows = await db.query<{ table: string; read: number }>(
    `select relname as "table", (coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::int as read from pg_stat_user_tables
      where relname in ('runs', 'outbox', 'batch_exports', 'uploads', 'receipts', 'leftover_files', 'ticks')`,
  );
  return Object.fromEntries(rows.map(({ table, read }) => [table, read]));
}

const sum = (read: Read): number => Object.values(read).reduce((total, each) => total + each, 0);

let alone: Read = {};

it('a run reads few rows of our tables while no other one waits', async () => {
  await side.db.query(
    `insert into batch_exports select (jsonb_populate_record(e, jsonb_build_object('id', gen_random_uuid()))).*
       from batch_exports e, generate_series(1, 2000) where e.id = $1`,
    [exportId],
  );
  // An earlier burst. All its runs have ended.
  await addWaiting(60, true);
  await side.db.query(`update runs set status = 'Cancelled', finished_at = now()`);
  await side.db.query('vacuum analyze runs, outbox, batch_exports');
  // From the sixth execution on PostgreSQL keeps the plan of a statement.
  for (let interval = 50; interval > 40; interval -= 1) {
    await addWaiting(interval);
    alone = await execute();
  }
  expect(sum(alone), JSON.stringify(alone)).toBeLessThan(200);
});

it('it reads about as many beside thousands that became due since then', async () => {
  await addWaiting(30, true);
  const beside = await execute();
  const shown = JSON.stringify({ alone, beside });
  // It looks at the runs that it chooses among: about two for each slot.
  expect(sum(beside) - sum(alone), shown).toBeLessThan(500);
});
