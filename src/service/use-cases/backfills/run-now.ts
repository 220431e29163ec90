import type { BatchExport } from '../../../foundation/domain/batch-export.ts';
import { Refusal } from '../../../foundation/domain/problem.ts';
import {
  floorInstant,
  type Instant,
  inSeconds,
  toTimestamp,
} from '../../../foundation/domain/time.ts';
import { findPassedOverIn } from '../../../state/store/exports/backfills.ts';
import { readNow } from '../../../state/store/intervals/ticks.ts';
import type { Context } from '../context.ts';
import { widenRange } from '../../scheduling/backfill-range.ts';
import { previewIntervals } from '../../scheduling/preview.ts';
import { noPast } from '../exports/mode.ts';
import { windowOf } from '../exports/schedule.ts';
import { readTimeline } from '../exports/timeline.ts';
import { countWanted, type StartedBackfill, startBackfill, wholeRange } from './start-backfill.ts';

/** The backfill that was started, or the reason for none. */
export type RanNow = { readonly started: StartedBackfill } | { readonly reason: string };

/**
 * Exports every interval that has ended and has no data, from the start of the export on, as a backfill.
 *
 * @throws Refusal as a backfill does
 */
export async function runNow(context: Context, batchExport: BatchExport): Promise<RanNow> {
  const { id, mode, schedule, paused, createdAt } = batchExport;
  const { db } = context;
  if (mode !== 'append') return { reason: noPast(mode, null).detail };
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
  const bounds = { start: startAt ?? floorInstant(createdAt), end: Math.min(now, endAt ?? now) };
  const timeline = await readTimeline(db, id, schedule, bounds);
  const range = bounds.start < bounds.end ? widenRange(timeline, bounds, now) : null;
  const present = previewIntervals(schedule, now, 1)[0]?.interval.end ?? now;
  const next =
    endAt !== null && endAt < present
      ? `The export ended at ${textOf(endAt)}, its end_at.`
      : `The present interval ends at ${textOf(present)}, and is exported then.`;
  if (range === null) return { reason: `No interval has ended yet. ${next}` };
  const passesOver = await findPassedOverIn(db, id, range, 'failed');
  if (countWanted(timeline, range, passesOver) === 0) {
    return {
      reason: `Every interval up to ${textOf(range.end)} is exported or has a run. ${next}`,
    };
  }
  try {
    return { started: await startBackfill(context, batchExport, wholeRange(range, 'failed')) };
  } catch (error) {
    const problem = error instanceof Refusal ? error.problems[0] : undefined;
    if (problem?.code !== 'conflict') throw error;
    return { reason: problem.detail };
  }
}

const textOf = (at: Instant): string => inSeconds(toTimestamp(at));
