import type { BatchExport, PauseReason } from '../../../foundation/domain/batch-export.ts';
import type { MissingIntervals } from '../../../foundation/domain/coverage.ts';
import { orNotFound } from '../../../foundation/domain/problem.ts';
import { type DataInterval, type Instant, toTimestamp } from '../../../foundation/domain/time.ts';
import type { Sql } from '../../../state/store/database/database.ts';
import { lockExportNow } from '../../../state/store/exports/exports.ts';
import { findHoles } from '../../../state/store/intervals/coverage.ts';
import { readNow } from '../../../state/store/intervals/ticks.ts';
import { countIntervals } from '../../scheduling/backfill-range.ts';
import { missedWhilePaused, newestGate, pause, unpause } from '../../scheduling/schedule.ts';
import { type BackfillRequest, recordBackfill, wholeRange } from '../backfills/start-backfill.ts';
import type { Actor, Context } from '../context.ts';
import { changeExport } from './activity.ts';
import { refusePast } from './rules.ts';
import { readTimeline } from './schedule.ts';

/**
 * Pauses an export; live runs finish. A paused export does not change, not even last_paused_at; but a pause that Sluice made becomes
 * that of the person who asks for one, so that it does not end by itself.
 *
 * @param reason null: a person's
 */
export async function pauseExport(
  context: Context,
  actor: Actor,
  id: string,
  reason: PauseReason | null = null,
): Promise<BatchExport> {
  return context.db.transaction(async (tx) => {
    const { batchExport: before, now } = orNotFound(await lockExportNow(tx, id));
    if (before.paused) {
      const isTakenOver = reason === null && before.pausedReason !== null;
      if (!isTakenOver) return before;
      const own = { ...before, pausedReason: null, pausedCode: null };
      return changeExport(tx, actor, 'paused', before, own);
    }
    const after = {
      ...before,
      paused: true,
      lastPausedAt: toTimestamp(now),
      pausedReason: reason?.text ?? null,
      pausedCode: reason?.code ?? null,
      schedule: pause(before.schedule, now),
    };
    return changeExport(tx, actor, 'paused', before, after);
  });
}

interface UnpauseOptions {
  /** Also export exactly the intervals whose ticks were missed in the pause. */
  readonly backfill: boolean;
  /** Also export the requested intervals that have no data: runs that failed leave them behind. */
  readonly retryMissing: boolean;
  /** True if an operator asks: the limit of the project's backfills does not count. Default: false. */
  readonly isOfOperator?: boolean;
}

/**
 * If a backfill that the options ask for is refused, the export stays paused.
 * @returns backfills: one for each range of missed intervals, oldest first, then one of the intervals without data
 */
export async function unpauseExport(
  context: Context,
  actor: Actor,
  id: string,
  options: UnpauseOptions,
) {
  const unpaused = await context.db.transaction(async (tx) => {
    const { batchExport: before, now } = orNotFound(await lockExportNow(tx, id));
    if (options.backfill) refusePast(before.mode, 'backfill');
    if (options.retryMissing) refusePast(before.mode, null);
    const backfillIds: string[] = [];
    let totalRuns = 0;
    if (!before.paused) return { batchExport: before, backfillIds, totalRuns };
    const noPause = { paused: false, pausedReason: null, pausedCode: null };
    const after = { ...before, ...noPause, schedule: unpause(before.schedule, now) };
    const batchExport = await changeExport(tx, actor, 'unpaused', before, after);
    const omitted = await findLeftOut(tx, before, now);
    const requests = [
      ...(options.backfill ? omitted.missed.map((range) => wholeRange(range)) : []),
      ...(options.retryMissing ? holesBefore(omitted, options.backfill, now) : []),
    ];
    const { isOfOperator = false } = options;
    for (const request of requests) {
      const backfillRequest = { ...request, isOfOperator };
      const recorded = await recordBackfill(tx, context, batchExport, backfillRequest);
      backfillIds.push(recorded.backfillId);
      totalRuns += recorded.totalRuns;
    }
    return { batchExport, backfillIds, totalRuns };
  });
  for (const id of unpaused.backfillIds) context.doorbell.backfillWaiting(id);
  return unpaused;
}

/** The intervals that an unpause omits unless its options include them. */
export interface LeftOut {
  readonly missed: readonly DataInterval[];
  readonly missedIntervals: number;
  readonly missing: MissingIntervals;
}

/** Lists the intervals that an unpause would omit now; stores nothing. Nothing is missed if the export is not paused. */
export async function previewUnpause(
  { db }: Pick<Context, 'db'>,
  batchExport: BatchExport,
): Promise<LeftOut> {
  return findLeftOut(db, batchExport, await readNow(db));
}

async function findLeftOut(
  sql: Sql,
  { id, mode, schedule }: BatchExport,
  now: Instant,
): Promise<LeftOut> {
  const none = { count: 0, since: null };
  // The next tick of an export that has no past exports all that it can.
  if (mode !== 'append') return { missed: [], missedIntervals: 0, missing: none };
  const pause = { start: newestGate(schedule).pausedSince ?? now, end: now };
  const timeline = await readTimeline(sql, id, schedule, pause);
  const missed = missedWhilePaused(schedule, timeline, now);
  const missedIntervals = missed.reduce((sum, range) => sum + countIntervals(timeline, range), 0);
  const holes = await findHoles(sql, id);
  return { missed, missedIntervals, missing: holes?.missing ?? none };
}

/** Two backfills never overlap: from the first missed interval on, the backfills of these export what lacks data. */
function holesBefore(
  { missed, missing: { since } }: LeftOut,
  hasMissed: boolean,
  now: Instant,
): BackfillRequest[] {
  const end = (hasMissed ? missed[0]?.start : undefined) ?? now;
  return since === null || since >= end ? [] : [wholeRange({ start: since, end }, 'missing')];
}
