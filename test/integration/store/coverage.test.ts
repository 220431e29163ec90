import { timelineOf } from '../../../src/service/scheduling/timeline.ts';
import { beforeAll, describe, expect, it } from 'vitest';
import type { BatchExport } from '../../../src/foundation/domain/batch-export.ts';
import type { CoverageState } from '../../../src/foundation/domain/coverage.ts';
import { SluiceError } from '../../../src/foundation/domain/errors.ts';
import { type Instant, toTimestamp } from '../../../src/foundation/domain/time.ts';
import { acceptIntervals, findHoles } from '../../../src/state/store/intervals/coverage.ts';
import { advanceHighWaterMark } from '../../../src/state/store/intervals/high-water-mark.ts';
import { findGaps } from '../../../src/state/store/intervals/verify-queries.ts';
import { coverageOf } from '../../../src/service/use-cases/exports/coverage.ts';
import { allowBriefReceipts } from '../../support/brief-receipts.ts';
import { isNightly } from '../../support/nightly.ts';
import { hourMs, useRunSide } from '../../support/run-side.ts';

const side = useRunSide({ secondOpinionMs: 0 });
beforeAll(() => allowBriefReceipts(side.db));

const hours = 24;

/** What the test did to one interval, and so what its state must be. */
interface Past {
  readonly start: Instant;
  tick: 'ran' | 'paused' | 'outside_window' | null;
  receipt: 'settled' | 'unsettled' | null;
  lastRun: 'Failed' | 'FailedRetryable' | 'Cancelled' | 'Completed' | 'deleted' | null;
  live: 'running' | 'retrying' | null;
  /** Its newest run that ended without success was not cancelled. */
  heals: boolean;
  accepted: boolean;
  /** A run ended without success since it was accepted. */
  open: boolean;
  awaited: boolean;
}

function stateOf(past: Past): CoverageState {
  if (past.receipt === 'settled') return 'done';
  if (past.receipt !== null) return past.accepted ? 'accepted' : 'unsettled';
  if (past.live !== null) return past.live;
  if (past.open) {
    if (past.lastRun === 'deleted') return past.heals ? 'healing' : 'missing';
    if (past.lastRun === 'FailedRetryable') return 'healing';
    return past.lastRun === 'Cancelled' ? 'cancelled' : 'failed';
  }
  if (past.accepted) return 'accepted';
  if (past.awaited) return 'running';
  return past.tick === 'paused' ? 'paused' : 'never_asked';
}

const isHole = (state: CoverageState) =>
  state === 'failed' || state === 'healing' || state === 'cancelled' || state === 'missing';

/** The same numbers for the same seed, in [0, n). */
function dice(seed: number): (n: number) => number {
  let state = seed + 1;
  return (n) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * n);
  };
}

const boundsAt = (start: Instant) => [toTimestamp(start), toTimestamp(start + hourMs)];

async function insertRun(exportId: string, start: Instant, generation: number): Promise<string> {
  const [from, to] = boundsAt(start);
  const id = await side.sql.value<string>`
    insert into runs (export_id, team_id, data_interval_start, data_interval_end, generation)
      values (${exportId}, ${side.teamId}, ${from}, ${to}, ${generation}) returning id`;
  return id ?? '';
}

async function endRun(id: string, status: string, settled = true): Promise<void> {
  await side.sql`
    update runs set status = ${status}, finished_at = now(), settled = ${status === 'Completed' ? settled : null}
      where id = ${id}`;
}

async function putReceipt(exportId: string, past: Past, runId: string): Promise<void> {
  await side.db.query(
    `insert into receipts (export_id, data_interval_start, data_interval_end, run_id, files, rows, bytes, settled)
     values ($1, $2, $3, $4, '[]', 0, 0, $5)
     on conflict (export_id, data_interval_start, data_interval_end) do update set run_id = excluded.run_id, settled = excluded.settled`,
    [exportId, ...boundsAt(past.start), runId, past.receipt === 'settled'],
  );
}

