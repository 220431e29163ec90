import { describe, expect, it } from 'vitest';
import { dispatchWaiting } from '../../../src/service/admission/admission.ts';
import { startBackfill } from '../../../src/service/use-cases/backfills/start-backfill.ts';
import type { Sql } from '../../../src/state/store/database/database.ts';
import {
  findAdvancing,
  planFreePages,
  planLockedPage,
  type PlannedPage,
} from '../../../src/state/store/exports/backfills.ts';
import { lockExport, lockExportNow } from '../../../src/state/store/exports/exports.ts';
import { advanceHighWaterMark } from '../../../src/state/store/intervals/high-water-mark.ts';
import { readNow } from '../../../src/state/store/intervals/ticks.ts';
import { beginLockedCommit } from '../../../src/state/store/runs/completions.ts';
import { reportWorker } from '../../../src/state/store/runs/workers.ts';
import { complete, hourMs, useRunSide } from '../../support/run-side.ts';
import { advanceBackfill } from '../../support/run-verbs.ts';

const leaseMs = 60_000;
const side = useRunSide();

const markOf = (exportId: string) =>
  side.sql.value`select high_water_mark from batch_exports where id = ${exportId}`;

/** An export of four hours that are being backfilled, two at a time. */
async function backfilled() {
  const batchExport = await side.createExport({ createdMsAgo: 0 });
  const endAt = batchExport.schedule.openIntervalStart;
  const range = { startAt: endAt - 4 * hourMs, endAt, concurrency: 2 };
  const request = { ...range, order: 'oldest_first', reprocess: 'all' } as const;
  const { backfillId } = await startBackfill(side.context, batchExport, request);
  const { id: exportId, teamId } = batchExport;
  /** A run of its n-th hour. */
  const runOf = (hour: number) => {
    const start = range.startAt + hour * hourMs;
    return { exportId, teamId, backfillId, interval: { start, end: start + hourMs } };
  };
  return { exportId, backfillId, startAt: range.startAt, runOf };
}

/**
 * Runs `first` in a transaction, and `second`, which must wait for its locks: it began before the first was
 * committed, and sees only what was there when it began.
 */
async function overtake<T>(
  first: (tx: Sql) => Promise<unknown>,
  second: () => Promise<T>,
  last: (tx: Sql) => Promise<unknown> = async () => {},
): Promise<T> {
  const waiting = await side.db.transaction(async (tx) => {
    await first(tx);
    const overtaken = second();
    await side.untilLocked();
    await last(tx);
    return { overtaken };
  });
  return waiting.overtaken;
}

it('a claim that waits for the last holder sees what that holder wrote', async () => {
  const { runId } = await side.waitingRun();
  const before = await side.claim(runId);
  await side.expireLease(runId);
  const files = { files: [{ key: 'f' }], rejectedFiles: [] };
  const intent = { ...files, generation: 1, manifestKey: 'm', begunManifests: ['digest'] };
  const next = await overtake(
    // It extends the lease, which is over before the claim gets the row.
    (tx) => beginLockedCommit(tx, { run: before, intent }, leaseMs),
    () => side.claim(runId),
    (tx) =>
      tx.query(`update runs set lease_expires_at = now() - interval '1 s' where id = $1`, [runId]),
  );
  expect(next).toMatchObject({
    fence: before.fence + 1,
    fileGeneration: before.fileGeneration + 1,
    commitIntent: intent,
    mayBeOvertaken: true,
    begunManifests: ['digest'],
  });
});

describe('a completion that waits for another transaction', () => {
  it('moves the mark over the intervals of both', async () => {
    const { id, runIds } = await side.exportWithRuns(2);
    const [first, second] = [await side.claim(runIds[0]), await side.claim(runIds[1])];
    const joined = (tx: Sql) => ({
      ...side.context,
      db: { ...tx, transaction: side.db.transaction },
    });
    expect(
      await overtake(
        (tx) => complete(joined(tx), first),
        () => side.complete(second),
      ),
    ).toBe(true);
    expect(await markOf(id)).toBe((await side.listRuns(id))[1]?.end);
  });

  it('moves it over a later interval that was accepted meanwhile', async () => {
    const { id, runIds } = await side.exportWithRuns(2);
    const first = await side.claim(runIds[0]);
    await overtake(
      async (tx) => {
        await lockExport(tx, id);
        await tx.query(
          `insert into accepted_intervals (export_id, data_interval_start, data_interval_end)
           select export_id, data_interval_start, data_interval_end from runs where id = $1`,
          [runIds[1]],
        );
      },
      () => side.complete(first),
      (tx) => advanceHighWaterMark(tx, id),
    );
    expect(await markOf(id)).toBe((await side.listRuns(id))[1]?.end);
  });
});

