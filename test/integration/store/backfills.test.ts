import { describe, expect, it, test } from 'vitest';
import type { BatchExport } from '../../../src/foundation/domain/batch-export.ts';
import { SluiceError } from '../../../src/foundation/domain/errors.ts';
import {
  type BackfillRequest,
  previewBackfill,
  startBackfill,
} from '../../../src/service/use-cases/backfills/start-backfill.ts';
import { cancelBackfill } from '../../../src/service/use-cases/runs/cancel-work.ts';
import { hourMs, type RunRow, useRunSide } from '../../support/run-side.ts';
import { advanceBackfill } from '../../support/run-verbs.ts';
import type { Reprocess } from '../../../src/foundation/domain/backfill.ts';
import { insertRuns } from '../../../src/state/store/runs/runs.ts';

const side = useRunSide();

/** An hourly export that was just made, and its `hours` intervals before. */
async function quietExport(hours: number) {
  const batchExport = await side.createExport({ createdMsAgo: 0 });
  const endAt = batchExport.schedule.openIntervalStart;
  return { batchExport, range: { startAt: endAt - hours * hourMs, endAt } };
}

const start = (batchExport: BatchExport, request: Partial<BackfillRequest>) =>
  startBackfill(side.context, batchExport, {
    ...{ startAt: null, endAt: null, order: 'oldest_first', reprocess: 'all', concurrency: 2 },
    ...request,
  });

/** A backfill of all hours of such an export. */
async function startOf(hours: number, request: Partial<BackfillRequest> = {}) {
  const { batchExport, range } = await quietExport(hours);
  return { ...(await start(batchExport, { ...range, ...request })), batchExport, range };
}

async function liveRuns(exportId: string): Promise<RunRow[]> {
  const runs = await side.listRuns(exportId);
  return runs.filter(({ status }) => status === 'Starting' || status === 'Running');
}

/** Works the backfill off; gives the order in which intervals were started. */
async function workOff(exportId: string, backfillId: string): Promise<string[]> {
  const started: string[] = [];
  for (;;) {
    await advanceBackfill(side.context, backfillId);
    const live = await liveRuns(exportId);
    if (live.length === 0) return started;
    for (const run of live) if (!started.includes(run.start)) started.push(run.start);
    await side.completeRuns(live[0]?.id);
  }
}

async function statusOf(backfillId: string) {
  const [row] = await side.sql<{ status: string; total: number }>`
    select status, total_runs as total from backfills where id = ${backfillId}`;
  return row;
}

