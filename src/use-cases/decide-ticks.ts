import { newestCadence } from '../scheduling/cadence-history.ts';
import { jitterMs } from '../scheduling/jitter.ts';
import { planTicks } from '../scheduling/plan.ts';
import type { Sql } from '../store/database.ts';
import {
  type DecidedTick,
  lockDueSchedules,
  readNow,
  recordTicks,
  type ScheduleRow,
  storeSchedules,
} from '../store/ticks.ts';
import type { Context } from './context.ts';

/** Exports decided in one transaction, and ticks of one export in it. */
const exportsPerPage = 500;
const ticksPerExport = 200;

/**
 * Decides every tick that is due, in pages: each page records the fates, makes the runs with their
 * outbox rows and moves the schedules on, in one transaction. Any number of workers may do so at
 * once; they pass over each other's exports.
 *
 * @returns how many runs were made
 */
export async function decideTicks(context: Context): Promise<number> {
  let made = 0;
  for (;;) {
    const page = await context.db.transaction(async (tx) => {
      const now = await readNow(tx);
      const due = await lockDueSchedules(tx, now, exportsPerPage);
      const runs = await decideSchedules(tx, due, now, context.policy.maxJitterSeconds);
      return { runs, exports: due.length };
    });
    made += page.runs;
    if (page.exports === 0) return made;
  }
}

async function decideSchedules(
  tx: Sql,
  due: readonly ScheduleRow[],
  now: number,
  maxJitterSeconds: number,
): Promise<number> {
  if (due.length === 0) return 0;
  const ticks: DecidedTick[] = [];
  const advanced: Pick<ScheduleRow, 'exportId' | 'schedule'>[] = [];
  for (const { exportId, teamId, schedule } of due) {
    const plan = planTicks(schedule, now, ticksPerExport);
    const jitter = jitterMs(exportId, newestCadence(schedule.cadences), maxJitterSeconds);
    for (const { tickAt, interval, fate } of plan.ticks) {
      ticks.push({ exportId, teamId, tickAt, interval, fate, availableAt: tickAt + jitter });
    }
    advanced.push({ exportId, schedule: plan.schedule });
  }
  const made = await recordTicks(tx, ticks);
  await storeSchedules(tx, advanced);
  return made;
}
