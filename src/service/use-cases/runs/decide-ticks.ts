import type { Sql } from '../../../state/store/database/database.ts';
import {
  endSuperseded,
  goOnCounting,
  listLiveRuns,
  type Supersession,
  supersede,
} from '../../../state/store/intervals/superseded.ts';
import {
  type DecidedTick,
  lockDueSchedules,
  putOffSchedule,
  readNow,
  recordTicks,
  type ScheduleRow,
  storeSchedules,
} from '../../../state/store/intervals/ticks.ts';
import { newestCadence } from '../../scheduling/boundary.ts';
import { jitterMs } from '../../scheduling/jitter.ts';
import { newestDue, planTicks, supersedeEarlier } from '../../scheduling/plan.ts';
import type { Context } from '../context.ts';

const exportsPerPage = 500;
/** Ticks decided in one transaction: the limit keeps it near one second after any outage. */
const ticksPerPage = 5_000;
/** Maximum pages of one call: the caller has other work too. */
const maxPages = 20;
/** An export whose schedule cannot be planned is tried again after this time. */
const putOffSeconds = 60;
/** A tick of an export that has one run at a time waits so long, and looks again, while a run is live. */
const waitSeconds = 5;

export interface DecideTicksOptions {
  /** Called for each export whose schedule could not be planned. */
  readonly onError: (error: unknown, exportId: string) => void;
}

/**
 * Decides the due ticks, in pages, oldest first. In one transaction, each page records the fates of the ticks, creates the runs with their
 * outbox rows and advances the schedules. Each worker skips the exports that another one has locked.
 */
export async function decideTicks(context: Context, options: DecideTicksOptions): Promise<number> {
  let tickCount = 0;
  for (let pages = 0; pages < maxPages; pages += 1) {
    const page = await context.db.transaction(async (tx) => {
      const now = await readNow(tx);
      const due = await lockDueSchedules(tx, now, exportsPerPage);
      const runs = await decideSchedules(tx, due, now, context, options);
      return { runs, exports: due.length };
    });
    tickCount += page.runs;
    if (page.exports === 0) break;
  }
  return tickCount;
}

async function decideSchedules(
  tx: Sql,
  due: readonly ScheduleRow[],
  now: number,
  { policy }: Context,
  options: DecideTicksOptions,
): Promise<number> {
  if (due.length === 0) return 0;
  const ticksPerExport = Math.ceil(ticksPerPage / due.length);
  const ticks: DecidedTick[] = [];
  const advanced: Pick<ScheduleRow, 'exportId' | 'schedule'>[] = [];
  const superseding: Supersession[] = [];
  // These exports have one run at a time.
  const moded = due.filter(({ mode }) => mode !== 'append').map(({ exportId }) => exportId);
  const liveRuns = moded.length === 0 ? [] : await listLiveRuns(tx, moded);
  const live = new Map(liveRuns.map((run) => [run.exportId, run]));
  for (const row of due) {
    try {
      const plan = planExport(row, now, ticksPerExport, policy.maxJitterSeconds);
      const { newest } = plan;
      const run = live.get(row.exportId) ?? null;
      if (newest !== null && run !== null && !run.isFailing) {
        await putOffSchedule(tx, row.exportId, waitSeconds);
        continue;
      }
      if (newest !== null) {
        const passed = plan.ticks.filter(({ fate }) => fate === 'superseded');
        const intervals = passed.map(({ interval }) => interval);
        superseding.push({ exportId: row.exportId, teamId: row.teamId, run, newest, intervals });
      }
      ticks.push(...plan.ticks);
      advanced.push({ exportId: row.exportId, schedule: plan.schedule });
    } catch (error) {
      options.onError(error, row.exportId);
      await putOffSchedule(tx, row.exportId, putOffSeconds);
    }
  }
  await endSuperseded(tx, superseding);
  await supersede(tx, superseding);
  const recorded = await recordTicks(tx, ticks);
  await goOnCounting(tx, superseding);
  await storeSchedules(tx, advanced);
  return recorded;
}

/** @throws if the stored schedule is broken, or if its plan cannot be stored */
function planExport(
  { exportId, teamId, mode, schedule }: ScheduleRow,
  now: number,
  limit: number,
  maxJitterSeconds: number,
) {
  const plan = planTicks(schedule, now, limit);
  if (!Number.isFinite(plan.schedule.nextTickAt)) throw new Error('the schedule has no next tick');
  const jitter = jitterMs(exportId, newestCadence(schedule.cadences), maxJitterSeconds);
  // Of an export that has no past.
  const newest = mode === 'append' ? null : newestDue(schedule, now);
  const fated = mode === 'append' ? plan.ticks : supersedeEarlier(plan.ticks, newest);
  const ticks = fated.map(({ tickAt, interval, fate }) => {
    if (!(interval.start < interval.end)) throw new Error('an interval of the schedule is empty');
    return { exportId, teamId, tickAt, interval, fate, availableAt: tickAt + jitter };
  });
  return { ticks, schedule: plan.schedule, newest };
}
