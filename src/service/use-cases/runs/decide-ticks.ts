import type { Schedule } from '../../../foundation/domain/schedule.ts';
import type { Traces } from '../../../foundation/domain/traces.ts';
import { newestCadence } from '../../scheduling/cadence-history.ts';
import { jitterMs } from '../../scheduling/jitter.ts';
import { planTicks } from '../../scheduling/plan.ts';
import type { Sql } from '../../../state/store/database/database.ts';
import {
  type DecidedTick,
  lockDueSchedules,
  putOffSchedule,
  readNow,
  recordTicks,
  type ScheduleRow,
  storeSchedules,
} from '../../../state/store/intervals/ticks.ts';
import type { Context } from '../context.ts';

/** Exports decided in one transaction. */
const exportsPerPage = 500;

/** Ticks decided in one transaction: the limit keeps it near one second after any outage. */
const ticksPerPage = 5_000;

/** Maximum pages of one call: the caller has other work too. */
const maxPages = 20;

/** An export whose schedule cannot be planned is tried again after this time. */
const putOffSeconds = 60;

export interface DecideTicksOptions {
  /** Called for each export whose schedule could not be planned. */
  readonly onError: (error: unknown, exportId: string) => void;
}

/**
 * Decides the due ticks, in pages, oldest first. In one transaction, each page records the fates of
 * the ticks, creates the runs with their outbox rows and advances the schedules. Any number of workers
 * may call it at once: each skips the exports that another one has locked. After `maxPages`, the next
 * call continues.
 *
 * @returns how many runs were created
 */
export async function decideTicks(context: Context, options: DecideTicksOptions): Promise<number> {
  let made = 0;
  for (let pages = 0; pages < maxPages; pages += 1) {
    const page = await context.db.transaction(async (tx) => {
      const now = await readNow(tx);
      const due = await lockDueSchedules(tx, now, exportsPerPage);
      const runs = await decideSchedules(tx, due, now, context, options);
      return { runs, exports: due.length };
    });
    made += page.runs;
    if (page.exports === 0) break;
  }
  return made;
}

async function decideSchedules(
  tx: Sql,
  due: readonly ScheduleRow[],
  now: number,
  { policy, traces }: Context,
  options: DecideTicksOptions,
): Promise<number> {
  if (due.length === 0) return 0;
  const ticksPerExport = Math.ceil(ticksPerPage / due.length);
  const ticks: DecidedTick[] = [];
  const advanced: Pick<ScheduleRow, 'exportId' | 'schedule'>[] = [];
  for (const row of due) {
    try {
      const plan = planExport(row, now, ticksPerExport, policy.maxJitterSeconds);
      const trace = (tick: PlannedTick) => traceOf(traces, row, tick);
      ticks.push(...plan.ticks.map((tick) => ({ ...tick, traceparent: trace(tick) })));
      advanced.push({ exportId: row.exportId, schedule: plan.schedule });
    } catch (error) {
      options.onError(error, row.exportId);
      await putOffSchedule(tx, row.exportId, putOffSeconds);
    }
  }
  const made = await recordTicks(tx, ticks);
  await storeSchedules(tx, advanced);
  return made;
}

type PlannedTick = Omit<DecidedTick, 'traceparent'>;

/** Each run that a tick makes begins a trace: one tick may make thousands. */
function traceOf(
  traces: Traces | undefined,
  { exportId, teamId }: ScheduleRow,
  { fate }: PlannedTick,
): string | null {
  if (!traces || fate !== 'ran') return null;
  const span = traces.begin('tick', {
    kind: 'internal',
    attributes: { 'sluice.team.id': teamId, 'sluice.export.id': exportId },
    parent: null,
  });
  span.end(null);
  return span.traceparent;
}

/** @throws if the stored schedule is broken, or if its plan cannot be stored */
function planExport(
  { exportId, teamId, schedule }: ScheduleRow,
  now: number,
  limit: number,
  maxJitterSeconds: number,
): { readonly ticks: readonly PlannedTick[]; readonly schedule: Schedule } {
  const plan = planTicks(schedule, now, limit);
  if (!Number.isFinite(plan.schedule.nextTickAt)) throw new Error('the schedule has no next tick');
  const jitter = jitterMs(exportId, newestCadence(schedule.cadences), maxJitterSeconds);
  const ticks = plan.ticks.map(({ tickAt, interval, fate }) => {
    if (!(interval.start < interval.end)) throw new Error('an interval of the schedule is empty');
    return { exportId, teamId, tickAt, interval, fate, availableAt: tickAt + jitter };
  });
  return { ticks, schedule: plan.schedule };
}