/** One to four things happen to an interval. */
async function live(
  exportId: string,
  past: Past,
  roll: (n: number) => number,
  calm: boolean,
): Promise<void> {
  const fates = ['ran', 'ran', 'paused', 'outside_window', null] as const;
  past.tick = calm ? 'ran' : (fates[roll(fates.length)] ?? null);
  if (past.tick !== null) {
    await side.db.query(
      'insert into ticks (export_id, tick_at, data_interval_start, data_interval_end, fate) values ($1, $3, $2, $3, $4)',
      [exportId, ...boundsAt(past.start), past.tick],
    );
  }
  // A tick that ran made a run.
  const runs = past.tick === 'ran' ? 1 + roll(3) : roll(4);
  for (let generation = 0; generation < runs; generation += 1) {
    const id = await insertRun(exportId, past.start, generation);
    // In every other history most runs complete, so that the mark has a way to go.
    const end = calm && roll(8) > 0 ? 5 : roll(10);
    if (end < 5) {
      const status = (['Failed', 'FailedRetryable', 'Cancelled', 'Failed', 'Cancelled'] as const)[
        end
      ];
      if (status === undefined) return;
      await endRun(id, status);
      past.lastRun = status;
      past.heals = status !== 'Cancelled';
      past.open = past.receipt === null;
    } else if (end < 8) {
      past.receipt = (['settled', 'unsettled', 'unsettled'] as const)[end - 5] ?? null;
      await endRun(id, 'Completed', past.receipt === 'settled');
      await putReceipt(exportId, past, id);
      past.lastRun = 'Completed';
      past.open = false;
    } else {
      past.live = end === 8 ? 'running' : 'retrying';
      if (end === 9) {
        await side.sql`
          update runs set status = 'Running', error_code = 'destination.unavailable' where id = ${id}`;
      }
      return;
    }
    if (roll(4) === 0) {
      await acceptIntervals(side.db, exportId, [{ start: past.start, end: past.start + hourMs }]);
      past.accepted = true;
      past.open = false;
    }
  }
  if (past.open && roll(3) === 0) {
    await side.sql`
      delete from runs where export_id = ${exportId} and data_interval_start = ${toTimestamp(past.start)}`;
    past.lastRun = 'deleted';
  }
}

async function makeHistory(seed: number): Promise<{ item: BatchExport; pasts: Past[] }> {
  const roll = dice(seed);
  const item = await side.createExport({ createdMsAgo: hours * hourMs });
  const first = item.schedule.openIntervalStart;
  const pasts = Array.from({ length: hours }, (_, hour): Past => {
    const start = first + hour * hourMs;
    const nothing = { tick: null, receipt: null, lastRun: null, live: null };
    return { start, ...nothing, heals: false, accepted: false, open: false, awaited: false };
  });
  for (const past of pasts) await live(item.id, past, roll, seed % 2 === 1);
  if (roll(2) === 0) await awaitSome(item.id, pasts, roll);
  return { item, pasts };
}

/** A backfill runs, and has reached some of its intervals. */
async function awaitSome(exportId: string, pasts: Past[], roll: (n: number) => number) {
  const from = roll(hours - 4);
  const part = pasts.slice(from, from + 4 + roll(hours - 4 - from));
  const order = roll(2) === 0 ? 'oldest_first' : 'newest_first';
  const planned = roll(part.length + 1);
  const inOrder = order === 'oldest_first' ? part : part.toReversed();
  for (const past of inOrder.slice(planned)) past.awaited = true;
  const plannedTo = inOrder[planned - 1]?.start;
  await side.sql`
    insert into backfills (export_id, team_id, start_at, end_at, "order", planned_to, concurrency, total_runs)
     values (${exportId}, ${side.teamId}, ${toTimestamp(part[0]?.start ?? 0)},
       ${toTimestamp((part.at(-1)?.start ?? 0) + hourMs)}, ${order},
       ${plannedTo === undefined ? null : toTimestamp(plannedTo)}, 1, 1)`;
}

/** The state of each hour. Fails if the ranges do not cover them exactly, or two neighbours are alike. */
async function statesOf(
  item: BatchExport,
  count = hours,
  start = item.schedule.openIntervalStart,
): Promise<CoverageState[]> {
  const ranges = await coverageOf(side.db, item, timelineOf(item.schedule, []), {
    start,
    end: start + count * hourMs,
  });
  let at = start;
  for (const [index, range] of ranges.entries()) {
    expect(range.start).toBe(at);
    expect(range.state).not.toBe(ranges[index - 1]?.state);
    at = range.end;
  }
  expect(at).toBe(start + count * hourMs);
  return ranges.flatMap((range) =>
    Array.from({ length: (range.end - range.start) / hourMs }, () => range.state),
  );
}