describe('a backfill', () => {
  it('makes a run of each interval, oldest first, never more live than its concurrency', async () => {
    const { batchExport, backfillId, totalRuns } = await startOf(7, { concurrency: 3 });
    expect([totalRuns, await advanceBackfill(side.context, backfillId)]).toEqual([7, 3]);
    expect(await advanceBackfill(side.context, backfillId)).toBe(0);
    const started = await workOff(batchExport.id, backfillId);
    expect(started).toHaveLength(7);
    expect(started).toEqual(started.toSorted());
    expect(await statusOf(backfillId)).toEqual({ status: 'Completed', total: 7 });
  });

  it('goes backwards if the newest are wanted first', async () => {
    const backwards = { order: 'newest_first', concurrency: 1 } as const;
    const { batchExport, backfillId } = await startOf(5, backwards);
    const started = await workOff(batchExport.id, backfillId);
    expect(started).toHaveLength(5);
    expect(started).toEqual(started.toSorted().toReversed());
  });

  it('is advanced by many workers at once without an extra run, and ends once', async () => {
    const { batchExport, backfillId } = await startOf(6, { concurrency: 4 });
    const advanceAll = () =>
      Promise.all(Array.from({ length: 6 }, () => advanceBackfill(side.context, backfillId)));
    expect((await advanceAll()).reduce((sum, made) => sum + made)).toBe(4);
    const ended = async () => (await statusOf(backfillId))?.status === 'Completed';
    while (!(await ended())) {
      await side.completeRuns(...(await liveRuns(batchExport.id)).map(({ id }) => id));
      await advanceAll();
    }
    expect(await side.listRuns(batchExport.id)).toHaveLength(6);
    const logs = await side.sql`
      select message from log_entries where export_id = ${batchExport.id} and message like '%has ended%'`;
    expect(logs).toHaveLength(1);
  });

  it('continues at the same interval after its worker is lost, and its failed runs do not stop it', async () => {
    const { batchExport, backfillId } = await startOf(4, { concurrency: 1 });
    await advanceBackfill(side.context, backfillId);
    const crash = new Error('killed');
    const context = {
      ...side.context,
      db: {
        ...side.db,
        query: <Row extends object>(text: string, values?: readonly unknown[]) =>
          text.includes('insert into runs')
            ? Promise.reject(crash)
            : side.db.query<Row>(text, values),
      },
    };
    const [first] = await liveRuns(batchExport.id);
    await side.failAttempt(first?.id ?? '', new SluiceError('query.invalid'));
    await expect(advanceBackfill(context, backfillId)).rejects.toBe(crash);
    expect(await liveRuns(batchExport.id)).toHaveLength(0);
    expect(await workOff(batchExport.id, backfillId)).toHaveLength(3);
    expect(await statusOf(backfillId)).toEqual({ status: 'Completed', total: 4 });
  });

  it.each(['oldest_first', 'newest_first'] as const)(
    'of all waits for a live run that has read its interval already, and runs it again (%s)',
    async (order) => {
      const batchExport = await side.createExport({ createdMsAgo: 1 * hourMs });
      await side.decide();
      const [live] = await side.listRuns(batchExport.id);
      const reading = await side.claim(live?.id);
      // Rows that are written from now on are not in the snapshot of that run.
      const startAt = Date.parse(live?.start ?? '') - hourMs;
      const range = { startAt, endAt: startAt + 2 * hourMs };
      const { backfillId, totalRuns } = await start(batchExport, {
        ...{ ...range, order, concurrency: 5 },
      });
      expect(totalRuns).toBe(2);
      const newest = (runs: readonly RunRow[]) => runs.filter(({ start }) => start === live?.start);
      await advanceBackfill(side.context, backfillId);
      expect(newest(await liveRuns(batchExport.id))).toHaveLength(1);
      expect(await statusOf(backfillId)).toMatchObject({ status: 'Running' });

      expect(await side.complete(reading)).toBe(true);
      expect(await workOff(batchExport.id, backfillId)).toContain(live?.start);
      const [before, after, ...more] = newest(await side.listRuns(batchExport.id));
      expect([before, after]).toMatchObject([{ backfillId: null }, { backfillId }]);
      expect(more).toEqual([]);
      const [{ id, generation } = {}] = await side.sql<{ id: string; generation: number }>`
        select run_id as id, generation from receipts where export_id = ${batchExport.id}
          and data_interval_start = ${live?.start}`;
      expect({ id, generation }).toEqual({ id: after?.id, generation: reading.fileGeneration + 1 });
      expect(await statusOf(backfillId)).toEqual({ status: 'Completed', total: 2 });
    },
  );

  it('without work in many pages ends all the same', async () => {
    const { batchExport, range, ...first } = await startOf(1_200, { concurrency: 1_200 });
    await advanceBackfill(side.context, first.backfillId);
    await side.sql`
      update runs set status = 'Failed', finished_at = now() where export_id = ${batchExport.id}`;
    await advanceBackfill(side.context, first.backfillId);
    const { backfillId } = await start(batchExport, { ...range, reprocess: 'none' });
    expect(await advanceBackfill(side.context, backfillId)).toBe(0);
    expect(await statusOf(backfillId)).toEqual({ status: 'Completed', total: 0 });
  });

  it('is refused if another one of an overlapping range is running, also at the same moment', async () => {
    const { batchExport, range } = await quietExport(6);
    const outcomes = await Promise.allSettled(
      [0, 1, 2].map((shift) =>
        start(batchExport, { ...range, startAt: range.startAt + shift * hourMs }),
      ),
    );
    const refused = { status: 'rejected', reason: { problems: [{ code: 'conflict' }] } };
    expect(outcomes.toSorted((a, b) => a.status.localeCompare(b.status))).toMatchObject([
      { status: 'fulfilled' },
      refused,
      refused,
    ]);
    const beside = { startAt: range.startAt - 3 * hourMs, endAt: range.startAt };
    expect(await start(batchExport, beside)).toMatchObject({ totalRuns: 3 });
  });
});

