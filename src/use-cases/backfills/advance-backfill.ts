import type { Instant } from '../../domain/time.ts';
import { describeInterval } from '../../domain/time.ts';
import { pageOfIntervals } from '../../scheduling/backfill-range.ts';
import {
  type Backfill,
  countLiveRuns,
  findPassedOver,
  finishBackfill,
  lockRunningBackfill,
  recordPlanned,
} from '../../store/backfills.ts';
import type { Sql } from '../../store/database.ts';
import { appendLogEntries } from '../../store/log-entries.ts';
import { insertRuns } from '../../store/runs.ts';
import { readSchedule } from '../../store/ticks.ts';
import type { Context } from '../context.ts';

/** Intervals checked in one transaction. */
const pageSize = 500;

/**
 * Creates the next runs of a backfill, up to its concurrency, and ends it when all have finished.
 * Any number of workers may call it at any time, for any backfill.
 *
 * @returns how many runs were created
 */
export async function advanceBackfill(context: Context, backfillId: string): Promise<number> {
  let made = 0;
  for (;;) {
    const step = await context.db.transaction((tx) => planPage(tx, backfillId));
    made += step.made;
    if (!step.more) return made;
  }
}

async function planPage(
  tx: Sql,
  backfillId: string,
): Promise<{ readonly made: number; readonly more: boolean }> {
  const backfill = await lockRunningBackfill(tx, backfillId);
  if (!backfill) return { made: 0, more: false };
  const schedule = await readSchedule(tx, backfill.exportId);
  const live = await countLiveRuns(tx, backfillId);
  const room = backfill.concurrency - live;
  if (room <= 0 || !schedule) return { made: 0, more: false };

  const page = pageOfIntervals(schedule.cadences, backfill.range, {
    order: backfill.order,
    after: backfill.plannedTo ?? undefined,
    limit: backfill.reprocess === 'all' ? room : pageSize,
  });
  if (page.length === 0) {
    if (live === 0) await endBackfill(tx, backfill);
    return { made: 0, more: false };
  }
  const passedOver: ReadonlySet<Instant> =
    backfill.reprocess === 'all'
      ? new Set()
      : await findPassedOver(
          tx,
          backfill.exportId,
          page.map((interval) => interval.start),
          backfill.reprocess,
        );
  const wanted = page.filter((interval) => !passedOver.has(interval.start));
  const taken = wanted.slice(0, room);
  const runs = await insertRuns(
    tx,
    taken.map((interval) => ({
      exportId: backfill.exportId,
      teamId: backfill.teamId,
      interval,
      backfillId,
    })),
  );
  // Up to the last interval taken if the concurrency is reached, else the whole page.
  const last = wanted.length > room ? taken.at(-1) : page.at(-1);
  if (last) {
    const looked = page.indexOf(last) + 1;
    await recordPlanned(tx, backfillId, last.start, looked - runs.length);
  }
  return { made: runs.length, more: runs.length < room };
}

async function endBackfill(tx: Sql, backfill: Backfill): Promise<void> {
  if (!(await finishBackfill(tx, backfill.id, 'Completed'))) return;
  await appendLogEntries(tx, [
    {
      teamId: backfill.teamId,
      exportId: backfill.exportId,
      runId: null,
      level: 'INFO',
      message: `Backfill ${backfill.id} (${describeInterval(backfill.range)}) has ended.`,
    },
  ]);
}
