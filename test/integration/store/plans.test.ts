/** Any plan of PostgreSQL with default settings is good enough, for each statement of the store. */

import { atNight, isNightly } from '../../support/nightly.ts';
import { useStage } from '../../support/use-stage.ts';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { Client } from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { pinSession, plansOnce } from '../../../src/state/store/database/sessions.ts';
import {
  claim,
  complete,
  decide,
  emptyCommit,
  hourMs,
  listRuns,
  openRunSide,
  openTestPool,
  type RunSide,
} from '../../support/run-side.ts';
import type { Database } from '../../../src/state/store/database/database.ts';
import { findExportDetails } from '../../../src/state/store/exports/export-lists.ts';
import { lockExportNow } from '../../../src/state/store/exports/exports.ts';
import { confirmLease, renewLeases } from '../../../src/state/store/runs/leases.ts';
import { recordProgress } from '../../../src/state/store/runs/runs.ts';
import { startBackfill } from '../../../src/service/use-cases/backfills/start-backfill.ts';
import { changeExport } from '../../../src/service/use-cases/exports/activity.ts';
import { advanceBackfill, beginCommit } from '../../support/run-verbs.ts';
import { dispatchWaiting } from '../../../src/service/admission/admission.ts';
import { plannedOnce } from '../../../src/state/store/database/prepared.ts';
import { noteUploads } from '../../../src/state/store/files/upload-places.ts';
import { findRunNeeds } from '../../../src/state/store/runs/outbox.ts';
import { reportWorker } from '../../../src/state/store/runs/workers.ts';

const folder = path.resolve(import.meta.dirname, '../../statements');
const exportsInAll = 1_000;

interface Statement {
  readonly name: string;
  readonly types: readonly string[];
  readonly isPlannedOnce: boolean;
  readonly sql: string;
}

/** As `statements.test.ts` writes them. */
const statements: readonly Statement[] = readdirSync(folder).flatMap((file) =>
  readFileSync(path.join(folder, file), 'utf8')
    .split(/^(?=-- \w+\/[\w-]+\.ts )/m)
    .filter((part) => part.startsWith('-- '))
    .map((part) => {
      const [name = '', ...lines] = part.trim().split('\n');
      const takes = lines.find((line) => line.startsWith('-- takes ')) ?? '';
      return {
        name: name.slice(3),
        types: [...takes.matchAll(/\$\d+ ([^$]+?)(?=, \$|$)/g)].map(([, type = '']) => type),
        isPlannedOnce: lines.includes('-- is planned once'),
        sql: lines.filter((line) => !/^-- (takes|gives|is) /.test(line)).join('\n'),
      };
    }),
);

let client: Client;

const side = useStage(openRunSide);
beforeAll(async () => {
  const { id } = await side.createExport();
  await side.sql`
    insert into batch_exports select (jsonb_populate_record(e, jsonb_build_object('id', gen_random_uuid()))).*
       from batch_exports e, generate_series(2, ${exportsInAll}::int) where e.id = ${id}`;
  await side.sql`with made as (
       insert into runs (export_id, team_id, data_interval_start, data_interval_end)
       select e.id, e.team_id, at, at + interval '1 hour'
         from batch_exports e, lateral (select date_trunc('hour', now(), 'UTC') - interval '30 hours' as at) t returning *
     )
     insert into outbox (run_id, team_id, export_id, data_interval_start, available_at, ready, small)
     select id, team_id, export_id, data_interval_start, now(), true, true from made`;
  client = new Client({ connectionString: side.url });
  await client.connect();
  await pinSession(client);
});
afterAll(() => client?.end());

interface Explained {
  readonly Plan: PlanNode;
  readonly JIT?: unknown;
  readonly 'Execution Time': number;
}

interface PlanNode {
  readonly 'Total Cost': number;
  /** From PostgreSQL 18 on. */
  readonly Disabled?: boolean;
  readonly Plans?: readonly PlanNode[];
}

/** Until PostgreSQL 17 a node that a setting has disabled costs as much. */
const disabledCost = 1e10;

const isDisabled = (node: PlanNode): boolean =>
  node.Disabled === true ||
  node['Total Cost'] >= disabledCost ||
  (node.Plans ?? []).some(isDisabled);

/** In the session that it has in production, and a transaction that is rolled back; what a value of null makes fail is only planned. */
async function explain({ types, sql, isPlannedOnce }: Statement): Promise<readonly Explained[]> {
  const nulls = types.length === 0 ? '' : `(${types.map(() => 'null').join(', ')})`;
  await client.query(`prepare p${types.length === 0 ? '' : ` (${types.join(', ')})`} as ${sql}`);
  const plans: Explained[] = [];
  const seqscan = isPlannedOnce ? plansOnce.enable_seqscan : 'on';
  await client.query(`set enable_seqscan = ${seqscan}`);
  for (const mode of ['force_custom_plan', 'force_generic_plan']) {
    await client.query(`set plan_cache_mode = ${mode}`);
    await client.query('begin');
    const ask = (options: string) =>
      client.query<{ 'QUERY PLAN': readonly Explained[] }>(
        `explain (format json${options}) execute p${nulls}`,
      );
    plans.push(...((await ask('')).rows[0]?.['QUERY PLAN'] ?? []));
    const executed = await ask(', analyze').catch(() => null);
    plans.push(...(executed?.rows[0]?.['QUERY PLAN'] ?? []));
    await client.query('rollback');
  }
  await client.query('deallocate p');
  return plans;
}

