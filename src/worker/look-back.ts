import { floorInstant } from '../domain/time.ts';
import { appendLogEntries } from '../store/log-entries.ts';
import { type LookBack, markSettled, takeLookBacks } from '../store/look-backs.ts';
import { insertRuns } from '../store/runs.ts';
import type { ExecutorOptions } from './execute-run.ts';
import { sourceRequestOf } from './source-request.ts';

/** Intervals that one sweep looks at. */
const perSweep = 20;

/**
 * Looks at completed intervals for rows that came late: where a transaction that began before the
 * interval's end outlived the wait, and, with `LATE_LOOKBACK_HOURS`, where other hosts' clocks gave
 * the rows their time. Such an interval runs again and its files and manifest are replaced, so each
 * row is in exactly one manifest in force.
 *
 * @returns how many runs were made
 */
export async function lookBack(options: ExecutorOptions): Promise<number> {
  const { db, policy } = options.context;
  let made = 0;
  for (const item of await takeLookBacks(db, policy.lateLookbackHours, perSweep)) {
    try {
      if (await lookAt(options, item)) made += 1;
    } catch (error) {
      options.onSweepError(error);
    }
  }
  return made;
}

async function lookAt(options: ExecutorOptions, item: LookBack): Promise<boolean> {
  const { db } = options.context;
  const signal = AbortSignal.timeout(60_000);
  const source = options.plugins.sourceOf(item.model);
  if (!item.settled && !(await source.hasEnded(item.pending, signal))) return false;
  const interval = {
    start: floorInstant(item.intervalStart),
    end: floorInstant(item.intervalEnd),
  };
  const request = sourceRequestOf(item, interval);
  const late = await source.hasLateRows(request, item.snapshot, item.recordsTotalCount, signal);
  const { exportId, teamId, runId } = item;
  return db.transaction(async (tx) => {
    if (!late) {
      if (!item.settled) await markSettled(tx, runId);
      return false;
    }
    const runs = await insertRuns(tx, [{ exportId, teamId, interval, backfillId: null }]);
    // The interval has a live run, which settles for itself.
    if (runs.length === 0) return false;
    if (!item.settled) await markSettled(tx, runId);
    await appendLogEntries(tx, [
      {
        teamId,
        exportId,
        runId: null,
        level: 'WARNING',
        message: `Rows came late for ${item.intervalStart} to ${item.intervalEnd}; the interval runs again.`,
      },
    ]);
    return true;
  });
}
