import { randomUUID } from 'node:crypto';
import { beforeEach, expect, it } from 'vitest';
import type { BatchExport } from '../../../src/foundation/domain/batch-export.ts';
import { SluiceError } from '../../../src/foundation/domain/errors.ts';
import { type DataInterval, toTimestamp } from '../../../src/foundation/domain/time.ts';
import { openSchedule } from '../../../src/service/scheduling/schedule.ts';
import { insertRuns } from '../../../src/state/store/runs/runs.ts';
import { readNow } from '../../../src/state/store/intervals/ticks.ts';
import { findOverlaps } from '../../../src/state/store/intervals/verify-queries.ts';
import {
  previewBackfill,
  startBackfill,
} from '../../../src/service/use-cases/backfills/start-backfill.ts';
import { acceptCoverage, readCoverage } from '../../../src/service/use-cases/exports/coverage.ts';
import { recordFault } from '../../../src/service/use-cases/runs/finish-run.ts';
import { exportOfThePast, useRunSide } from '../../support/run-side.ts';
import { advanceBackfill } from '../../support/run-verbs.ts';
import { storeExport } from '../../support/store-export.ts';

const side = useRunSide();
const at = (text: string): number => Date.parse(text);
const show = ({ start, end }: DataInterval) =>
  [start, end].map((bound) => new Date(bound).toISOString().slice(5, 16)).join('/');

/**
 * Lebanon put off summer time by a month, in March 2023, and took that back five days later. An installation with the zone
 * data of those days has exported three days with bounds at 22:00; the data of today says 21:00.
 */
const exported: readonly DataInterval[] = [
  ['2023-03-25T22:00Z', '2023-03-26T22:00Z'],
  ['2023-03-26T22:00Z', '2023-03-27T22:00Z'],
  ['2023-03-27T22:00Z', '2023-03-28T21:00Z'],
].map(([start = '', end = '']) => ({ start: at(start), end: at(end) }));
const failed: DataInterval = { start: at('2023-03-28T21:00Z'), end: at('2023-03-29T21:30Z') };

const month = {
  startAt: at('2023-03-24T22:00Z'),
  endAt: at('2023-03-31T21:00Z'),
  order: 'oldest_first',
  concurrency: 20,
} as const;

/** All of the month in whole intervals: what was decided keeps its bounds. */
const expected = [
  '03-24T22:00/03-25T22:00',
  '03-25T22:00/03-26T22:00',
  '03-26T22:00/03-27T22:00',
  '03-27T22:00/03-28T21:00',
  '03-28T21:00/03-29T21:30',
  '03-29T21:30/03-30T21:00',
  '03-30T21:00/03-31T21:00',
];

let item: BatchExport;

beforeEach(async () => {
  const now = await readNow(side.db);
  const cadence = {
    interval: 'day',
    timezone: 'Asia/Beirut',
    offsetDay: null,
    offsetHour: 0,
  } as const;
  const schedule = openSchedule({ cadence, paused: false, startAt: null, endAt: null }, now);
  const stored = await storeExport(side.db, {
    ...(await exportOfThePast(side)),
    ...{ id: randomUUID(), cadence, schedule },
  });
  if (!stored) throw new Error('the project is full');
  item = stored;
  for (const interval of exported) expect(await side.complete(await runOf(interval))).toBe(true);
  await recordFault(side.context, await runOf(failed), new SluiceError('query.invalid'), 0);
});

async function runOf(interval: DataInterval) {
  const wanted = { exportId: item.id, teamId: item.teamId, interval, backfillId: null };
  const [runId = ''] = await insertRuns(side.db, [wanted]);
  return side.claim(runId);
}

/** Starts a backfill and completes all of its runs. */
async function backfill(reprocess: 'all' | 'failed' | 'none'): Promise<number> {
  const started = await startBackfill(side.context, item, { ...month, reprocess });
  await advanceBackfill(side.context, started.backfillId);
  for (const run of await side.listRuns(item.id)) {
    if (run.status === 'Starting') await side.completeRuns(run.id);
  }
  return started.totalRuns;
}

async function currentIntervals(): Promise<string[]> {
  const rows = await side.sql<{ start: string; end: string }>`
    select data_interval_start as start, data_interval_end as "end" from receipts where export_id = ${item.id}
      order by 1`;
  return rows.map(({ start, end }) => show({ start: at(start), end: at(end) }));
}

it.each([
  ['all', 7],
  ['failed', 4],
  ['none', 3],
] as const)(
  'a backfill of %s computes only what was never decided, cut to fit',
  async (reprocess, runs) => {
    const request = { ...month, reprocess };
    const preview = await previewBackfill(side.context, item, request);
    expect(preview).toMatchObject({ totalRuns: runs, skipped: 7 - runs });
    expect(await backfill(reprocess)).toBe(runs);
    expect(await currentIntervals()).toEqual(
      reprocess === 'none' ? expected.toSpliced(4, 1) : expected,
    );
    expect(await findOverlaps(side.db, item.id)).toEqual([]);
  },
);

it('coverage counts what was decided, and a failed day can be accepted', async () => {
  const request = { from: month.startAt, to: month.endAt };
  const states = async () =>
    (await readCoverage(side.context, item, request)).ranges?.map((range) => [
      range.state,
      range.intervals,
      show(range),
    ]);
  expect(await states()).toEqual([
    ['never_asked', 1, expected[0]],
    ['done', 3, '03-25T22:00/03-28T21:00'],
    ['failed', 1, expected[4]],
    ['never_asked', 2, '03-29T21:30/03-31T21:00'],
  ]);
  const accepted = await acceptCoverage(side.context, side.actor, item.id, {
    ...failed,
    reason: null,
  });
  expect([...accepted.counts]).toEqual([['failed', 1]]);
  expect((await states())?.[2]).toEqual(['accepted', 1, expected[4]]);
  // It stays decided: another backfill has the same bounds.
  await backfill('all');
  expect(await currentIntervals()).toEqual(expected);
});

it('no run is made, and nothing becomes current, that overlaps a current interval with other bounds', async () => {
  const shifted = { start: at('2023-03-26T21:00Z'), end: at('2023-03-27T21:00Z') };
  const wanted = { exportId: item.id, teamId: item.teamId, interval: shifted, backfillId: null };
  expect(await insertRuns(side.db, [wanted])).toEqual([]);
  for (const [start, end] of [
    [shifted.start, shifted.end],
    [exported[1]?.start, shifted.end],
    [at('2023-03-25T23:00Z'), at('2023-03-26T01:00Z')],
    [at('2023-03-20T23:00Z'), at('2023-04-20T01:00Z')],
  ]) {
    const copied = side.sql`
      insert into receipts (export_id, data_interval_start, data_interval_end, run_id, files, rows, bytes, generation,
        era, destination_version)
       select export_id, ${toTimestamp(start ?? 0)}, ${toTimestamp(end ?? 0)}, run_id, files, rows, bytes, generation,
         era, destination_version from receipts where export_id = ${item.id} limit 1`;
    await expect(copied).rejects.toMatchObject({ code: '23P01' });
  }
});
