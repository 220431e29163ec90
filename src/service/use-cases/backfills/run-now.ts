import type { BatchExport } from '../../../foundation/domain/batch-export.ts';
import { Refusal } from '../../../foundation/domain/problem.ts';
import {
  type DataInterval,
  floorInstant,
  type Instant,
  inSeconds,
  toTimestamp,
} from '../../../foundation/domain/time.ts';
import { findPassedOverIn } from '../../../state/store/exports/backfills.ts';
import { lockExport } from '../../../state/store/exports/exports.ts';
import { listLiveRuns, supersede } from '../../../state/store/intervals/superseded.ts';
import type { Sql } from '../../../state/store/database/database.ts';
import { readNow } from '../../../state/store/intervals/ticks.ts';
import type { Context } from '../context.ts';
import { widenRange } from '../../scheduling/backfill-range.ts';
import { previewIntervals } from '../../scheduling/preview.ts';
import { boundAtOrBefore, boundBefore, type Timeline } from '../../scheduling/timeline.ts';
import { windowOf } from '../exports/schedule.ts';
import { readTimeline } from '../exports/timeline.ts';
import { countWanted, recordBackfill, type StartedBackfill, wholeRange } from './start-backfill.ts';

/** The backfill that was started, or the reason for none. */
export type RanNow = { readonly started: StartedBackfill } | { readonly reason: string };

/**
 * Exports every interval that has ended and has no data, from the start of the export on, as a backfill. Of any mode but append only
 * the newest one: it has all rows of now, or all changes until now.
 *
 * @throws Refusal as a backfill does
 */
export async function runNow(context: Context, batchExport: BatchExport): Promise<RanNow> {
  const { id, mode, schedule, paused, createdAt } = batchExport;
  const { db } = context;
  if (paused) {
    return {
      reason: 'The export is paused. Unpause it: that can export what the pause has missed.',
    };
  }
  const now = await readNow(db);
  const { startAt, endAt } = windowOf(batchExport.startAt, batchExport.endAt);
  if (startAt !== null && startAt >= now) {
    return {
      reason: `The export starts at ${textOf(startAt)}, its start_at. Nothing is due before.`,
    };
  }
  const end = Math.min(now, endAt ?? now);
  const start = mode === 'append' ? (startAt ?? floorInstant(createdAt)) : end - marginMs;
  const timeline = await readTimeline(db, id, schedule, { start, end });
  const whole = mode === 'append' ? { start, end } : newestInterval(timeline, end, startAt);
  const range = whole && whole.start < whole.end ? widenRange(timeline, whole, now) : null;
  const present = previewIntervals(schedule, now, 1)[0]?.interval.end ?? now;
  const next =
    endAt !== null && endAt < present
      ? `The export ended at ${textOf(endAt)}, its end_at.`
      : `The present interval ends at ${textOf(present)}, and is exported then.`;
  if (range === null) return { reason: `No interval has ended yet. ${next}` };
  const upTo = textOf(range.end);
  const passesOver = await findPassedOverIn(db, id, range, 'failed');
  if (countWanted(timeline, range, passesOver) === 0) {
    const what = mode === 'append' ? 'Every interval up to' : 'The interval that ended at';
    return { reason: `${what} ${upTo} is exported or has a run. ${next}` };
  }
  try {
    const started = await db.transaction((tx) => begin(tx, context, batchExport, range));
    if (started === null) {
      return {
        reason: `A run is in progress. When it has ended, the interval up to ${upTo} is exported.`,
      };
    }
    context.doorbell.backfillWaiting(started.backfillId);
    return { started };
  } catch (error) {
    const problem = error instanceof Refusal ? error.problems[0] : undefined;
    if (problem?.code !== 'conflict') throw error;
    return { reason: problem.detail };
  }
}

/** Longer than two intervals. */
const marginMs = 20 * 86_400_000;

/** The newest interval that has ended; null if it ended before the export begins. */
function newestInterval(
  timeline: Timeline,
  upTo: Instant,
  startAt: Instant | null,
): DataInterval | null {
  const end = boundAtOrBefore(timeline, upTo);
  return startAt !== null && end <= startAt ? null : { start: boundBefore(timeline, end), end };
}

/** @returns null if a run must end first */
async function begin(
  tx: Sql,
  context: Context,
  batchExport: BatchExport,
  range: DataInterval,
): Promise<StartedBackfill | null> {
  const { id: exportId, teamId, mode } = batchExport;
  if (mode !== 'append') {
    await lockExport(tx, exportId);
    if ((await listLiveRuns(tx, [exportId])).length > 0) return null;
    // It takes the place of the intervals before it that have no data.
    await supersede(tx, [{ exportId, teamId, run: null, newest: range.end, intervals: [] }]);
  }
  return recordBackfill(tx, context, batchExport, wholeRange(range, 'failed'));
}

const textOf = (at: Instant): string => inSeconds(toTimestamp(at));