const isPlanned = ({ sql }: Statement) => /^(with|select|insert|update|delete)\b/i.test(sql);

it('no statement is compiled, or has a plan with a disabled node, or takes long, beside 1,000 exports', async () => {
  expect(statements.length).toBeGreaterThan(200);
  const bad: string[] = [];
  let slowest = { name: '', ms: 0 };
  expect(statements.filter(({ isPlannedOnce }) => isPlannedOnce).length).toBeGreaterThan(3);
  for (const statement of statements.filter(isPlanned)) {
    for (const { Plan, JIT, 'Execution Time': ms = 0 } of await explain(statement)) {
      if (isDisabled(Plan)) bad.push(`${statement.name}: a disabled node`);
      if (JIT !== undefined) bad.push(`${statement.name}: compiled`);
      if (ms > slowest.ms) slowest = { name: statement.name, ms };
    }
  }
  expect(bad).toEqual([]);
  if (process.env.SPEED_STRICT === '1') expect(slowest.ms, slowest.name).toBeLessThan(50);
}, 120_000);

describe('updates', () => {
  const runs = 200;
  const progress = { totalRows: 1_000, rows: 500, bytes: 50_000, files: 1 };
  const cursor = { key: 'a'.repeat(100) };

  const side = useStage(openRunSide);
  /** One connection, so that all counts come from one session. */
  const db = useStage(async () => openTestPool(side.url, 1));

  atNight('most updates of a run and of its export stay on their page', async () => {
    const context = { ...side.context, db };
    const item = await side.createExport({ createdMsAgo: runs * hourMs });
    await decide(context);
    for (const { id } of await listRuns(db, item.id)) {
      const run = await claim({ db }, id);
      await confirmLease(db, run, 60_000);
      await recordProgress(db, run, progress, cursor);
      await confirmLease(db, run, 60_000);
      await beginCommit(db, run, 60_000, { recipe: 'a'.repeat(200) }, emptyCommit);
      expect(await complete(context, run)).toBe(true);
    }
    await db.query('select pg_stat_force_next_flush()');
    const shares = await db.query<{ name: string; share: number }>(
      `select relname as name, n_tup_hot_upd::float8 / n_tup_upd as share from pg_stat_user_tables
      where relname in ('runs', 'batch_exports') and n_tup_upd >= $1 order by relname`,
      [runs],
    );
    expect(shares.map(({ name }) => name)).toEqual(['batch_exports', 'runs']);
    const [ofExports, ofRuns] = shares.map(({ share }) => share);
    expect(ofExports).toBeGreaterThan(0.9);
    // The status is in indexes, so the claim and the end of a run are two of six that are not. Pages that are full take more.
    expect(ofRuns).toBeGreaterThan(0.5);
  });

  // A plan takes longer to make than to execute. Postgres keeps one after five executions, unless those that it makes for
  // the values at hand look cheaper.
  it('the runs of a backfill are made by one plan, however many at a time', async () => {
    const context = { ...side.context, db };
    const item = await side.createExport();
    const endAt = Date.parse('2024-01-01T00:00:00Z');
    const range = {
      startAt: endAt - 8 * hourMs,
      endAt,
      order: 'oldest_first',
      reprocess: 'all',
    } as const;
    const { backfillId } = await startBackfill(context, item, { ...range, concurrency: 1 });
    while ((await advanceBackfill(context, backfillId)) > 0) {
      const run = (await listRuns(db, item.id)).find(({ status }) => status === 'Starting');
      expect(await complete(context, await claim({ db }, run?.id ?? ''))).toBe(true);
    }
    const plans = await db.query(
      `select custom_plans::int as custom, generic_plans > 0 as kept from pg_prepared_statements
      where name like 'sluice%' and statement like '%insert into runs%'`,
    );
    expect(plans).toEqual([{ custom: 5, kept: true }]);
  });

  it('what requests read of an export beside its row, and how they change it, has one plan each', async () => {
    const item = await side.createExport();
    for (let time = 0; time < 8; time += 1) {
      await db.transaction(async (tx) => {
        const locked = await lockExportNow(tx, item.id);
        if (!locked) throw new Error('the export is gone');
        const { batchExport: before } = locked;
        await changeExport(tx, side.actor, 'updated', before, { ...before, name: `Name ${time}` });
      });
      await findExportDetails(db, [item.id]);
    }
    const plans = await db.query(
      `select custom_plans::int as custom, generic_plans::int as kept from pg_prepared_statements
      where statement like any (array['%as now from batch_exports%', '%set ("name"%', '%left join lateral (select r.id%'])`,
    );
    const once = { custom: 5, kept: 3 };
    expect(plans).toEqual([once, once, once]);
  });
});

describe.runIf(isNightly)('a burst of runs', () => {
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
});
