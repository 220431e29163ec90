import { type DataInterval, describeInterval } from '../../../foundation/domain/time.ts';
import type { Transactor } from '../../../state/store/database/database.ts';
import {
  type Backfill,
  findPassedOver,
  finishBackfill,
  type PassesOver,
  passesNothing,
} from '../../../state/store/exports/backfills.ts';
import type { RunStatements } from '../../../state/store/runs/run-statements.ts';
import { pageOfIntervals } from '../../scheduling/backfill-range.ts';
import { withRange } from '../../scheduling/timeline.ts';
import type { Context } from '../context.ts';
import { noteInLog } from '../exports/activity.ts';
import { readTimeline } from '../exports/schedule.ts';

const pageSize = 500;

/**
 * Creates the next runs of a backfill, up to its concurrency, and ends it when all have finished. If it runs all
 * intervals, it waits at one whose live run began before it was asked for: that run may lack newer rows.
 * Any number of workers may call it at any time, for any backfill.
 */
export async function advanceBackfill(
  context: Pick<Context, 'db'>,
  statements: RunStatements,
  backfillId: string,
): Promise<number> {
  let runCount = 0;
  for (;;) {
    const step = await advancePage(context, statements, backfillId);
    runCount += step.made;
    if (!step.more) return runCount;
  }
}

async function advancePage(
  { db }: Pick<Context, 'db'>,
  statements: RunStatements,
  backfillId: string,
): Promise<{ readonly made: number; readonly more: boolean }> {
  const backfill = await statements.findAdvancing(backfillId);
  if (!backfill) return { made: 0, more: false };
  const { exportId, teamId, schedule, liveRuns, plannedTo: after } = backfill;
  // If one of them ends after this was read, its end advances the backfill again.
  const room = backfill.concurrency - liveRuns;
  if (room <= 0) return { made: 0, more: false };

  const limit = backfill.reprocess === 'all' ? room : pageSize;
  const timeline = withRange(
    await readTimeline(db, exportId, schedule, backfill.range),
    backfill.range,
  );
  const next = pageOfIntervals(timeline, backfill.range, {
    order: backfill.order,
    after: after ?? undefined,
    limit,
  });
  const isWaited = ({ start }: DataInterval) =>
    backfill.reprocess === 'all' && backfill.begunBefore.includes(start);
  const waited = next.findIndex(isWaited);
  const page = waited === -1 ? next : next.slice(0, waited);
  if (next.length === 0) {
    if (liveRuns === 0) await endBackfill(db, backfill);
    return { made: 0, more: false };
  }
  const starts = page.map(({ start }) => start);
  const passesOver: PassesOver =
    backfill.reprocess === 'all'
      ? passesNothing
      : await findPassedOver(db, exportId, starts, backfill.reprocess);
  const intervals = page.filter((interval) => !passesOver(interval.start));
  const taken = intervals.slice(0, room);
  // Up to the last interval taken if the concurrency is reached, else the whole page.
  const last = (intervals.length > room ? taken.at(-1) : page.at(-1)) ?? null;
  if (last === null) return { made: 0, more: false };
  const runs = taken.map((interval) => ({ exportId, teamId, interval, backfillId }));
  const intervalCount = page.indexOf(last) + 1;
  const planned = { backfillId, after, plannedTo: last.start, intervals: intervalCount, runs };
  const runCount = await statements.planPage(planned);
  // Another worker was faster: look again.
  if (runCount === null) return { made: 0, more: true };
  // Without a live run nothing else would end the backfill.
  const isLast = runCount > 0 && page.length < limit && last === page.at(-1);
  return { made: runCount, more: runCount < room && !isLast };
}

async function endBackfill(db: Transactor, backfill: Backfill): Promise<void> {
  const { id, exportId, teamId, range } = backfill;
  await db.transaction(async (tx) => {
    if (!(await finishBackfill(tx, id, 'Completed'))) return;
    const message = `Backfill ${id} (${describeInterval(range)}) has ended.`;
    await noteInLog(tx, { id: exportId, teamId }, 'INFO', message);
  });
}