describe('cancelling a backfill', () => {
  it('lets its live runs finish if that is wanted, and makes no more', async () => {
    const { batchExport, backfillId } = await startOf(5);
    await advanceBackfill(side.context, backfillId);
    const cancel = () => cancelBackfill(side.context, batchExport.id, backfillId, 'finish');
    await cancel();
    const live = await liveRuns(batchExport.id);
    expect(live).toHaveLength(2);
    for (const run of live) await side.completeRuns(run.id);
    expect(await advanceBackfill(side.context, backfillId)).toBe(0);
    expect(await statusOf(backfillId)).toMatchObject({ status: 'Cancelled' });
    await expect(cancel()).rejects.toThrow('The backfill has ended');
  });

  it('cancels its live runs, and those a worker is making at that moment', async () => {
    for (let round = 0; round < 5; round += 1) {
      const { batchExport, backfillId } = await startOf(5);
      await Promise.all([
        advanceBackfill(side.context, backfillId),
        cancelBackfill(side.context, batchExport.id, backfillId, 'cancel'),
      ]);
      expect(await liveRuns(batchExport.id)).toEqual([]);
      expect(await statusOf(backfillId)).toMatchObject({ status: 'Cancelled' });
    }
  });
});

/** What has become of an interval before the backfill. */
type Before = 'done' | 'failed' | 'live' | 'none';

/** An hourly export whose last hours are in these states, oldest first, and a request for all of them. */
async function createWith(hours: readonly Before[], reprocess: Reprocess) {
  const batchExport = await side.createExport({ createdMsAgo: 0 });
  const { id: exportId, teamId } = batchExport;
  const endAt = batchExport.schedule.openIntervalStart;
  const startAt = endAt - hours.length * hourMs;
  for (const [hour, before] of hours.entries()) {
    if (before === 'none') continue;
    const start = startAt + hour * hourMs;
    const run = { exportId, teamId, interval: { start, end: start + hourMs }, backfillId: null };
    const [runId = ''] = await insertRuns(side.db, [run]);
    if (before === 'done') await side.completeRuns(runId);
    const denied = new SluiceError('query.invalid');
    if (before === 'failed') await side.failAttempt(runId, denied);
  }
  const request: BackfillRequest = {
    ...{ startAt, endAt, reprocess, order: 'oldest_first', concurrency: 100 },
  };
  return { batchExport, request };
}

test.each([
  ['all', 5],
  ['failed', 4],
  ['none', 2],
] as const)('the preview of %s is the runs that it makes: %i', async (reprocess, expected) => {
  const hours = ['done', 'failed', 'none', 'live', 'failed', 'none'] as const;
  const { batchExport, request } = await createWith(hours, reprocess);
  const preview = await previewBackfill(side.context, batchExport, request);
  expect(preview).toMatchObject({ totalRuns: expected, skipped: hours.length - expected });

  const { backfillId, totalRuns } = await startBackfill(side.context, batchExport, request);
  expect(totalRuns).toBe(expected);
  await advanceBackfill(side.context, backfillId);
  const runs = await side.listRuns(batchExport.id);
  const made = runs
    .filter((run) => run.backfillId === backfillId)
    .map((run) => Date.parse(run.start));
  expect(made).toEqual(preview.intervals.map(({ start }) => start));
});

test('a backfill of 0 runs says so, and has ended', async () => {
  const { batchExport, request } = await createWith(['done', 'done'], 'failed');
  const preview = await previewBackfill(side.context, batchExport, request);
  expect(preview).toMatchObject({ totalRuns: 0, skipped: 2, intervals: [] });
  const { backfillId, totalRuns } = await startBackfill(side.context, batchExport, request);
  expect([totalRuns, await statusOf(backfillId)]).toEqual([0, { status: 'Completed', total: 0 }]);
  const message = await side.sql.value`
    select message from log_entries where export_id = ${batchExport.id} order by id desc limit 1`;
  expect(message).toContain('has nothing to export: each of its 2 intervals is exported');
});
