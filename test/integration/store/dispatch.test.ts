import { beforeEach, describe, expect, it } from 'vitest';
import { readServiceState } from '../../../src/state/store/database/service-state.ts';
import { insertProject } from '../../../src/state/store/tenants/tenants.ts';
import { reportWorker } from '../../../src/state/store/runs/workers.ts';
import { dispatchRuns, type QueueEntry } from '../../../src/service/admission/admission.ts';
import { hourMs, openRunSide, useRunSide } from '../../support/run-side.ts';
import { useEach } from '../../support/use-stage.ts';
import type { BatchExport } from '../../../src/foundation/domain/batch-export.ts';
import { expectLarge } from '../../../src/state/store/runs/outbox.ts';
import { insertRuns } from '../../../src/state/store/runs/runs.ts';
import { atNight } from '../../support/nightly.ts';
import { releaseOutgrown } from '../../../src/service/use-cases/runs/finish-run.ts';

const side = useRunSide();
beforeEach(async () => {
  await side.sql`delete from outbox`;
  await side.sql`delete from workers`;
  await side.sql`
    update runs set status = 'Cancelled', finished_at = now() where finished_at is null`;
});

/** One dispatch into a queue that takes all. */
async function dispatch(context = side.context): Promise<string[]> {
  const enqueued: QueueEntry[] = [];
  await dispatchRuns(context, async (entries) => void enqueued.push(...entries));
  return enqueued.map((entry) => entry.runId);
}

async function exportsOf(runIds: readonly string[]): Promise<string[]> {
  const rows = await side.sql<{ id: string; exportId: string }>`
    select id, export_id as "exportId" from runs where id = any (${runIds}::uuid[])`;
  return runIds.map((runId) => rows.find((row) => row.id === runId)?.exportId ?? '');
}

function age(seconds: number): Promise<unknown> {
  return side.sql`
    update outbox set dispatched_at = dispatched_at - ${seconds} * interval '1 s'
      where dispatched_at is not null`;
}

/** Makes `count` waiting runs of an export, live or of a new backfill, oldest interval first. */
async function addWaiting(
  exportId: string,
  count: number,
  { backfill = false, inHours = 0 } = {},
): Promise<void> {
  await side.sql`with b as (
       insert into backfills (export_id, team_id, start_at, end_at, concurrency, total_runs)
       select id, team_id, now() - interval '1 day', now(), 5, 5 from batch_exports where id = ${exportId} and ${backfill}
       returning id
     ), r as (
       insert into runs (export_id, team_id, backfill_id, data_interval_start, data_interval_end)
       select e.id, e.team_id, (select id from b), now() - make_interval(mins => 5 * n),
         now() - make_interval(mins => 5 * n - 5)
         from batch_exports e, generate_series(1, ${count}::int) n where e.id = ${exportId}
       returning *
     )
     insert into outbox (run_id, team_id, export_id, backfill_id, data_interval_start, available_at)
     select id, team_id, export_id, backfill_id, data_interval_start, now() + make_interval(hours => ${inHours}) from r`;
}

