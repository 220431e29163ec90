import { expect, test } from 'vitest';
import { SluiceError } from '../../../src/foundation/domain/errors.ts';
import type { Reprocess } from '../../../src/foundation/domain/backfill.ts';
import { insertRuns } from '../../../src/state/store/runs/runs.ts';
import {
  type BackfillRequest,
  previewBackfill,
  startBackfill,
} from '../../../src/service/use-cases/backfills/start-backfill.ts';
import {
  claim,
  complete,
  createExportOfThePast,
  failAttempt,
  hourMs,
  listRuns,
} from '../../support/run-side.ts';
import { advanceBackfill } from '../../support/run-verbs.ts';
import { useRunSide } from '../../support/use-run-side.ts';

const side = useRunSide();

/** What has become of an interval before the backfill. */
type Before = 'done' | 'failed' | 'live' | 'none';

/** An hourly export whose last hours are in these states, oldest first, and a request for all of them. */
async function createWith(hours: readonly Before[], reprocess: Reprocess) {
  const batchExport = await createExportOfThePast(side, { createdMsAgo: 0 });
  const { id: exportId, teamId } = batchExport;
  const endAt = batchExport.schedule.openIntervalStart;
  const startAt = endAt - hours.length * hourMs;
  for (const [hour, before] of hours.entries()) {
    if (before === 'none') continue;
    const start = startAt + hour * hourMs;
    const run = { exportId, teamId, interval: { start, end: start + hourMs }, backfillId: null };
    const [runId = ''] = await insertRuns(side.db, [run]);
    if (before === 'done') await complete(side.context, await claim(side, runId));
    const denied = new SluiceError('query.invalid');
    if (before === 'failed') await failAttempt(side, side.context, runId, denied);
  }
  const request: BackfillRequest = {
    startAt,
    endAt,
    reprocess,
    order: 'oldest_first',
    concurrency: 100,
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
  const runs = await listRuns(side.db, batchExport.id);
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
  expect(totalRuns).toBe(0);
  const [row] = await side.db.query(
    'select status, total_runs as total from backfills where id = $1',
    [backfillId],
  );
  expect(row).toEqual({ status: 'Completed', total: 0 });
  const [entry] = await side.db.query<{ message: string }>(
    'select message from log_entries where export_id = $1 order by id desc limit 1',
    [batchExport.id],
  );
  expect(entry?.message).toContain('has nothing to export: each of its 2 intervals is exported');
});
