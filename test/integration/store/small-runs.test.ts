import { expect, it } from 'vitest';
import type { BatchExport } from '../../../src/foundation/domain/batch-export.ts';
import { expectLarge } from '../../../src/state/store/runs/outbox.ts';
import { insertRuns } from '../../../src/state/store/runs/runs.ts';
import { reportWorker } from '../../../src/state/store/runs/workers.ts';
import { dispatchRuns, type QueueEntry } from '../../../src/service/admission/admission.ts';
import { releaseOutgrown } from '../../../src/service/use-cases/runs/finish-run.ts';
import { hourMs, openRunSide } from '../../support/run-side.ts';
import { useEach } from '../../support/use-stage.ts';

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
  expect(await side.complete(await side.claim(runId))).toBe(true);
  await side.sql`update receipts set bytes = ${bytes}, rows = ${rows} where run_id = ${runId}`;
}

async function isSmall(runId: string): Promise<boolean | undefined> {
  const [row] = await side.sql<{ small: boolean }>`
    select small from outbox where run_id = ${runId}`;
  return row?.small;
}

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