describe('the dispatcher', () => {
  it('keeps at most twice the capacity of all workers in the queue', async () => {
    const context = side.withPolicy({ maxRunsPerExport: 100, maxRunsPerTenant: 100 });
    const { id } = await side.createExport();
    await addWaiting(id, 50);
    expect(await dispatch(context)).toHaveLength(0);
    await reportWorker(side.db, 'one', 1);
    await reportWorker(side.db, 'two', 2);
    const [first = ''] = await dispatch(context);
    expect(await dispatch(context)).toHaveLength(0);
    await side.claim(first);
    expect(await dispatch(context)).toHaveLength(1);
    const dispatched = await side.sql`select 1 from outbox where dispatched_at is not null`;
    expect(dispatched).toHaveLength(6);
  });

  it('dispatches each run once, however many workers dispatch at the same moment', async () => {
    const context = side.withPolicy({ maxRunsPerExport: 100, maxRunsPerTenant: 100 });
    const { id } = await side.createExport();
    await addWaiting(id, 40);
    await reportWorker(side.db, 'one', 50);
    const enqueued = (await Promise.all(Array.from({ length: 8 }, () => dispatch(context)))).flat();
    expect(enqueued).toHaveLength(40);
    expect(new Set(enqueued).size).toBe(40);
  });

  it('skips runs that are not due yet', async () => {
    const { id } = await side.createExport();
    await addWaiting(id, 1, { inHours: 1 });
    await reportWorker(side.db, 'one', 4);
    expect(await dispatch()).toHaveLength(0);
    await side.sql`update outbox set available_at = now() - interval '1 s'`;
    expect(await dispatch()).toHaveLength(1);
  });

  it('starts runs that a clock noted which was set back since', async () => {
    const waiting = await side.createExport();
    const enqueued = await side.createExport();
    await reportWorker(side.db, 'one', 4);
    await addWaiting(enqueued.id, 1);
    const [first = ''] = await dispatch();
    await addWaiting(waiting.id, 1);
    await side.sql`update outbox set available_at = available_at + interval '3 hours'`;
    const [second = ''] = await dispatch();
    expect(await exportsOf([first, second])).toEqual([enqueued.id, waiting.id]);
    for (const runId of [first, second]) expect(await side.claim(runId)).toMatchObject({ runId });
    expect(await side.sql`select from outbox`).toEqual([]);
  });

  it('a run that was ready can be claimed after the clock was set back by half an hour', async () => {
    const { id } = await side.createExport();
    await addWaiting(id, 1);
    await reportWorker(side.db, 'one', 4);
    const [runId = ''] = await dispatch();
    await side.sql`update outbox set available_at = available_at + interval '30 minutes'`;
    expect(await side.claim(runId)).toMatchObject({ runId });
    expect(await side.sql`select from outbox`).toEqual([]);
  });

  it('re-enqueues lost jobs after five seconds, then after twice as long each time, as new entries', async () => {
    const { id } = await side.createExport();
    await addWaiting(id, 1);
    await reportWorker(side.db, 'one', 4);
    const ids: (string | null)[] = [];
    const enqueue = async (entries: readonly QueueEntry[]) =>
      void ids.push(...entries.map((entry) => entry.deduplicationId));
    await dispatchRuns(side.context, enqueue);
    await dispatchRuns(side.context, enqueue);
    expect(ids).toHaveLength(1);
    for (let times = 0; times < 7; times += 1) {
      await age(6);
      await dispatchRuns(side.context, enqueue);
    }
    expect(ids).toHaveLength(8);
    // The first time the run is enqueued once only. That job may have died with a worker that fetched it and ended.
    expect(ids[0]).toBeNull();
    expect(ids[1]).not.toBeNull();
    expect(new Set(ids).size).toBe(4);
  });

  it('re-enqueues what was dispatched at a later time than now, after a clock went back', async () => {
    const { id } = await side.createExport();
    await addWaiting(id, 1);
    await reportWorker(side.db, 'one', 4);
    await dispatch();
    await age(-3_600);
    expect(await dispatch()).toHaveLength(1);
  });

  it('undoes a dispatch that the queue did not accept, and reports it to its caller', async () => {
    const { id } = await side.createExport();
    await addWaiting(id, 2);
    await reportWorker(side.db, 'one', 4);
    const away = new Error('the queue is unreachable');
    await expect(dispatchRuns(side.context, () => Promise.reject(away))).rejects.toBe(away);
    expect(await dispatch()).toHaveLength(2);
  });
});

describe('tens of thousands of runs that wait for their time', () => {
  atNight('add no cost to a dispatch: it reads only those that may start', async () => {
    const project = await insertProject(side.db, {
      organizationId: side.tenant.organizationId,
      name: 'Small',
    });
    const { id } = await side.createExport();
    const small = await side.createExport({ teamId: project.id });
    await addWaiting(id, 30_000, { inHours: 1 });
    await addWaiting(small.id, 1);
    await side.sql`analyze outbox`;
    await reportWorker(side.db, 'one', 4);
    const before = await bufferHits();
    expect(await dispatch()).toHaveLength(1);
    expect((await bufferHits()) - before).toBeLessThan(200);
    expect((await readServiceState(side.db)).waitingLive).toBe(1);
  });

  /** Pages of the outbox and its indexes that were looked at so far, in all sessions. */
  async function bufferHits(): Promise<number> {
    await side.sql`select pg_stat_force_next_flush()`;
    const [row] = await side.sql<{ hits: number }>`
      select (pg_stat_get_blocks_hit('outbox'::regclass) + (
         select sum(pg_stat_get_blocks_hit(indexrelid)) from pg_index where indrelid = 'outbox'::regclass))::int as hits`;
    return row?.hits ?? 0;
  }
});

