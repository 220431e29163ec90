import { afterEach, expect, it } from 'vitest';
import { dispatchWaiting } from '../../../src/service/admission/admission.ts';
import type { Database } from '../../../src/state/store/database/database.ts';
import { plannedOnce } from '../../../src/state/store/database/prepared.ts';
import { noteUploads } from '../../../src/state/store/files/upload-places.ts';
import { renewLeases } from '../../../src/state/store/runs/leases.ts';
import { findRunNeeds } from '../../../src/state/store/runs/outbox.ts';
import { reportWorker } from '../../../src/state/store/runs/workers.ts';
import {
  claim,
  complete,
  emptyCommit,
  openRunSide,
  openTestPool,
  type RunSide,
} from '../../support/run-side.ts';
import { beginCommit } from '../../support/run-verbs.ts';

let side: RunSide;
let db: Database;
let exportId: string;

/** A service with one worker, and 2,000 more exports. */
async function start(connections: number): Promise<void> {
  side = await openRunSide();
  db = openTestPool(side.url, connections);
  exportId = (await side.createExport()).id;
  await reportWorker(side.db, 'one', 4, 24);
}

/** Without planner statistics of them. */
async function addExports(): Promise<void> {
  await side.sql`
    insert into batch_exports select (jsonb_populate_record(e, jsonb_build_object('id', gen_random_uuid()))).*
       from batch_exports e, generate_series(1, 2000) where e.id = ${exportId}`;
}

/** A run of each export, of an earlier interval: all have ended. */
async function addEndedBurst(): Promise<void> {
  await addWaiting(60, true);
  await side.sql`
    update runs set status = 'Cancelled', finished_at = now() where finished_at is null`;
}

afterEach(async () => {
  await db?.close();
  await side?.stop();
});

/** Runs of the n-th interval before this one wait: of one export, or of all. */
async function addWaiting(interval: number, ofAll = false): Promise<void> {
  await side.sql`with made as (
       insert into runs (export_id, team_id, data_interval_start, data_interval_end)
       select e.id, e.team_id, at, at + interval '1 hour'
         from batch_exports e, lateral (select date_trunc('hour', now(), 'UTC') - ${interval} * interval '1 hour' as at) t
        where e.id = ${exportId} or ${ofAll}
       returning *
     )
     insert into outbox (run_id, team_id, export_id, data_interval_start, available_at, ready, small)
     select id, team_id, export_id, data_interval_start, now(), true, true from made`;
}

type Read = Readonly<Record<string, number>>;

/** Executes a run of those that wait. @returns how many rows of our tables the dispatcher looked at, and the worker */
async function execute(): Promise<{ readonly dispatched: Read; readonly executed: Read }> {
  const before = await countRead();
  const context = { ...side.context, db };
  const chosen: string[] = [];
  await dispatchWaiting(context, async (entries) => {
    chosen.push(...entries.map(({ runId }) => runId));
  });
  const between = await countRead();
  const [runId = ''] = chosen;
  await findRunNeeds(db, [runId]);
  const run = await claim({ db }, runId);
  expect(await renewLeases(db, [run], 60_000)).toEqual(new Set([runId]));
  expect(await noteUploads(db, run, 60_000)).toBe(true);
  expect(await beginCommit(db, run, 60_000, {}, emptyCommit)).toBe(true);
  expect(await complete(context, run)).toBe(true);
  return { dispatched: less(between, before), executed: less(await countRead(), between) };
}

const less = (after: Read, before: Read): Read =>
  Object.fromEntries(
    Object.entries(after).map(([table, read]) => [table, read - (before[table] ?? 0)]),
  );

async function countRead(): Promise<Read> {
  // On each connection.
  const flush = 'select pg_stat_force_next_flush()';
  for (const text of [flush, plannedOnce(`${flush} -- planned once`)]) {
    await Promise.all(Array.from({ length: 30 }, () => db.query(text)));
  }
  const rows = await db.query<{ table: string; read: number }>(
    `select relname as "table", (coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::int as read from pg_stat_user_tables
      where relname in ('runs', 'outbox', 'batch_exports', 'upload_places', 'receipts', 'leftover_files', 'ticks')`,
  );
  return Object.fromEntries(rows.map(({ table, read }) => [table, read]));
}

const sum = (read: Read): number => Object.values(read).reduce((total, each) => total + each, 0);

/** From the sixth execution on PostgreSQL keeps the plan of a statement. @returns what the last run has read */
async function executeTen(): ReturnType<typeof execute> {
  let read = { dispatched: {}, executed: {} };
  for (let interval = 50; interval > 40; interval -= 1) {
    await addWaiting(interval);
    read = await execute();
  }
  return read;
}

it('a run reads few rows of our tables while no other one waits, and about as many beside thousands that became due since then', async () => {
  // Each connection keeps the plans of its statements.
  await start(10);
  await addExports();
  await addEndedBurst();
  await side.sql`vacuum analyze runs, outbox, batch_exports`;
  const alone = await executeTen();
  expect(sum(alone.dispatched) + sum(alone.executed), JSON.stringify(alone)).toBeLessThan(200);
  await addWaiting(30, true);
  const beside = await execute();
  const counts = JSON.stringify({ alone, beside });
  expect(sum(beside.executed), counts).toBeLessThan(100);
  // The dispatcher reads all that waits once. It marks those that it chose by their index, or in one look through the outbox each for lock
  // and mark. PostgreSQL may find the runs that are executed among those that are live.
  expect(sum(beside.dispatched), counts).toBeLessThan(4 * 2_000 + 400);
});

it('a worker reads as few if its plans were made when the service was new, or when nothing waited', async () => {
  await start(10);
  for (const table of [
    'runs',
    'outbox',
    'batch_exports',
    'receipts',
    'leftover_files',
    'upload_places',
  ]) {
    await side.db.query(`alter table ${table} set (autovacuum_enabled = false)`);
  }
  const { executed: first } = await executeTen();
  await addExports();
  await addEndedBurst();
  // All others have a receipt of the interval of the next run.
  await side.sql`insert into receipts select made.*
       from batch_exports e, (select * from receipts order by data_interval_start desc limit 1) c,
            jsonb_populate_record(null::receipts, to_jsonb(c) || jsonb_build_object('export_id', e.id,
              'data_interval_start', c.data_interval_start + interval '11 hours',
              'data_interval_end', c.data_interval_end + interval '11 hours')) made
      where e.id <> c.export_id`;
  // And each may have uploads, and has a file that its runs have left.
  await side.sql`
    insert into upload_places (export_id, destination_version) select id, 1 from batch_exports
      where id <> ${exportId}`;
  await side.sql`
    insert into leftover_files (export_id, data_interval_start, data_interval_end, destination_version, key, generation,
      uncommitted)
     select export_id, data_interval_start, data_interval_end, 1, 'left', 1, true from runs where export_id <> ${exportId}`;
  await addWaiting(30);
  const { executed: later } = await execute();
  expect(sum(later) - sum(first), JSON.stringify({ first, later })).toBeLessThan(200);
  await side.sql`vacuum analyze runs, outbox, batch_exports`;
  await addWaiting(29);
  await execute();
  await addWaiting(28, true);
  const { executed: beside } = await execute();
  expect(sum(beside) - sum(first), JSON.stringify({ first, beside })).toBeLessThan(200);
});
