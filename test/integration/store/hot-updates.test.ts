import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Database } from '../../../src/state/store/database/database.ts';
import { findExportDetails } from '../../../src/state/store/exports/export-lists.ts';
import { lockExportNow } from '../../../src/state/store/exports/exports.ts';
import { confirmLease } from '../../../src/state/store/runs/leases.ts';
import { recordProgress } from '../../../src/state/store/runs/runs.ts';
import { startBackfill } from '../../../src/service/use-cases/backfills/start-backfill.ts';
import { changeExport } from '../../../src/service/use-cases/exports/activity.ts';
import {
  claim,
  complete,
  createExportOfThePast,
  decide,
  emptyCommit,
  hourMs,
  listRuns,
  openRunSide,
  openTestPool,
  type RunSide,
} from '../../support/run-side.ts';
import { advanceBackfill, beginCommit } from '../../support/run-verbs.ts';

const runs = 200;
const progress = { totalRows: 1_000, rows: 500, bytes: 50_000, files: 1 };
const cursor = { key: 'a'.repeat(100) };

let side: RunSide;
/** One connection, so that all counts come from one session. */
let db: Database;
beforeAll(async () => {
  side = await openRunSide();
  db = openTestPool(side.url, 1);
});
afterAll(async () => {
  await db?.close();
  await side?.stop();
});

it('most updates of a run, and of its export, stay on their page and touch no index', async () => {
  const context = { ...side.context, db };
  const item = await createExportOfThePast(side, { createdMsAgo: runs * hourMs });
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
  const item = await createExportOfThePast(side);
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
  const item = await createExportOfThePast(side);
  const actor = { organizationId: side.tenant.organizationId, keyId: null };
  for (let time = 0; time < 8; time += 1) {
    await db.transaction(async (tx) => {
      const locked = await lockExportNow(tx, item.id);
      if (!locked) throw new Error('the export is gone');
      const { batchExport: before } = locked;
      await changeExport(tx, actor, 'updated', before, { ...before, name: `Name ${time}` });
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