describe('a page of a backfill', () => {
  it('that another worker has planned meanwhile makes no run', async () => {
    const { exportId, backfillId, startAt, runOf } = await backfilled();
    const [seen] = await findAdvancing(side.db, [backfillId]);
    expect(seen).toMatchObject({ liveRuns: 0, plannedTo: null });
    expect(await advanceBackfill(side.context, backfillId)).toBe(2);
    const run = runOf(2);
    const plannedTo = run.interval.start;
    const stale = { backfillId, after: null, plannedTo, intervals: 1, runs: [run] };
    expect(await planLockedPage(side.db, stale)).toBeNull();
    expect(await planFreePages(side.db, [stale])).toEqual([null]);
    expect(await side.listRuns(exportId)).toHaveLength(2);
    expect(await planLockedPage(side.db, { ...stale, after: startAt + hourMs })).toBe(1);
  });

  it('is planned with those of others, without waiting for a backfill or an export that is locked', async () => {
    const pages: PlannedPage[] = [];
    for (let n = 0; n < 4; n += 1) {
      const { backfillId, startAt, runOf } = await backfilled();
      const runs = [runOf(0), runOf(1)];
      const plannedTo = startAt + hourMs;
      // The second one gets a run for one interval of its two only.
      const wanted = n === 1 ? runs.slice(0, 1) : runs;
      pages.push({ backfillId, after: null, plannedTo, intervals: 2, runs: wanted });
    }
    const [, , locked, ofLocked] = pages;
    const planned = await side.db.transaction(async (tx) => {
      const [backfill, batchExport] = [locked?.backfillId, ofLocked?.runs[0]?.exportId];
      await tx.query('select from backfills where id = $1 for update', [backfill]);
      await tx.query('select from batch_exports where id = $1 for update', [batchExport]);
      return planFreePages(side.db, pages);
    });
    expect(planned).toEqual([2, 1, null, null]);
    const found = await findAdvancing(
      side.db,
      pages.map(({ backfillId }) => backfillId),
    );
    const facts = found.map((one) => [one?.liveRuns, one?.totalRuns, one?.plannedTo ?? null]);
    const [first, second] = pages.map(({ plannedTo }) => plannedTo);
    expect(facts).toEqual([
      [2, 4, first],
      [1, 3, second],
      [0, 4, null],
      [0, 4, null],
    ]);
    expect(await planFreePages(side.db, pages.slice(2))).toEqual([2, 2]);
  });
});

describe('a dispatcher that waits for another one', () => {
  it('sees what that one has chosen, and chooses no more than the limits allow', async () => {
    const { id } = await side.exportWithRuns(2);
    // By itself it would choose the oldest.
    const [waiting = '', chosen = ''] = await side.sql.values<string>`
      select run_id from outbox where export_id = ${id} order by data_interval_start`;
    await reportWorker(side.db, 'one', 100);
    const context = side.withPolicy({ maxRunsPerExport: 1, maxRunsPerTenant: 100 });
    const enqueued: string[] = [];
    const dispatch = () =>
      dispatchWaiting(context, async (taken) => {
        enqueued.push(...taken.map(({ runId }) => runId));
      });
    await overtake(async (tx) => {
      await tx.query('update installation set turn = turn + 1');
      await tx.query(
        'update outbox set dispatched_at = now(), times_enqueued = 1 where run_id = $1',
        [chosen],
      );
    }, dispatch);
    expect(enqueued).not.toContain(waiting);
    expect(enqueued).not.toContain(chosen);
    await side.sql`delete from outbox where run_id = ${chosen}`;
    await dispatch();
    expect(enqueued).toContain(waiting);
  });

  it('passes over an entry that another transaction has locked', async () => {
    const [first, second] = [await side.exportWithRuns(1), await side.exportWithRuns(1)];
    await reportWorker(side.db, 'one', 100);
    const context = side.withPolicy({ maxRunsPerTenant: 100 });
    const enqueued: string[] = [];
    const enqueue = () =>
      dispatchWaiting(context, async (entries) => {
        enqueued.push(...entries.map(({ runId }) => runId));
      });
    await side.db.transaction(async (tx) => {
      await tx.query('select from outbox where run_id = any ($1::uuid[]) for update', [
        first.runIds,
      ]);
      await enqueue();
      expect(enqueued).toEqual(expect.arrayContaining(second.runIds));
      expect(enqueued).not.toEqual(expect.arrayContaining(first.runIds));
    });
    await enqueue();
    expect(enqueued).toEqual(expect.arrayContaining(first.runIds));
  });
});

it('a change of an export that waits for another change starts from what that one wrote, and has a later time', async () => {
  const { id } = await side.createExport({ createdMsAgo: 0 });
  let committedAt = 0;
  const locked = await overtake(
    (tx) => tx.query(`update batch_exports set name = 'The first' where id = $1`, [id]),
    () => side.db.transaction((tx) => lockExportNow(tx, id)),
    async (tx) => {
      committedAt = await readNow(tx);
    },
  );
  expect(locked?.batchExport.name).toBe('The first');
  expect(locked?.now).toBeGreaterThanOrEqual(committedAt);
});