async function holesOf(id: string) {
  const holes = await findHoles(side.db, id);
  if (!holes) throw new Error('no answer for the export');
  return holes;
}

async function markOf(id: string): Promise<Instant | null> {
  const mark = await side.sql.value<string>`
    select high_water_mark from batch_exports where id = ${id}`;
  return mark ? Date.parse(mark) : null;
}

describe('over random histories', () => {
  const seeds = Array.from({ length: isNightly ? 30 : 12 }, (_, seed) => seed);

  it.each(seeds)(
    'coverage, holes and the mark are those of what happened (seed %i)',
    async (seed) => {
      const { item, pasts } = await makeHistory(seed);
      const expected = pasts.map(stateOf);
      expect(await statesOf(item)).toEqual(expected);

      const holes = pasts.filter((past) => isHole(stateOf(past)));
      const unsettled = pasts.find(
        (past) => past.receipt === 'unsettled' && stateOf(past) === 'unsettled',
      );
      expect(await holesOf(item.id)).toMatchObject({
        missing: { count: holes.length, since: holes[0]?.start ?? null },
        unsettledFrom: unsettled?.start ?? null,
      });

      await advanceHighWaterMark(side.db, item.id);
      const firstRan = pasts.findIndex((past) => past.tick === 'ran');
      const passed = pasts
        .slice(firstRan)
        .findIndex(
          (past) =>
            !['done', 'accepted'].includes(stateOf(past)) || (past.receipt === null && past.open),
        );
      const last = passed < 0 ? pasts.at(-1) : pasts[firstRan + passed - 1];
      const mark = firstRan < 0 || passed === 0 || !last ? null : last.start + hourMs;
      expect(await markOf(item.id)).toBe(mark);
    },
  );

  it('a part of the range gives the same states', async () => {
    const { item, pasts } = await makeHistory(101);
    const start = item.schedule.openIntervalStart + 5 * hourMs;
    expect(await statesOf(item, 7, start)).toEqual(pasts.slice(5, 12).map(stateOf));
  });
});

async function createdWithRuns(count: number): Promise<{ item: BatchExport; runIds: string[] }> {
  const item = await side.createExport({ createdMsAgo: count * hourMs });
  await side.decide();
  const runIds = (await side.listRuns(item.id)).map(({ id }) => id);
  return { item, runIds };
}

async function fail(runId: string | undefined): Promise<void> {
  const error = new SluiceError('query.invalid');
  for (;;) {
    await side.failAttempt(runId ?? '', error);
    const status = await side.sql.value`select status from runs where id = ${runId}`;
    if (status === 'Failed') return;
  }
}

it('through the use cases backfilled intervals that failed before the first tick are missing, though the live run succeeded', async () => {
  const { item, runIds } = await createdWithRuns(1);
  const first = item.schedule.openIntervalStart;
  for (let back = 4; back >= 1; back -= 1) {
    await fail(await insertRun(item.id, first - back * hourMs, 0));
  }
  await side.completeRuns(runIds[0]);
  expect(await markOf(item.id)).toBe(first + hourMs);
  expect((await holesOf(item.id)).missing).toEqual({ count: 4, since: first - 4 * hourMs });
});

it('an accepted interval before the mark is no gap to verify, and a run of it that fails is a hole again', async () => {
  const { item, runIds } = await createdWithRuns(3);
  const start = item.schedule.openIntervalStart;
  await side.completeRuns(runIds[0], runIds[2]);
  await fail(runIds[1]);
  await acceptIntervals(side.db, item.id, [{ start: start + hourMs, end: start + 2 * hourMs }]);
  await advanceHighWaterMark(side.db, item.id);
  expect(await markOf(item.id)).toBe(start + 3 * hourMs);
  expect(await findGaps(side.db, item.id)).toEqual([]);
  await fail(await side.retry({ exportId: item.id, runId: runIds[1] }));
  expect(await statesOf(item, 3)).toEqual(['done', 'failed', 'done']);
  expect((await holesOf(item.id)).missing).toEqual({ count: 1, since: start + hourMs });
});