describe('small runs', () => {
  /** Which runs are expected to be small, and that they wait for no large one. */

  const side = useEach(() => openRunSide({ maxRunsPerExport: 100, maxRunsPerTenant: 100 }));

  /** A run of the hour that began so many hours ago. */
  async function addRun({ id, teamId }: BatchExport, hoursAgo: number): Promise<string> {
    const start = Date.parse('2024-03-02T00:00:00Z') - hoursAgo * hourMs;
    const interval = { start, end: start + hourMs };
    const [runId = ''] = await insertRuns(side.db, [
      { exportId: id, teamId, interval, backfillId: null },
    ]);
    return runId;
  }

  async function addCompleted(batchExport: BatchExport, hoursAgo: number, bytes = 0, rows = 0) {
    const runId = await addRun(batchExport, hoursAgo);
    await side.completeRuns(runId);
    await side.sql`update receipts set bytes = ${bytes}, rows = ${rows} where run_id = ${runId}`;
  }

  const isSmall = (runId: string) =>
    side.sql.value`select small from outbox where run_id = ${runId}`;

  async function dispatch(): Promise<QueueEntry[]> {
    const enqueued: QueueEntry[] = [];
    await dispatchRuns(side.context, async (entries) => void enqueued.push(...entries));
    return enqueued;
  }

  it('a run is small if its neighbours were, and if nothing is known', async () => {
    const batchExport = await side.createExport();
    expect(await isSmall(await addRun(batchExport, 90))).toBe(true);
    for (const hoursAgo of [70, 50, 30]) await addCompleted(batchExport, hoursAgo, 100_000, 1_000);
    for (const hoursAgo of [80, 69, 29]) {
      expect(await isSmall(await addRun(batchExport, hoursAgo))).toBe(true);
    }
    await addCompleted(batchExport, 20, 140_000, 10);
    expect(await isSmall(await addRun(batchExport, 25))).toBe(false);
    expect(await isSmall(await addRun(batchExport, 15))).toBe(false);
    // Three others are nearer now.
    for (const hoursAgo of [14, 13, 12]) await addCompleted(batchExport, hoursAgo);
    expect(await isSmall(await addRun(batchExport, 11))).toBe(true);
    await addCompleted(batchExport, 10, 10, 2_001);
    expect(await isSmall(await addRun(batchExport, 9))).toBe(false);
  });

  it('a run that was not small as expected comes again as a large one, and so do the next ones for a day', async () => {
    const batchExport = await side.createExport();
    await addCompleted(batchExport, 50);
    const runId = await addRun(batchExport, 49);
    expect(await isSmall(runId)).toBe(true);
    await releaseOutgrown(side.context, await side.claim(runId));
    expect(await isSmall(runId)).toBe(false);
    expect(await isSmall(await addRun(batchExport, 48))).toBe(false);
    const faults = await side.sql`select 1 from runs where faults > 0 or crashes > 0`;
    expect(faults).toEqual([]);
    await side.sql`update batch_exports set outgrew_at = outgrew_at - interval '25 hours'`;
    const next = await addRun(batchExport, 47);
    expect(await isSmall(next)).toBe(true);
    await reportWorker(side.db, 'one', 10, 10);
    expect((await dispatch()).find((entry) => entry.runId === next)).toMatchObject({ small: true });
    await expectLarge(side.db, next);
    expect(await dispatch()).toMatchObject([{ runId: next, small: false }]);
    expect(await isSmall(await addRun(batchExport, 46))).toBe(false);
  });
});
