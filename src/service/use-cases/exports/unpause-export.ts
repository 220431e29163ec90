import type { BatchExport } from '../../../foundation/domain/batch-export.ts';
import type { MissingIntervals } from '../../../foundation/domain/coverage.ts';
import { notFound } from '../../../foundation/domain/problem.ts';
import type { DataInterval, Instant } from '../../../foundation/domain/time.ts';
import { countIntervals } from '../../scheduling/backfill-range.ts';
import { missedWhilePaused } from '../../scheduling/missed-while-paused.ts';
import { newestGate, unpause } from '../../scheduling/schedule.ts';
import { findHoles } from '../../../state/store/intervals/coverage.ts';
import type { Sql } from '../../../state/store/database/database.ts';
import { lockExportNow } from '../../../state/store/exports/exports.ts';
import { readNow } from '../../../state/store/intervals/ticks.ts';
import { type BackfillRequest, recordBackfill, wholeRange } from '../backfills/start-backfill.ts';
import type { Actor, Context } from '../context.ts';
import { changeExport } from './activity.ts';
import { refusePast } from './mode.ts';
import { readTimeline } from './timeline.ts';

export interface UnpausedExport {
  readonly batchExport: BatchExport;
  /** One for each range of missed intervals, oldest first, then one of the intervals without data. */
  readonly backfillIds: readonly string[];
  /** Runs of these backfills. */
  readonly totalRuns: number;
}

export interface UnpauseOptions {
  /** Also export exactly the intervals whose ticks were missed in the pause. */
  readonly backfill: boolean;
  /** Also export the requested intervals that have no data: runs that failed leave them behind. */
  readonly retryMissing: boolean;
  /** True if an operator asks: the limit of the project's backfills does not count. Default: false. */
  readonly isOfOperator?: boolean;
}

/**
 * Unpauses an export; one that is not paused does not change. If a backfill that the options ask for is refused, the export
 * stays paused.
 */
export async function unpauseExport(
  context: Context,
  actor: Actor,
  id: string,
  options: UnpauseOptions,
): Promise<UnpausedExport> {
  const unpaused = await context.db.transaction(async (tx) => {
    const locked = await lockExportNow(tx, id);
    if (!locked) throw notFound();
    const { batchExport: before, now } = locked;
    if (options.backfill) refusePast(before.mode, 'backfill');
    if (options.retryMissing) refusePast(before.mode, null);
    if (!before.paused) return { batchExport: before, backfillIds: [], totalRuns: 0 };
    const after = {
      ...before,
      paused: false,
      pausedReason: null,
      pausedCode: null,
      schedule: unpause(before.schedule, now),
    };
    const batchExport = await changeExport(tx, actor, 'unpaused', before, after);
    const omitted = await findLeftOut(tx, before, now);
    const requests = [
      ...(options.backfill ? omitted.missed.map((range) => wholeRange(range)) : []),
      ...(options.retryMissing ? holesBefore(omitted, options.backfill, now) : []),
    ];
    const backfillIds: string[] = [];
    let totalRuns = 0;
    for (const request of requests) {
      const backfillRequest = { ...request, isOfOperator: options.isOfOperator ?? false };
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
  /** The ranges of intervals whose ticks were missed in the pause, oldest first. */
  readonly missed: readonly DataInterval[];
  readonly missedIntervals: number;
  /** Requested intervals without data. */
  readonly missing: MissingIntervals;
}

/** Lists the intervals that an unpause would omit now; stores nothing. Nothing is missed if the export is not paused. */
export async function previewUnpause(
  { db }: Pick<Context, 'db'>,
  batchExport: BatchExport,
): Promise<LeftOut> {
  return findLeftOut(db, batchExport, await readNow(db));
}

/** The next tick of an export that has no past exports all that it can. */
const nothingLeft: LeftOut = { missed: [], missedIntervals: 0, missing: { count: 0, since: null } };

async function findLeftOut(
  sql: Sql,
  { id, mode, schedule }: BatchExport,
  now: Instant,
): Promise<LeftOut> {
  if (mode !== 'append') return nothingLeft;
  const pause = { start: newestGate(schedule).pausedSince ?? now, end: now };
  const timeline = await readTimeline(sql, id, schedule, pause);
  const missed = missedWhilePaused(schedule, timeline, now);
  const missedIntervals = missed.reduce((sum, range) => sum + countIntervals(timeline, range), 0);
  const holes = await findHoles(sql, id);
  return { missed, missedIntervals, missing: holes?.missing ?? { count: 0, since: null } };
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
